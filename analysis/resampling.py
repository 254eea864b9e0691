"""Second opinions on a mean difference: crossed bootstrap, sign flips, signed ranks.

They stand beside the variance components of `analysis.statistics`, never in their place; each
says what it lets vary and, where it tests something else than the mean, what. Randomness comes
from the generator that is passed in.

Source of the bootstrap: A. B. Owen, The pigeonhole bootstrap, Annals of Applied Statistics 1, 2007.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from analysis.statistics import Interval, Values, Varies
from model.errors import RequestError

BOOTSTRAP_SEEDS = 5
"""Fewer resampled seeds make intervals that are too narrow (docs/statistics.md has the table)."""


class SecondOpinion(NamedTuple):
    """A two-sided test that the mean difference is zero.

    Attributes:
        p: its p-value.
        varies: what is taken as drawn at random.
        method: which test.
        smallest_p: the least p that it could have given with so many seeds or users.
        warning: what else it tests, empty if nothing.
    """

    p: float
    varies: Varies
    method: str
    smallest_p: float = 0.0
    warning: str = ""


class Resample(NamedTuple):
    """How often each seed and each user is drawn, independently of each other.

    One resample is shared by all arms of a figure, so that what is computed from several arms
    (a Shapley value) keeps their covariance.

    Attributes:
        seeds: counts, shape (repeats, seeds), rows sum to `seeds`.
        users: counts, shape (repeats, users).
    """

    seeds: NDArray[np.float64]
    users: NDArray[np.float64]

    def means(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of values (.., seeds, users) under each draw, shape (repeats, ..)."""
        *_, n_seeds, n_users = values.shape
        means = np.einsum("ru,...su->r...s", self.users, values, optimize=True)
        weights = self.seeds.reshape(len(self.seeds), *(1,) * (values.ndim - 2), n_seeds)
        total: NDArray[np.float64] = (means * weights).sum(axis=-1) / (n_seeds * n_users)
        return total


def resample(
    generator: np.random.Generator, *, seeds: int, users: int, repeats: int = 2000
) -> Resample:
    """Draw seeds and users with replacement, each on their own."""
    return Resample(
        generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=repeats).astype(np.float64),
        generator.multinomial(users, np.full(users, 1 / users), size=repeats).astype(np.float64),
    )


def crossed_bootstrap(
    differences: Values,
    generator: np.random.Generator,
    *,
    level: float = 0.95,
    repeats: int = 2000,
) -> Interval:
    """Return the percentile interval of the mean when users and seeds are resampled.

    Raises:
        RequestError: fewer than `BOOTSTRAP_SEEDS` seeds.
    """
    seeds, users = differences.shape
    if seeds < BOOTSTRAP_SEEDS:
        raise RequestError(
            f"resampling seeds needs at least {BOOTSTRAP_SEEDS} of them, got {seeds}: with fewer "
            "the interval is too narrow; use the variance components"
        )
    drawn = resample(generator, seeds=seeds, users=users, repeats=repeats).means(differences)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level, "users and seeds", "crossed bootstrap")


def sign_flip(
    differences: Values,
    generator: np.random.Generator,
    *,
    varies: Varies = "users",
    repeats: int = 9999,
) -> SecondOpinion:
    """Test the mean by flipping the signs of users' (or seeds') mean differences.

    All sign patterns where they are no more than `repeats`, else so many random ones (and the one
    observed). What does not vary is held as it is: flips of users say nothing of other seeds.

    Raises:
        RequestError: both are asked to vary, which sign flips of either do not test.
    """
    if varies == "users and seeds":
        raise RequestError("sign flips hold seeds or users fixed; ask for users or seeds")
    means = differences.mean(axis=0 if varies == "users" else 1)
    n = len(means)
    if 2**n <= repeats:
        signs = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        sums = signs @ means
        extra = 0
    else:
        flipped = generator.integers(0, 2, size=(repeats, n), dtype=np.int8)
        sums = means.sum() - 2.0 * (flipped @ means)
        extra = 1
    # Sums of the same numbers in another order differ by rounding and are equal all the same.
    reached = np.abs(sums) >= abs(means.sum()) - 1e-9 * np.abs(means).sum()
    count = len(sums) + extra
    return SecondOpinion(
        p=float((reached.sum() + extra) / count),
        varies=varies,
        method="sign flips",
        smallest_p=min(1.0, 2 / count if not extra else 1 / count),
    )


WILCOXON_WARNING = (
    "Wilcoxon tests symmetry about zero of the users that differ, not the mean: with many zeros "
    "and values piled up at few ranks it can call a difference that the mean does not have, and "
    "miss one that it has; seeds are held fixed."
)


def wilcoxon(differences: Values) -> SecondOpinion:
    """Return Wilcoxon's signed-rank test of users' mean differences; zeros are dropped."""
    means = differences.mean(axis=0)
    moved = means[means != 0]
    zeros = f" Here {1 - len(moved) / len(means):.0%} of users are zeros."
    p = float(stats.wilcoxon(moved).pvalue) if len(moved) else 1.0
    return SecondOpinion(p, "users", "Wilcoxon signed ranks", warning=WILCOXON_WARNING + zeros)
