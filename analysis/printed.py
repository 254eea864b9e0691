"""The tables of a study by kind, from its store: what the command `tables` prints."""

from typing import Literal, NamedTuple

import numpy as np

from analysis import frames
from analysis.hyperparameter_table import hyperparameter_sheet
from analysis.material import read_material
from analysis.model_table import model_comparisons, model_sheet
from analysis.modes import Mode
from analysis.paper_table import paper_sheet, paper_table
from analysis.sheet import Sheet
from analysis.significance_table import (
    matrix_sheet,
    opinion_sheet,
    power_sheet,
    significance_sheet,
)
from analysis.tables import measure
from analysis.verdicts import verdicts

Kind = Literal["main", "models", "hyperparameters", "significance", "matrix", "power", "opinions"]

OPTIMISM_SEED = 0
"""Seeds the bootstrap that shows how much choosing points flatters validation."""

OPINION_SEED = 1
"""Seeds the crossed bootstrap and the sign flips of the table of other methods."""


class Comparing(NamedTuple):
    """How subsets are compared.

    Attributes:
        metric: such as `ndcg@10`, on the test split.
        protocol: candidates of the metrics.
        mode: see `analysis.modes`.
        reference: subset to compare with, None for the default of `analysis.verdicts`.
        pool_seeds: one seeds' error for all arms.
    """

    metric: str = "ndcg@10"
    protocol: Literal["popular-100", "full"] = "popular-100"
    mode: Mode = "tuned"
    reference: str | None = None
    pool_seeds: bool = False


def study_sheets(  # noqa: PLR0911  one return a kind
    store: str, study: str, *, kind: Kind, comparing: Comparing
) -> list[Sheet]:
    """Read a study and return its tables of a kind; comparisons are one table per group.

    Raises:
        RequestError: no such store or study, nothing to compare, or an unknown metric.
    """
    material = read_material(store, study)
    match kind:
        case "main":
            return [paper_sheet(paper_table(material, protocol=comparing.protocol))]
        case "hyperparameters":
            return [hyperparameter_sheet(material)]
    prefix = "test_" if comparing.protocol == "popular-100" else "test_full_"
    column = measure(prefix + comparing.metric)
    engine = frames.open_reader(store)
    try:
        if kind == "models":
            models = model_comparisons(engine, material, column=column)
            return [model_sheet(compared, column) for compared in models]
        found = verdicts(
            engine,
            material,
            column=column,
            mode=comparing.mode,
            reference=comparing.reference,
            pool_seeds=comparing.pool_seeds,
            generator=np.random.default_rng(OPTIMISM_SEED),
        )
    finally:
        engine.dispose()
    match kind:
        case "significance":
            return [significance_sheet(verdict) for verdict in found]
        case "matrix":
            return [matrix_sheet(verdict) for verdict in found]
        case "power":
            return [power_sheet(verdict) for verdict in found]
        case "opinions":
            generator = np.random.default_rng(OPINION_SEED)
            return [opinion_sheet(verdict, generator) for verdict in found]
