"""How much each factor moves a metric: fANOVA importance, with the rows that it rests on.

A random forest is fitted to the complete trials and its variance split between factors (F. Hutter,
H. Hoos, K. Leyton-Brown, An efficient approach for assessing hyperparameter importance, ICML 2014;
Optuna's implementation). Each embedding is a factor of its own, in or out. Seeds are replicates,
not a factor. A trial that does not read a factor would have given the same at each of its levels
and stands at all of them, so that no factor takes the share of what decides whether it is read. A
trial without a value is never quietly skipped: every declared cell that is not used is counted
with the reason.
"""

import math
from collections import Counter
from itertools import product
from typing import NamedTuple

import numpy as np
import optuna
import pandas as pd
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.importance import FanovaImportanceEvaluator

from analysis.coalitions import members_of
from analysis.tables import Measure, level, swept
from model.config import EMBEDDINGS
from model.errors import RequestError

FORESTS = 4
"""Forests per importance: their spread shows how far a number can be trusted."""

TREES = 16

MIN_ROWS = 8

_MOST_LEVELS = 12


class FactorImportance(NamedTuple):
    """The share of the forest's variance that one factor explains by itself.

    Attributes:
        factor: name of the factor, or of an embedding.
        share: in [0, 1], mean over forests.
        spread: standard deviation over forests.
    """

    factor: str
    share: float
    spread: float


class Importance(NamedTuple):
    """Importances of all factors that vary, largest first.

    Attributes:
        measure: the metric that they move.
        factors: the factors.
        together: share of the variance that no factor explains by itself: interactions.
        used: trials that the forests were fitted to.
        declared: declared cells.
        unused: (why not, number of declared cells); with `used` they add up to `declared`.
    """

    measure: Measure
    factors: tuple[FactorImportance, ...]
    together: float
    used: int
    declared: int
    unused: tuple[tuple[str, int], ...]

    @property
    def coverage(self) -> str:
        """Say how many rows were used and why others were not."""
        sentence = f"{self.used} trials of {self.declared} declared cells"
        if not self.unused:
            return sentence
        return f"{sentence}; not used: " + ", ".join(f"{n} {why}" for why, n in self.unused)


def importance(
    measured: pd.DataFrame, column: Measure, generator: np.random.Generator
) -> Importance:
    """Return the importance of every factor that varies over a group's complete trials.

    Args:
        measured: rows of one `analysis.tables.Group`: one data set, one problem.
        column: the metric.
        generator: seeds the forests.

    Raises:
        RequestError: too few trials have a value, or none of the factors varies, or the metric
            does not.
    """
    usable = measured["counted"] & measured[column.column].notna()
    reasons = measured["outcome"].mask(measured["counted"], "without the metric")
    repeated = measured["trial"].duplicated() & usable
    unused = Counter(reasons[~usable].to_list())
    rows = measured[usable & ~repeated]
    if repeated.any():
        unused["repeating another trial"] = int(repeated.sum())
    if len(rows) < MIN_ROWS:
        raise RequestError(
            f"importance needs at least {MIN_ROWS} complete trials, got {len(rows)} of "
            f"{len(measured)} declared cells; launch the study"
        )
    factors, at = _factors(rows)
    values = rows[column.column].to_numpy(dtype=np.float64)[at]
    if not factors or np.ptp(values) == 0:
        raise RequestError(
            "importance needs a factor that varies and a metric that does, got "
            f"{', '.join(factors) or 'no factor'} and {np.unique(values).size} values of "
            f"{column.column}"
        )
    shares = _shares(factors, values, generator)
    found = [
        FactorImportance(name, float(np.mean(parts)), float(np.std(parts, ddof=1)))
        for name, parts in shares.items()
    ]
    return Importance(
        measure=column,
        factors=tuple(sorted(found, key=lambda one: -one.share)),
        together=max(0.0, 1.0 - sum(one.share for one in found)),
        used=len(rows),
        declared=len(measured),
        unused=tuple(sorted(unused.items())),
    )


def _factors(rows: pd.DataFrame) -> tuple[dict[str, list[object]], list[int]]:
    """Return each varying factor's levels, numbers if searched finely, else text, and whose.

    The second list says which row each level belongs to: a row without a level of a factor comes
    once for every level, or at the median of one that is searched finely.
    """
    members = [members_of(subset) for subset in rows["embeddings"]]
    columns: dict[str, list[list[object]]] = {
        name: [["in" if name in chosen else "out"] for chosen in members] for name in EMBEDDINGS
    }
    for name in swept(rows):
        read = rows[name].dropna()
        fine = read.nunique() > _MOST_LEVELS and pd.api.types.is_numeric_dtype(read)
        levels = [float(value) if fine else level(value) for value in read]
        unread = [float(read.median())] if fine else sorted(set(levels))
        found = iter(levels)
        columns[name] = [[next(found)] if there else [*unread] for there in rows[name].notna()]
    places = [
        (row, point) for row, each in enumerate(zip(*columns.values(), strict=True))
        for point in product(*each)
    ]  # fmt: skip
    spread = zip(*(point for _, point in places), strict=True)
    factors = {name: list(found) for name, found in zip(columns, spread, strict=True)}
    varying = {name: found for name, found in factors.items() if len(set(found)) > 1}
    return varying, [row for row, _ in places]


def _shares(
    factors: dict[str, list[object]], values: np.ndarray, generator: np.random.Generator
) -> dict[str, list[float]]:
    distributions = {name: _distribution(levels) for name, levels in factors.items()}
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.create_study()
        study.add_trials(
            [
                optuna.trial.create_trial(
                    params={name: levels[row] for name, levels in factors.items()},
                    distributions=distributions,
                    value=float(value),
                )
                for row, value in enumerate(values)
            ]
        )
        seeds = generator.integers(2**31, size=FORESTS)
        found = [
            FanovaImportanceEvaluator(n_trees=TREES, seed=int(seed)).evaluate(study)
            for seed in seeds
        ]
    finally:
        optuna.logging.set_verbosity(verbosity)
    return {name: [shares[name] for shares in found] for name in factors}


def _distribution(levels: list[object]) -> BaseDistribution:
    if not isinstance(levels[0], float):
        return CategoricalDistribution(sorted({str(value) for value in levels}))
    numbers = [float(value) for value in levels if isinstance(value, float)]
    low, high = min(numbers), max(numbers)
    return FloatDistribution(low, high, log=low > 0 and math.log10(high / low) > 2)
