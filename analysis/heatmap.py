"""What the subset heatmap shows: 8 x 8 subsets per panel, and what is missing and why.

Rows are the subsets of the absolute embeddings, columns those of the relative ones. A panel holds
one data set, one metric and one level of every factor in `NEVER_AVERAGED`; over the rest of the
grid and over seeds it shows means. This is the paper's ablation figure; `analysis.heatmap_drawing`
draws it.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pandas as pd

from analysis.frames import CLASSES
from analysis.style import HATCHES, TIME_MARK
from analysis.tables import (
    Measure,
    level,
    measure,
    measured_cells,
    metric_columns,
    score,
    swept,
)
from model.config import RELATIVE_EMBEDDINGS, TIMED_EMBEDDINGS
from model.errors import RequestError
from study.space import PER_EMBEDDING, label

NEVER_AVERAGED = ("model", "heads", "target_time", "repeats")
"""Factors whose levels answer different questions: each level has panels of its own."""

_SETTINGS = ("hidden", "heads", "dropout", "weight_decay", "max_len", "batch", "epochs")
"""Factors that every caption states, swept or not."""

METRICS = ("test_ndcg@10", "test_recall@10", "test_full_ndcg@10")
"""The panels drawn for each data set: the paper's protocol, and the ranking of all items."""


ROWS: tuple[tuple[str, ...], ...] = tuple(
    tuple(name for name, held in zip(("day", "con", "pos"), bits, strict=True) if held)
    for bits in itertools.product((False, True), repeat=3)
)
"""Subsets without Day first, so that those blind to the target's time share one corner."""

COLUMNS: tuple[tuple[str, ...], ...] = tuple(
    itertools.chain.from_iterable(
        itertools.combinations(RELATIVE_EMBEDDINGS, size) for size in range(4)
    )
)


@dataclass(frozen=True, slots=True)
class HeatmapCell:
    """One of the 64 subsets in a panel.

    Attributes:
        subset: label, `Day+Pos+Sin+Log` or `none`.
        value: mean of the metric, NaN without a complete trial.
        counted: declared cells behind the value.
        declared: declared cells of this subset in the panel.
        state: `complete`, `partial` (some declared cells lack a value), or why there is none: a
            key of `style.HATCHES`.
        reasons: what is missing and why, one text each.
        timed: whether an embedding of the subset sees the target's time.
    """

    subset: str
    value: float
    counted: int
    declared: int
    state: str
    reasons: tuple[str, ...]
    timed: bool

    @property
    def text(self) -> str:
        """The number printed in the cell; a partial one adds how much of its grid it covers."""
        if math.isnan(self.value):
            return ""
        shown = score(self.value)
        return shown if self.state == "complete" else f"{shown}<br>{self.counted}/{self.declared}"


@dataclass(frozen=True, slots=True)
class HeatmapData:
    """What one panel shows.

    Attributes:
        dataset: data set of the panel.
        measure: metric column and what it means.
        held: the level of each factor in `NEVER_AVERAGED` that the study sweeps.
        cells: 8 x 8, `ROWS` by `COLUMNS`.
        n_counted: declared cells with a value; a duplicate has that of the trial it repeats.
        n_declared: all declared cells of the panel.
        classes: how many declared cells are of each class; adds up to `n_declared`.
        title: metric and data set, with the held levels.
        coverage: "n of N cells" and what the rest is.
        notes: sentences of the caption: protocol, means, heads, target time.
    """

    dataset: str
    measure: Measure
    held: tuple[tuple[str, str], ...]
    cells: tuple[tuple[HeatmapCell, ...], ...]
    n_counted: int
    n_declared: int
    classes: tuple[tuple[str, int], ...]
    title: str
    coverage: str
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """A file name without ending, unique among the panels of a study."""
        parts = ("subsets", self.dataset, self.measure.column, *(f"{k}-{v}" for k, v in self.held))
        return "_".join(parts).replace("@", "-at-").replace("/", "-")


def heatmap_data(
    results: pd.DataFrame,
    cells: pd.DataFrame,
    *,
    dataset: str,
    metric: str,
    held: Mapping[str, str] = MappingProxyType({}),
) -> HeatmapData:
    """Return what a panel shows.

    Args:
        results: one row per trial of the study (the view `results`).
        cells: one row per declared cell.
        dataset: data set of the panel.
        metric: a metric column of `results`, for example `test_ndcg@10`.
        held: the level, as text, of swept factors that this panel holds fixed.

    Raises:
        RequestError: the metric or data set is unknown, the results are of several
            preparations, or a factor of `NEVER_AVERAGED` would be averaged.
    """
    column = measure(metric)
    if metric not in metric_columns(results):
        known = ", ".join(metric_columns(results))
        raise RequestError(f"a figure shows a stored metric, got {metric!r}; use one of {known}")
    joined = measured_cells(results, cells)
    joined = joined[joined["dataset"] == dataset]
    if joined.empty:
        known = ", ".join(sorted(cells["dataset"].unique()))
        raise RequestError(f"the study has no data set {dataset!r}; it has {known}")
    for factor, value in held.items():
        joined = joined[joined[factor].map(level) == value]
    if joined.empty:
        chosen = ", ".join(f"{factor}={value}" for factor, value in held.items())
        raise RequestError(f"the study declares no cell with {chosen} on {dataset}")
    grid = [factor for factor in swept(joined) if factor in cells.columns]
    mixed = [factor for factor in grid if factor in NEVER_AVERAGED]
    if mixed:
        raise RequestError(
            f"levels of {' and '.join(mixed)} answer different questions and are never averaged; "
            "draw one panel for each level"
        )
    by_subset = {str(name): group for name, group in joined.groupby("embeddings", sort=False)}
    rows = tuple(
        tuple(
            _cell((*row, *relative), by_subset.get(label((*row, *relative))), metric, grid)
            for relative in COLUMNS
        )
        for row in ROWS
    )
    n_counted = sum(cell.counted for row in rows for cell in row)
    count = Counter(joined["class"])
    classes = tuple((name, count[name]) for name in CLASSES if count[name])
    levels = tuple((str(factor), str(value)) for factor, value in held.items())
    setting = "".join(f", {factor.replace('_', ' ')} {value}" for factor, value in levels)
    return HeatmapData(
        dataset=dataset,
        measure=column,
        held=levels,
        cells=rows,
        n_counted=n_counted,
        n_declared=len(joined),
        classes=classes,
        title=f"{column.split.capitalize()} {column.title} on {dataset}{setting}",
        coverage=_coverage(n_counted, len(joined), dict(classes)),
        notes=_notes(column, joined, grid),
    )


def panels(
    results: pd.DataFrame, cells: pd.DataFrame, *, metrics: Iterable[str] = METRICS
) -> tuple[HeatmapData, ...]:
    """Return every panel of a study: data sets, then metrics, then levels never averaged.

    Metrics that no complete trial of the study has are left out, unless that leaves none.
    """
    wanted = list(metrics)
    stored = [name for name in wanted if name in results and results[name].notna().any()]
    found = []
    for dataset in dict.fromkeys(cells["dataset"]):
        declared = cells[cells["dataset"] == dataset]
        factors = [name for name in swept(declared) if name in NEVER_AVERAGED]
        choices = (
            declared[factors].map(level).drop_duplicates().to_dict("records") if factors else [{}]
        )
        found += [
            heatmap_data(
                results,
                cells,
                dataset=dataset,
                metric=metric,
                held={str(factor): value for factor, value in choice.items()},
            )
            for metric in stored or wanted[:1]
            for choice in choices
        ]
    return tuple(found)


def _cell(
    subset: tuple[str, ...], declared: pd.DataFrame | None, metric: str, grid: list[str]
) -> HeatmapCell:
    """Average one subset: seeds first, then the points of the grid, each point once."""
    name = label(subset)
    timed = any(member in TIMED_EMBEDDINGS for member in subset)
    if declared is None:
        return HeatmapCell(
            name, math.nan, 0, 0, "undeclared", ("not declared by this study",), timed
        )
    valued = declared[declared["counted"] & declared[metric].notna()]
    missing = declared[~declared.index.isin(valued.index)]
    means = valued.groupby(grid, dropna=False)[metric].mean() if grid else valued[metric]
    value = float(means.mean()) if len(valued) else math.nan
    # A cell that counts and still lacks this metric was stored without it.
    kinds = missing["outcome"].mask(missing["counted"], "unmeasured")
    if missing.empty:
        state = "complete"
    elif len(valued):
        state = "partial"
    else:
        state = min(kinds, key=list(HATCHES).index)
    causes = Counter(zip(kinds, missing["reason"].fillna(""), strict=True))
    reasons = tuple(
        ("" if times == 1 else f"{times} x ")
        + HATCHES[kind].label
        + (f": {reason}" if reason else "")
        for (kind, reason), times in causes.items()
    )
    return HeatmapCell(name, value, len(valued), len(declared), state, reasons, timed)


def _coverage(n_counted: int, n_declared: int, classes: dict[str, int]) -> str:
    """Say "n of N cells" and, where classes differ, how the declared cells divide."""
    whole = f"{n_counted} of {n_declared} cells"
    if classes == {"complete": n_counted}:
        return whole
    parts = [f"{count} {name}" for name, count in classes.items()]
    return f"{whole} ({', '.join(parts)})"


def _notes(column: Measure, joined: pd.DataFrame, grid: list[str]) -> tuple[str, ...]:
    """Return the sentences under the figure."""
    candidates = {
        "popular-100": "protocol popular-100 (100 sampled negatives per user, by popularity)",
        "full": "protocol full (all items except those the user already had)",
    }[column.protocol]
    if column.protocol == "full" and "allowed" in _levels(joined, "repeats"):
        candidates = "protocol full (all items)"
    epoch = {
        "test": "test, read at the best validation epoch",
        "validation": "validation, at the epoch chosen on the same users, hence optimistic",
    }[column.split]
    seeds = joined["seed"].nunique()
    over_seeds = f"mean over {seeds} seeds" if seeds > 1 else "one seed, no mean"
    settings = [
        f"{factor.replace('_', ' ')} {', '.join(_levels(joined, factor))}"
        for factor in _SETTINGS
        if _levels(joined, factor)
    ]
    if grid:
        points = joined[grid].map(level).drop_duplicates().shape[0]
        over_seeds = f"mean over the grid: {points} hyperparameter points, each the {over_seeds}"
        settings += [
            f"{factor.replace('_', ' ')} {', '.join(_levels(joined, factor))}"
            for factor in grid
            if factor not in _SETTINGS
        ]
    notes = [f"{column.title}, {epoch}; {candidates}.", f"{over_seeds.capitalize()}."]
    if settings:
        notes[-1] = f"{over_seeds.capitalize()}; {'; '.join(settings)}."
    if _levels(joined, "heads") == [PER_EMBEDDING]:
        notes.append(
            "With one head per embedding each further embedding narrows every head: "
            "subsets differ in capacity, too."
        )
    counted = joined.groupby(["embeddings"])["counted"].agg(["sum", "size"])
    if ((counted["sum"] > 0) & (counted["sum"] < counted["size"])).any():
        notes.append(
            "n/N in a cell: it rests on n of its N declared cells and is not the same mean "
            "as its neighbours'."
        )
    last = "last" in _levels(joined, "target_time")
    notes.append(
        f"{TIME_MARK} sees the target's time, which is an input of the problem"
        + (" (here replaced by the time of the last known interaction)" if last else "")
        + "; the outlined subsets do not."
    )
    return tuple(notes)


def _levels(joined: pd.DataFrame, factor: str) -> list[str]:
    """Return the known levels of a factor, as text, in numeric order where they are numbers."""
    if factor not in joined.columns:
        return []
    return [level(value) for value in sorted(joined[factor].dropna().unique())]
