"""The mean of a metric for each subset: over seeds first, then over the points of the grid."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from analysis.captions import coverage_sentence
from analysis.coverage import CLASSES
from analysis.style import TIME_MARK
from analysis.tables import Group, level
from model.config import EMBEDDINGS, TIMED_EMBEDDINGS


class SubsetMeans(NamedTuple):
    """Means of one metric over one group.

    Attributes:
        table: by subset label: `value` and how many declared cells `counted`, of `declared`.
        points: hyperparameter points averaged over.
        n_counted: cells with a value.
        n_declared: declared cells.
        coverage: "n of N cells" and what the rest is.
    """

    table: pd.DataFrame
    points: int
    n_counted: int
    n_declared: int
    coverage: str


def subset_means(
    group: Group, metric: str, *, factors: Sequence[str], matched: bool = True
) -> SubsetMeans:
    """Average a metric for each subset with a value, in declared order.

    Args:
        group: measured cells that may be averaged over.
        metric: column of the results.
        factors: those that the study sweeps.
        matched: average only over hyperparameter points where every subset that has any value has
            one, so that no subset is favoured by the points that it lacks; where no point is
            shared, every point counts.
    """
    cells = group.cells
    grid = varied(cells, factors)
    valued = cells[cells["counted"] & cells[metric].notna()]
    points = valued.groupby(["embeddings", *grid], dropna=False, sort=False)[metric].mean()
    frame = points.reset_index()
    n_subsets = frame["embeddings"].nunique()
    if matched and grid and len(frame):
        keys = frame[grid].map(level).agg("|".join, axis=1)
        shared = keys.map(frame.groupby(keys)["embeddings"].nunique()) == n_subsets
        if shared.any():
            frame = frame[shared]
    means = frame.groupby("embeddings", sort=False)[metric].mean()
    sizes = cells.groupby("embeddings", sort=False).size()
    counted = valued.groupby("embeddings", sort=False).size()
    table = pd.DataFrame({"value": means})
    table["counted"] = counted.reindex(table.index)
    table["declared"] = sizes.reindex(table.index)
    return SubsetMeans(
        table=table,
        points=max(1, frame[grid].drop_duplicates().shape[0]) if grid else 1,
        n_counted=len(valued),
        n_declared=len(cells),
        coverage=coverage(cells, len(valued)),
    )


def averaged(group: Group, points: int) -> str:
    """Say what a subset's mean is over, and by which mode: a clause."""
    seeds = group.cells["seed"].nunique()
    over = f"means over {seeds} seeds" if seeds > 1 else "one seed, no means"
    if points > 1:
        return f"{over} and {points} hyperparameter points (mode: marginal)"
    return f"{over} at the same hyperparameters (mode: same)"


def varied(cells: pd.DataFrame, factors: Sequence[str]) -> list[str]:
    """Return those of a study's swept factors that differ among these cells."""
    return [name for name in factors if cells[name].nunique(dropna=False) > 1]


def coverage(cells: pd.DataFrame, n_counted: int) -> str:
    """Say "n of N cells" and what the rest of the declared cells is."""
    classes = cells["class"].value_counts()
    counts = {name: int(classes[name]) for name in CLASSES if name in classes}
    return coverage_sentence(n_counted, len(cells), counts) + "."


def members(subset: str) -> tuple[str, ...]:
    """Return a label's embeddings: `Day+Pos` -> `('day', 'pos')`, `none` -> `()`."""
    return tuple(name for name in EMBEDDINGS if name in subset.lower().split("+"))


def timed(subset: str) -> bool:
    """Return whether an embedding of the subset sees the target's time."""
    return any(name in TIMED_EMBEDDINGS for name in members(subset))


def marked(embedding: str) -> str:
    """Return an embedding's name with the mark of those that see the target's time."""
    return embedding.capitalize() + (TIME_MARK if embedding in TIMED_EMBEDDINGS else "")
