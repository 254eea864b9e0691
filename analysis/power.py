"""What a study of this size can settle, before anyone reads a difference into it.

A comparison is decided when Holm's p over its family is at most the error rate. Few seeds make that
hard in a way that users cannot make up for: a seed part with f = seeds - 1 degrees of freedom has
Student's tails, which at two seeds reach to hundreds of standard errors.
"""

import bisect
from typing import NamedTuple

from scipy import special

from analysis.error_distribution import TwoPartError, distance_at
from analysis.statistics import MIN_SEEDS, Components

POWER = 0.8
"""The share of repeated studies that would decide a difference of the detectable size."""

MOST_SEEDS = 1000


class Reach(NamedTuple):
    """What a comparison's seeds and users can settle.

    Attributes:
        seeds: seeds that it has now.
        t_needed: |mean| / standard error from which Holm's first step decides.
        detectable: smallest true difference that is decided with probability `POWER`.
        seeds_to_settle: seeds that would decide a true difference as large as the one seen with
            that probability; None where no number of seeds would, since the users alone leave
            more uncertainty than that.
    """

    seeds: int
    t_needed: float
    detectable: float
    seeds_to_settle: int | None


def reach(found: Components, *, family: int, error_rate: float = 0.05) -> Reach:
    """Return what a comparison can settle as the hardest of a family of so many.

    Args:
        found: its components; a seed part pooled over arms counts with its degrees of freedom.
        family: comparisons that Holm adjusts for.
        error_rate: of the family.
    """
    alpha = error_rate / max(1, family)
    scale = found.standard_error
    needed = float(distance_at(alpha, found.error))
    return Reach(
        seeds=found.seeds,
        t_needed=needed / scale if scale > 0 else float("nan"),
        detectable=_detectable(found.error, alpha),
        seeds_to_settle=_seeds_to_settle(found, alpha),
    )


def t_needed(*, seeds: int, family: int, error_rate: float = 0.05) -> float:
    """Return the |t| that Holm's first step needs where all of the error is the seeds'.

    >>> round(t_needed(seeds=3, family=62), 1)
    35.2
    """
    return float(-special.stdtrit(seeds - 1, error_rate / family / 2))


def t_needed_sentence(*, seeds: int, family: int, error_rate: float = 0.05) -> str:
    """Say what significance takes with so many seeds and comparisons.

    >>> print(t_needed_sentence(seeds=3, family=62))
    At 3 seeds Holm over 62 comparisons needs |t| of about 35 where the error is the seeds' alone.
    """
    if seeds < 2:
        return "With one seed no comparison is called significant, whatever its size."
    number = "comparison" if family == 1 else "comparisons"
    return (
        f"At {seeds} seeds Holm over {family} {number} needs |t| of about "
        f"{t_needed(seeds=seeds, family=family, error_rate=error_rate):.2g} where the error is the "
        "seeds' alone."
    )


def separated_by_chance(seeds: int) -> int:
    """Return N: of equal arms, one in N has every seed above every seed of the other.

    >>> [separated_by_chance(n) for n in (2, 3, 4)]
    [6, 20, 70]
    """
    return int(special.comb(2 * seeds, seeds, exact=True))


def _detectable(error: TwoPartError, alpha: float) -> float:
    """Return the difference whose estimate passes the threshold with probability `POWER`."""
    threshold = distance_at(alpha, error)
    # One-sided: an estimate falls short of the truth by more than this in 1 - POWER of studies.
    shortfall = distance_at(2 * (1 - POWER), error)
    return float(threshold + shortfall)


def _seeds_to_settle(found: Components, alpha: float) -> int | None:
    """Return the fewest seeds that detect the difference seen; the users stay.

    More seeds make the seed part smaller and better known, so that halving finds the fewest.
    """
    df_per_seed = float(found.error.seed_df) / max(1, found.seeds - 1)

    def enough(seeds: int) -> bool:
        error = found.error._replace(
            seed_part=found.error.seed_part * found.seeds / seeds,
            seed_df=df_per_seed * (seeds - 1),
        )
        return _detectable(error, alpha) <= abs(found.mean)

    if not enough(MOST_SEEDS):
        return None
    return bisect.bisect_left(range(MOST_SEEDS), True, lo=MIN_SEEDS, key=enough)
