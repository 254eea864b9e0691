"""Arms as tables: a study's declared cells joined with what their trials measured.

An arm is the set of cells that differ only by seed. Only complete trials give values; every other
cell is counted, never averaged. Arms are ordered by validation alone, and the two candidate
protocols never share a table.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import pandas as pd

from model.errors import RequestError
from model.results import SELECTED_BY
from study import space

SELECTION = f"validation_{SELECTED_BY}"
"""The column that chooses epochs and orders arms: the trial's own protocol, validation alone."""

FACTORS: tuple[str, ...] = ("model", *space.FACTORS)
"""What the cells of an arm share beside data set and subset."""

PROBLEM_FACTORS = ("target_time", "protocol", "repeats")
"""Factors that pose another problem: what is known of the target, and which items compete.

No table, ranking, bold or mean spans two levels of these. Other factors change the network or its
training, not the question that it is scored on, so their levels are columns of one table.
"""

_TITLES = {"ndcg": "NDCG", "recall": "Recall", "mrr": "MRR"}


class Measure(NamedTuple):
    """What a metric column holds, for example `test_full_recall@5`."""

    column: str
    split: Literal["validation", "test"]
    protocol: Literal["popular-100", "full"]
    metric: str

    @property
    def title(self) -> str:
        """The metric as papers write it: `NDCG@10`, `Recall@5`, `MRR`."""
        name, at, cut = self.metric.partition("@")
        return _TITLES.get(name, name) + at + cut


def measure(column: str) -> Measure:
    """Read a metric column's name.

    Raises:
        RequestError: the name is not `[validation|test]_[full_]METRIC`.

    >>> measure("test_full_recall@5").title
    'Recall@5'
    """
    for split in ("validation", "test"):
        if column.startswith(f"{split}_full_"):
            return Measure(column, split, "full", column.removeprefix(f"{split}_full_"))
        if column.startswith(f"{split}_"):
            return Measure(column, split, "popular-100", column.removeprefix(f"{split}_"))
    raise RequestError(
        f"a metric names its split first, got {column!r}; write for example test_ndcg@10"
    )


def metric_columns(results: pd.DataFrame) -> list[str]:
    """Return the columns of `results` that hold a metric, in the frame's order."""
    return [name for name in results.columns if name.startswith(("validation_", "test_"))]


def score(value: float) -> str:
    """Write a value in [0, 1] as papers do.

    >>> score(0.31234), score(1.0), score(float("nan"))
    ('.312', '1.000', '–')
    """
    if math.isnan(value):
        return "–"
    return f"{value:.3f}".removeprefix("0")


def level(value: object) -> str:
    """Write one level of a factor: `64`, `per-embedding`, `1e-05`, `0`."""
    if value is None or value is pd.NA or value != value:  # noqa: PLR0124 - only NaN differs
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


def measured_cells(results: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Join each declared cell with the result of its trial.

    Args:
        results: one row per trial (the view `results`); a trial that two studies share may
            stand there twice.
        cells: one row per declared cell, with `class`, `reason` and `trial`.

    Returns:
        `cells` with `heads` as text, the other columns of `results` where `cells` lacks them,
        `outcome`: the class of the trial's own cell where the cell is a duplicate of it, and
        `counted`: the outcome is complete, so that the cell has values. Other cells have none.

    Raises:
        RequestError: complete trials of one data set have different fingerprints.
    """
    complete = results[results["state"] == "complete"].drop_duplicates("trial")
    if "fingerprint" in complete:
        versions = complete.groupby("dataset")["fingerprint"].nunique()
        mixed = sorted(str(name) for name in versions.index[versions > 1])
        if mixed:
            raise RequestError(
                "results of different preparations of a data set are never put together, "
                f"got several fingerprints of {', '.join(mixed)}; launch the study again"
            )
    carried = ["trial", *(name for name in complete.columns if name not in cells.columns)]
    own = cells[~cells["class"].isin(["infeasible", "duplicate"])].drop_duplicates("trial")
    of_trial = cells["trial"].map(own.set_index("trial")["class"]).astype("str")
    outcome = cells["class"].where(cells["class"] != "duplicate", of_trial.fillna("pending"))
    counted = (outcome == "complete") & cells["trial"].isin(complete["trial"])
    joined = cells.assign(
        outcome=outcome, counted=counted, trial=cells["trial"].where(counted)
    ).merge(complete[carried], on="trial", how="left")
    joined["trial"] = cells["trial"].to_numpy()
    joined["heads"] = joined["heads"].map(level).astype("str")
    return joined


def swept(cells: pd.DataFrame) -> list[str]:
    """Return the factors with more than one declared level, in the order of `FACTORS`.

    A missing level is none: those cells do not read the factor.
    """
    return [name for name in FACTORS if name in cells.columns and cells[name].nunique() > 1]


class Group(NamedTuple):
    """The cells of one data set at one level of each factor that is held.

    Attributes:
        dataset: data set of the cells.
        held: (factor, level as text).
        cells: rows of `measured_cells`.
    """

    dataset: str
    held: tuple[tuple[str, str], ...]
    cells: pd.DataFrame

    @property
    def title(self) -> str:
        """Data set and held levels: `ml-1m, target time last`."""
        return ", ".join([self.dataset, *(f"{k.replace('_', ' ')} {v}" for k, v in self.held)])


def separated(measured: pd.DataFrame, factors: list[str]) -> Iterator[Group]:
    """Split measured cells by data set and the levels of `factors`, in declared order."""
    for (dataset, *levels), cells in measured.groupby(
        ["dataset", *factors], sort=False, dropna=False
    ):
        held = tuple((name, level(value)) for name, value in zip(factors, levels, strict=True))
        yield Group(str(dataset), held, cells)


def arms(measured: pd.DataFrame, factors: list[str]) -> pd.DataFrame:
    """Average each arm over its complete seeds.

    Args:
        measured: rows of `measured_cells` that may be compared: a `Group`'s.
        factors: the factors that tell arms of a subset apart.

    Returns:
        One row per arm, but for arms that only repeat the trials of another row: `dataset`,
        `embeddings`, `factors`, `seeds` (complete) and `declared`; for every metric its mean and,
        as `METRIC sd`, the sample standard deviation over seeds (missing for one seed); means of
        `best_epoch`, `n_parameters` and `seconds`. The best mean of `SELECTION` comes first, arms
        without a value last.
    """
    legal = measured[measured["class"] != "infeasible"]
    # The trial of a cell here may be another group's (Pos reads no target's time): a duplicate
    # stands for its trial unless the trial's own cell is here, too.
    by_own = legal.sort_values("class", key=lambda kind: kind == "duplicate", kind="stable")
    feasible = by_own.drop_duplicates("trial").sort_index()
    key = ["dataset", "embeddings", *factors]
    groups = feasible.groupby(key, dropna=False, sort=False)
    metrics = metric_columns(measured)
    others = [name for name in ("best_epoch", "n_parameters", "seconds") if name in measured]
    values = feasible[[*metrics, *others]].astype("float64")
    means = values.groupby([feasible[name] for name in key], dropna=False, sort=False).mean()
    spreads = values[metrics].groupby([feasible[name] for name in key], dropna=False, sort=False)
    table = pd.concat(
        [
            groups["counted"].sum().rename("seeds").astype("int64"),
            groups.size().rename("declared"),
            means,
            spreads.std(ddof=1).add_suffix(" sd"),
        ],
        axis=1,
    ).reset_index()
    return table.sort_values(
        SELECTION, ascending=False, na_position="last", kind="stable"
    ).reset_index(drop=True)


@dataclass(frozen=True, slots=True)
class Table:
    """A printed table: texts only, ready for a page.

    Attributes:
        heading: one text per column.
        rows: as many texts per row.
        best: (row, column) places of the largest mean of each metric column.
        numeric: for each column whether it is set flush right.
    """

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]]
    numeric: tuple[bool, ...]

    def rows_between(self, start: int, stop: int) -> "Table":
        """Return the same table with only the rows from `start` up to `stop`."""
        best = frozenset((row - start, column) for row, column in self.best if start <= row < stop)
        return replace(self, rows=self.rows[start:stop], best=best)


_SAMPLED = (SELECTION, "test_ndcg@10", "test_recall@10", "test_ndcg@5", "test_recall@5", "test_mrr")
_FULL = (
    "validation_full_ndcg@10",
    "test_full_ndcg@10",
    "test_full_recall@10",
    "test_full_ndcg@5",
    "test_full_recall@5",
    "test_full_mrr",
)


def arm_table(
    table: pd.DataFrame, *, protocol: Literal["popular-100", "full"], factors: list[str]
) -> Table:
    """Print rows of `arms` under one protocol, keeping their order.

    A mean over two or more seeds stands with its standard deviation, `.312 ± .004`. Columns that
    the frame lacks or that are all missing are left out.
    """
    candidates = _SAMPLED if protocol == "popular-100" else _FULL
    metrics = [name for name in candidates if name in table and table[name].notna().any()]
    counts = [
        (name, title)
        for name, title in (
            ("best_epoch", "best epoch"),
            ("n_parameters", "parameters"),
            ("seconds", "seconds"),
        )
        if name in table and table[name].notna().any()
    ]
    heading = (
        "subset",
        *(name.replace("_", " ") for name in factors),
        "seeds",
        *(f"{measure(name).split} {measure(name).title}" for name in metrics),
        *(title for _, title in counts),
    )
    rows = []
    for _, arm in table.iterrows():
        cells = [str(arm["embeddings"]), *(level(arm[name]) for name in factors)]
        cells.append(
            str(arm["seeds"])
            if arm["seeds"] == arm["declared"]
            else f"{arm['seeds']} of {arm['declared']}"
        )
        for name in metrics:
            spread = float(arm[f"{name} sd"])
            text = score(float(arm[name]))
            cells.append(text if math.isnan(spread) else f"{text} ± {score(spread)}")
        for name, _ in counts:
            number = float(arm[name])
            digits = 0 if name == "n_parameters" or number >= 10 else 1
            cells.append("–" if math.isnan(number) else f"{number:,.{digits}f}")
        rows.append(tuple(cells))
    first = len(factors) + 2
    best = frozenset(
        (place, first + offset)
        for offset, name in enumerate(metrics)
        for place in range(len(table))
        if len(table) > 1 and table[name].iloc[place] == table[name].max()
    )
    numeric = (False, *(False for _ in factors), *(True for _ in heading[first - 1 :]))
    return Table(heading, tuple(rows), best, numeric)
