"""Many comparisons at once: Holm over exactly those that are shown, and what they cannot settle.

The family is what the reader sees: its size is a field, and each p-value that is printed is
adjusted for it. Comparisons without a claim (one seed, no common seed) are kept, with the reason,
and do not count.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from analysis.per_user import Arm, paired
from analysis.statistics import MIN_SEEDS, Comparison, SeedError, compare, holm
from analysis.unpaired import compare_unpaired
from model.errors import RequestError


class Pair(NamedTuple):
    """One comparison of a family.

    Attributes:
        first: name of the arm that is compared.
        second: name of the arm that it is compared with.
        seeds: seeds that both have; 0 where they share none and seeds are not paired.
        comparison: `first - second`; None where no seeds support one.
        adjusted: Holm's p over the family; NaN where nothing is claimed.
        reason: why nothing is claimed, empty where it is.
    """

    first: str
    second: str
    seeds: int
    comparison: Comparison | None
    adjusted: float
    reason: str


class Family(NamedTuple):
    """Comparisons that are shown together.

    Attributes:
        pairs: the comparisons, in the order of the arms.
        size: comparisons with a claim: what Holm divides by first.
        level: of the intervals, and 1 - the error rate of the family.
        pooling: how the seeds' error was estimated, a sentence.
    """

    pairs: tuple[Pair, ...]
    size: int
    level: float
    pooling: str


class Pooled(NamedTuple):
    """The seeds' error of a difference of two arms, from the seeds of all arms.

    Attributes:
        variance: of one arm's mean over users, between seeds.
        df: degrees of freedom of that.
        seeds: seeds that it was estimated on.
        arms: arms that have them all.
        bartlett: p-value of equal variances over the arms, which pooling assumes.
    """

    variance: float
    df: float
    seeds: int
    arms: int
    bartlett: float

    def error(self, seeds: int) -> SeedError:
        """The squared standard error of a difference of two arms' means over so many seeds."""
        return SeedError(2 * self.variance / seeds, self.df)


OWN_SEEDS = "The seeds' error is each pair's own."


def against(
    reference: Arm, arms: Sequence[Arm], *, level: float = 0.95, pool: Pooled | None = None
) -> Family:
    """Compare each other arm with the reference."""
    return _family([(arm, reference) for arm in arms if arm is not reference], level, pool)


def all_pairs(arms: Sequence[Arm], *, level: float = 0.95, pool: Pooled | None = None) -> Family:
    """Compare each arm with each later one."""
    return _family(list(itertools.combinations(arms, 2)), level, pool)


def pooled(arms: Sequence[Arm]) -> Pooled:
    """Estimate one seeds' error for all arms, from the arms x seeds table of means over users.

    What a seed does to all arms alike (its batches and masks) cancels in a difference and is
    taken out; what is left has (arms - 1) (seeds - 1) degrees of freedom instead of seeds - 1.
    The price is an assumption: seeds move all arms equally far.

    Raises:
        RequestError: fewer than two arms with the same two seeds or more.
    """
    seeds = set.intersection(*(set(arm.seeds) for arm in arms if arm.seeds)) if arms else set()
    kept = [arm for arm in arms if arm.seeds]
    if len(kept) < 2 or len(seeds) < 2:
        raise RequestError(
            "pooling the seeds' error needs two arms with two seeds in common, got "
            f"{len(kept)} arms with {len(seeds)}; train more seeds or do not pool"
        )
    order = sorted(seeds)
    means = np.array([[arm.values[arm.seeds.index(seed)].mean() for seed in order] for arm in kept])
    rest = means - means.mean(axis=0) - means.mean(axis=1, keepdims=True) + means.mean()
    df = (len(kept) - 1) * (len(order) - 1)
    spread = means - means.mean(axis=0)
    return Pooled(
        variance=float((rest**2).sum() / df),
        df=float(df),
        seeds=len(order),
        arms=len(kept),
        bartlett=_bartlett(spread),
    )


def _bartlett(means: NDArray[np.float64]) -> float:
    if (means.std(axis=1) == 0).any():
        return float("nan")
    return float(stats.bartlett(*means).pvalue)


def _family(pairs: list[tuple[Arm, Arm]], level: float, pool: Pooled | None) -> Family:
    found: list[Pair] = []
    for first, second in pairs:
        names = (first.name, second.name)
        common = len(set(first.seeds) & set(second.seeds))
        if common == 0:
            found.append(_apart(first, second, level))
            continue
        comparison = compare(
            *paired(first, second), level=level, seed_error=pool.error(common) if pool else None
        )
        found.append(Pair(*names, common, comparison, float("nan"), comparison.reason))
    p = np.array([pair.comparison.p if pair.comparison else np.nan for pair in found])
    return Family(
        pairs=tuple(
            pair._replace(adjusted=float(value)) for pair, value in zip(found, holm(p), strict=True)
        ),
        size=int(np.isfinite(p).sum()),
        level=level,
        pooling=OWN_SEEDS if pool is None else pooling_sentence(pool),
    )


def _apart(first: Arm, second: Arm, level: float) -> Pair:
    """Compare arms without a common seed, where both have seeds enough of their own."""
    counts = (len(first.seeds), len(second.seeds))
    if min(counts) < MIN_SEEDS:
        reason = f"no seed in common: {counts[0]} and {counts[1]} are complete"
        return Pair(first.name, second.name, 0, None, float("nan"), reason)
    comparison = compare_unpaired(first.values, second.values, level=level)
    return Pair(first.name, second.name, 0, comparison, float("nan"), "")


def pooling_sentence(pool: Pooled) -> str:
    """Say what was pooled and what that assumes."""
    sentence = (
        f"The seeds' error is pooled over {pool.arms} arms ({pool.df:.0f} degrees of "
        "freedom), which assumes that seeds move all arms equally far"
    )
    if np.isnan(pool.bartlett):
        return f"{sentence}."
    return f"{sentence} (Bartlett's test of that: p = {pool.bartlett:.2g})."
