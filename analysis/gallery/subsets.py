"""What the subset heatmap shows: 8 x 8 subsets per panel, and what is missing and why.

Rows are the subsets of the absolute embeddings, columns those of the relative ones. A panel holds
one data set, one metric and one level of every factor in `NEVER_AVERAGED`; over the rest of the
grid and over seeds it shows means. This is the paper's ablation figure; `subsets_drawing` draws it.
"""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.captions import coverage_sentence, notes, own_protocol
from analysis.coverage import CLASSES
from analysis.layout import file_name
from analysis.style import HATCHES
from analysis.tables import (
    PROBLEM_FACTORS,
    Group,
    Measure,
    measure,
    score,
)
from model.config import RELATIVE_EMBEDDINGS, TIMED_EMBEDDINGS
from study.space import label

NEVER_AVERAGED = ("model", "heads", *PROBLEM_FACTORS)
"""Factors whose levels answer different questions: each level has panels of its own."""

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
        protocol: under which candidates, by name.
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
    protocol: str
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
        held = (f"{k}-{v}" for k, v in self.held)
        return file_name("subsets", self.dataset, self.measure.column, *held)


def panels_of(
    group: Group, metrics: Sequence[str], factors: Sequence[str]
) -> tuple[HeatmapData, ...]:
    """Return a panel of a group for each metric; one where the problem itself ranks all items.

    Args:
        group: the measured cells of one data set at one level of each factor in `NEVER_AVERAGED`.
        metrics: columns of the results.
        factors: those that the study sweeps.
    """
    grid = [name for name in factors if name not in NEVER_AVERAGED]
    measures = [measure(metric) for metric in metrics]
    if own_protocol("popular-100", group.cells) == "full":  # the same ranks under two names
        measures = [column for column in measures if column.protocol != "full"]
    return tuple(_panel(group, column, grid) for column in measures)


def _panel(group: Group, column: Measure, swept_factors: list[str]) -> HeatmapData:
    """Return the panel of a group; it averages over those of the factors that differ in it."""
    declared = group.cells
    grid = [name for name in swept_factors if declared[name].nunique() > 1]
    cells = _cells(declared, column.column, grid)
    rows = tuple(
        tuple(
            cells.get(label((*row, *relative))) or _undeclared((*row, *relative))
            for relative in COLUMNS
        )
        for row in ROWS
    )
    over = " over all items" if column.protocol == "full" else ""
    n_counted = sum(cell.counted for row in rows for cell in row)
    count = Counter(declared["class"])
    classes = tuple((name, count[name]) for name in CLASSES if count[name])
    return HeatmapData(
        dataset=group.dataset,
        measure=column,
        protocol=own_protocol(column.protocol, declared),
        held=group.held,
        cells=rows,
        n_counted=n_counted,
        n_declared=len(declared),
        classes=classes,
        title=f"{column.split.capitalize()} {column.title}{over} on {group.title}",
        coverage=coverage_sentence(n_counted, len(declared), dict(classes)),
        notes=notes(column, declared, grid),
    )


def _cells(declared: pd.DataFrame, metric: str, grid: list[str]) -> dict[str, HeatmapCell]:
    """Average each declared subset: seeds first, then the points of the grid, each point once."""
    frame = declared[["embeddings", *grid, "outcome", "counted", "reason", metric]]
    valued = frame["counted"] & frame[metric].notna()
    points = frame[valued].groupby(["embeddings", *grid], dropna=False, sort=False)[metric].mean()
    means = points.groupby(level="embeddings").mean().to_dict()
    missing = frame[~valued]
    # A cell that counts and still lacks this metric was stored without it.
    kinds = missing["outcome"].mask(missing["counted"], "unmeasured")
    causes: dict[str, Counter[tuple[str, str]]] = {}
    for subset, kind, reason in zip(
        missing["embeddings"], kinds, missing["reason"].fillna(""), strict=True
    ):
        causes.setdefault(subset, Counter())[kind, reason] += 1
    return {
        subset: _cell(subset, means.get(subset, math.nan), size, causes.get(subset, Counter()))
        for subset, size in Counter(frame["embeddings"]).items()
    }


def _cell(
    subset: str, value: float, declared: int, causes: Counter[tuple[str, str]]
) -> HeatmapCell:
    """Describe a declared subset; `causes` counts its missing cells by kind and reason."""
    if not causes:
        state = "complete"
    elif math.isnan(value):
        state = min((kind for kind, _ in causes), key=list(HATCHES).index)
    else:
        state = "partial"
    reasons = tuple(
        ("" if times == 1 else f"{times} x ")
        + HATCHES[kind].label
        + (f": {reason}" if reason else "")
        for (kind, reason), times in causes.items()
    )
    members = subset.lower().split("+")
    return HeatmapCell(
        subset=subset,
        value=value,
        counted=declared - causes.total(),
        declared=declared,
        state=state,
        reasons=reasons,
        timed=any(member in TIMED_EMBEDDINGS for member in members),
    )


def _undeclared(subset: tuple[str, ...]) -> HeatmapCell:
    return HeatmapCell(
        subset=label(subset),
        value=math.nan,
        counted=0,
        declared=0,
        state="undeclared",
        reasons=("not declared by this study",),
        timed=any(member in TIMED_EMBEDDINGS for member in subset),
    )
