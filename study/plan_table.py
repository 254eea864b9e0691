"""A plan as a person reads it: counts first, then what is impossible or idle, then the arms."""

from collections import Counter, defaultdict

from rich.console import Group
from rich.table import Table
from rich.text import Text

from study.cells import Cell
from study.durations import duration
from study.estimates import Estimate
from study.plan import COORDINATES, Plan

SHOWN_ARMS = 40
SHOWN_REASONS = 12


def plan_table(plan: Plan, cost: Estimate) -> Group:
    """Return the picture of a plan; the JSON form of `meantime plan` lists every cell."""
    parts: list[Text | Group] = [
        Text(f"{plan.study.name}: {plan.study.question}"),
        Text(
            f"{len(plan.cells):,} cells = {len(plan.trials):,} trials + "
            f"{len(plan.infeasible):,} infeasible + {len(plan.duplicates):,} duplicates"
            + (f" + {len(plan.unasked):,} to be asked for" if plan.unasked else "")
        ),
    ]
    reasons = Counter(cell.reason for cell in plan.infeasible)
    parts += [
        Text(f"infeasible, {count:,} cells: {reason}")
        for reason, count in reasons.most_common(SHOWN_REASONS)
    ]
    if len(reasons) > SHOWN_REASONS:
        rest = sum(count for _, count in reasons.most_common()[SHOWN_REASONS:])
        parts.append(Text(f"infeasible, {rest:,} cells: other reasons, see --format json"))
    parts += [Text(f"no-op factor: {no_op.message}") for no_op in plan.no_ops]
    parts += [Text(line) for line in cost_lines(cost)]
    parts.append(_arms(plan))
    return Group(*parts)


def cost_lines(cost: Estimate) -> list[str]:
    """Say what a plan costs, how far to trust it, and how it was found."""
    lines = []
    if cost.trials:
        one = duration(cost.shortest)
        if duration(cost.longest) != one:
            one = f"{one} to {duration(cost.longest)}"
        basis = (
            f"from {cost.measured:,} finished trials, within a factor of {cost.error:.2g}"
            if cost.measured
            else f"from counted work, within a factor of {cost.error:.2g}, if no trial ends before "
            "its last epoch"
        )
        lines.append(
            f"estimate: {one} a trial, {duration(cost.wall_seconds)} in all with {cost.at_once} "
            f"at once ({basis})"
        )
        lines.append(
            f"estimate: {_size(cost.memory)} of memory for the largest trial; "
            f"{_size(cost.disk)} of results; a checkpoint of up to {_size(cost.checkpoint)} for "
            "each trial under way"
        )
    if cost.unknown:
        lines.append(
            f"estimate: none for {', '.join(cost.unknown)}, which this store has never prepared"
        )
    return lines


def _size(n_bytes: float) -> str:
    """Write bytes as a person says them.

    >>> _size(1_500_000_000)
    '1.5 GB'
    """
    for name, unit in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= unit:
            return (
                f"{n_bytes / unit:.2g} {name}"
                if n_bytes < 99 * unit
                else (f"{n_bytes / unit:,.0f} {name}")
            )
    return f"{n_bytes:.0f} bytes"


def _arms(plan: Plan) -> Group:
    """Return one row for each arm, cells that differ only by seed; what is common stands above.

    Points that a search has yet to choose are one row for each subset.
    """
    common: dict[str, object] = {}
    shown: list[str] = []
    for name, values in _columns(plan).items():
        if len(values) == 1:
            common[name] = next(iter(values))
        else:
            shown.append(name)
    arms: dict[tuple[str, ...], list[Cell]] = defaultdict(list)
    for cell in plan.cells:
        arms[tuple(_text(cell, name) for name in shown)].append(cell)
    table = Table(*shown, "seeds", "state", box=None, pad_edge=False)
    for key, cells in list(arms.items())[:SHOWN_ARMS]:
        states = Counter(cell.state for cell in cells)
        seeds = ",".join(str(seed) for seed in dict.fromkeys(cell.seed for cell in cells))
        n_seeds = len({cell.seed for cell in cells})
        state = " ".join(
            f"{count // n_seeds} points {name}" if name == "unasked" else name
            for name, count in states.items()
        )
        table.add_row(*key, seeds, state)
    parts: list[Text | Table] = [
        Text("all: " + ", ".join(f"{name}={value}" for name, value in common.items())),
        table,
    ]
    if len(arms) > SHOWN_ARMS:
        parts.append(
            Text(f".. and {len(arms) - SHOWN_ARMS:,} more arms: --format json lists all cells")
        )
    return Group(*parts)


def _columns(plan: Plan) -> dict[str, set[str]]:
    """Return the values of everything that a cell of this plan may differ in, by its name."""
    searched = {name for contender in plan.contenders for name in contender.open}
    names = [
        *("stage", "dataset", "model", "embeddings"),
        *dict.fromkeys((*COORDINATES, *plan.varying)),
    ]
    asked = [name for name in names if not (plan.study.searched and name in searched)]
    return {name: {_text(cell, name) for cell in plan.cells} for name in asked}


def _text(cell: Cell, name: str) -> str:
    match name:
        case "stage":
            return cell.stage
        case "dataset":
            return cell.dataset
        case "model":
            return cell.model
        case "embeddings":
            return cell.label
    value = cell.factors.get(name)
    return "" if value is None else str(value)
