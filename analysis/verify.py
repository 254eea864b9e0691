"""A study of planted data sets held against what was planted: the product's proof of itself."""

import json
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from analysis import frames
from analysis.per_user import arms_of, per_user
from analysis.planted import SUBSTITUTES, Verdict, planted_ruling, rulings
from analysis.statistics import Comparison
from analysis.tables import FACTORS, measure, measured_cells
from model.config import Embedding
from model.data.synthetic import PLANTED
from model.errors import RequestError
from study.space import label

COLUMN = "test_full_ndcg@10"
"""Among all items, the user's own included: which of them comes next is what is planted."""


class Verified(NamedTuple):
    """One verdict beside the truth.

    Attributes:
        verdict: what the study says.
        planted: the embedding that its data set was made for; None for none.
        right: whether the verdict is the planted one.
    """

    verdict: Verdict
    planted: Embedding | None
    right: bool


def verified(store: str, study: str) -> tuple[Verified, ...]:
    """Judge every embedding on every planted data set of a study in the store.

    Raises:
        RequestError: no such store or study, a data set without a planted truth, or arms that
            the verdicts need are missing.
    """
    engine = frames.open_reader(store)
    try:
        cells = frames.cells(engine, study)
        measured = measured_cells(frames.results(engine, study), cells)
        values = per_user(engine, study, measure(COLUMN))
    finally:
        engine.dispose()
    planted: dict[str, Embedding | None] = {}
    for dataset, recipe in zip(measured["dataset"], measured["synthetic"], strict=True):
        if isinstance(recipe, str):
            planted[str(dataset)] = PLANTED[json.loads(recipe)["recipe"]]
    strange = sorted(set(measured["dataset"]) - set(planted))
    if strange:
        raise RequestError(
            "verify holds verdicts against a planted truth, got none for "
            f"{', '.join(map(str, strange))}: no trial of it is complete, or it is not a planted "
            "data set; launch the study first, or name one like planted-truth-small"
        )
    swept = [name for name in FACTORS if name in cells and cells[name].nunique() > 1]
    found = rulings(arms_of(measured, values, swept))
    return tuple(
        Verified(verdict, truth, planted_ruling(verdict, truth))
        for verdict in found
        for truth in [planted[verdict.dataset]]
    )


def verdict_table(found: tuple[Verified, ...]) -> Table:
    """Print a row for each data set and embedding: both ways with their intervals, the verdict."""
    table = Table("data set", "embedding", "alone", "left out", "verdict", "planted", "", box=None)
    for one in found:
        verdict = one.verdict
        name = label(SUBSTITUTES if verdict.as_group else [verdict.embedding])
        table.add_row(
            verdict.dataset,
            f"{label([verdict.embedding])} (as {name})" if verdict.as_group else name,
            _interval(verdict.alone),
            _interval(verdict.left_out) if verdict.left_out else "–",
            verdict.ruling,
            "planted" if one.planted == verdict.embedding else "",
            Text("right" if one.right else "WRONG", style="" if one.right else "red"),
        )
    return table


def _interval(comparison: Comparison) -> str:
    low, high = comparison.interval.low, comparison.interval.high
    return f"{comparison.mean:+.3f} [{low:+.3f}, {high:+.3f}]"
