"""Factors that a study sweeps although they change nothing: found before anything is trained.

Sweeping an option that the model does not read gives identical trainings, and a heatmap of them
shows bands of noise. The trials' ids tell: if all values of a factor come to one trial, all else
being equal, the factor is a no-op there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from study.space import Value

if TYPE_CHECKING:
    from study.cells import Cell


@dataclass(frozen=True, slots=True)
class NoOp:
    """A swept factor whose values come to the same trials, for all or some subsets of a study.

    Attributes:
        factor: the factor's name.
        values: the values swept, as far as they are feasible for these subsets.
        subsets: labels of the subsets, and names of other models, for which every feasible value
            comes to the same trial.
        everywhere: whether that holds for each subset with two or more feasible values.
        message: what was found and, if it holds everywhere, the next step.
    """

    factor: str
    values: tuple[Value, ...]
    subsets: tuple[str, ...]
    everywhere: bool
    message: str


def no_ops(cells: Iterable["Cell"], *, varying: tuple[str, ...]) -> tuple[NoOp, ...]:
    """Return the swept factors that leave the trial as it is, for all or for some subsets.

    Args:
        cells: a plan's cells; one seed tells as much as all, so only the first is looked at.
        varying: names of the factors that take more than one value over the cells.
    """
    answered = [cell for cell in cells if cell.trial_id is not None]
    one_seed = [cell for cell in answered if cell.seed == answered[0].seed]
    found = (_no_op(factor, one_seed, varying=varying) for factor in varying)
    return tuple(no_op for no_op in found if no_op is not None)


def _no_op(factor: str, cells: list["Cell"], *, varying: tuple[str, ...]) -> NoOp | None:
    others = [name for name in varying if name != factor]
    first: dict[tuple[Any, ...], tuple[Value, str | None]] = {}  # by the choice of all the rest
    swept: dict[str, bool] = {}  # whether another value gave another trial, by subset or model
    taken: dict[str, dict[Value, None]] = {}  # the feasible values, by subset or model
    for cell in cells:
        if factor not in cell.factors:
            continue
        subset = cell.label or cell.model
        taken.setdefault(subset, {})[cell.factors[factor]] = None
        rest = (subset, cell.dataset, *(cell.factors.get(name) for name in others))
        value, trial_id = first.setdefault(rest, (cell.factors[factor], cell.trial_id))
        if cell.factors[factor] != value:
            changes = cell.trial_id != trial_id
            swept[subset] = swept.get(subset, False) or changes
    unchanged = tuple(subset for subset, changes in swept.items() if not changes)
    if not unchanged:
        return None
    values = tuple(dict.fromkeys(value for subset in unchanged for value in taken[subset]))
    everywhere = len(unchanged) == len(swept)
    return NoOp(factor, values, unchanged, everywhere, _message(factor, values, unchanged, swept))


def _message(
    factor: str, values: tuple[Value, ...], unchanged: tuple[str, ...], swept: dict[str, bool]
) -> str:
    found = f"{factor} is swept over {', '.join(map(str, values))} but changes nothing"
    if len(unchanged) == len(swept):
        return (
            f"{found} for any subset of this study: all its cells are duplicates; "
            f"give {factor} one value, or add a subset that reads it"
        )
    named = ", ".join(unchanged[:4]) + (", .." if len(unchanged) > 4 else "")
    return (
        f"{found} for {len(unchanged)} of {len(swept)} subsets ({named}): "
        "their cells are duplicates and are trained once"
    )
