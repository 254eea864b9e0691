"""A plan as a person reads it: counts first, then what is impossible or idle, then the arms."""

from collections import Counter, defaultdict

from rich.console import Group
from rich.table import Table
from rich.text import Text

from study.cells import Cell
from study.plan import Plan

SHOWN_ARMS = 40
SHOWN_REASONS = 12


def plan_table(plan: Plan) -> Group:
    """Return the picture of a plan; the JSON form of `meantime plan` lists every cell."""
    parts: list[Text | Table] = [
        Text(f"{plan.study.name}: {plan.study.question}"),
        Text(
            f"{len(plan.cells):,} cells = {len(plan.trials):,} trials + "
            f"{len(plan.infeasible):,} infeasible + {len(plan.duplicates):,} duplicates"
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
    parts.append(_arms(plan))
    return Group(*parts)


def _arms(plan: Plan) -> Table:
    """Return one row for each arm: cells that differ only by seed."""
    arms: dict[tuple[object, ...], list[Cell]] = defaultdict(list)
    shown = list(dict.fromkeys(("hidden", "heads", "dropout", "weight_decay", *plan.varying)))
    for cell in plan.cells:
        values = ("" if (v := cell.factors.get(name)) is None else v for name in shown)
        arms[cell.dataset, cell.model, cell.label, *values].append(cell)
    table = Table("dataset", "model", "embeddings", *shown, "seeds", "state", box=None)
    for key, cells in list(arms.items())[:SHOWN_ARMS]:
        states = " ".join(dict.fromkeys(cell.state for cell in cells))
        seeds = ",".join(str(cell.seed) for cell in cells)
        table.add_row(*map(str, key), seeds, states)
    if len(arms) > SHOWN_ARMS:
        table.add_row(f".. and {len(arms) - SHOWN_ARMS:,} more arms: --format json lists all")
    return table
