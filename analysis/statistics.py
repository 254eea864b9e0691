"""One comparison: the mean of paired per-user differences, and how far it can be trusted.

Input is an array of differences, seeds x users: the same users under every seed, so the two are
crossed. `d[s, u] = mean + seed[s] + user[u] + rest[s, u]`; the mean's error comes from having few
seeds and from having these users, and its size is read off the mean squares of the two-way table.
Every number says what it lets vary. Fewer than two seeds support no claim about other seeds.

Sources: variance components, S. R. Searle, G. Casella, C. E. McCulloch, Variance Components,
1992, section 4.3; their reference distribution, `analysis.error_distribution`.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.error_distribution import TwoPartError, distance_at, two_sided
from model.errors import RequestError

Values = NDArray[np.float64]
"""Per-user values or differences, float64, shape (seeds, users)."""

Varies = Literal["users and seeds", "users", "seeds"]

MIN_SEEDS = 2
"""With fewer, nothing is known of what another seed would give."""

TOO_FEW_SEEDS = (
    "one seed per arm: how far another seed would move the difference is unknown, so no "
    f"significance is claimed; train at least {MIN_SEEDS} seeds"
)


class Interval(NamedTuple):
    """An interval for a mean difference, in the metric's unit.

    Attributes:
        low: lower end.
        high: upper end.
        level: nominal coverage, .95.
        varies: what is taken as drawn at random; the rest is held as it is.
        method: how it was made.
    """

    low: float
    high: float
    level: float
    varies: Varies
    method: str


class Components(NamedTuple):
    """A two-way table of paired differences, decomposed.

    Attributes:
        mean: mean difference.
        seeds: number of seeds, users: number of users.
        between_seeds: variance of a seed's true mean, floored at 0.
        between_users: variance of a user's true mean, floored at 0.
        residual: variance of the rest: what one more seed gives one user.
        error: squared standard error of the mean, in its two parts.
    """

    mean: float
    seeds: int
    users: int
    between_seeds: float
    between_users: float
    residual: float
    error: TwoPartError

    @property
    def standard_error(self) -> float:
        """Of the mean, when users and seeds are drawn anew."""
        return float(np.sqrt(self.error.variance))


class SeedError(NamedTuple):
    """A squared standard error from seeds, estimated elsewhere, and its degrees of freedom."""

    part: float
    df: float


class Comparison(NamedTuple):
    """A mean difference of two arms, `first - second`, with users and seeds crossed.

    Attributes:
        components: the mean and its error.
        interval: of the mean: users and seeds vary, or users alone where there is one seed.
        t: mean / standard error; NaN where no significance is claimed.
        p: two-sided p-value of a mean difference of zero; NaN where none is claimed.
        satterthwaite: the same test by one Satterthwaite t (too small with few seeds).
        improved: share of (user, seed) pairs where `first` is higher, ties half.
        effect: mean / standard deviation over users of a user's mean difference.
        reason: why no significance is claimed; empty where it is.
    """

    components: Components
    interval: Interval
    t: float
    p: float
    satterthwaite: float
    improved: float
    effect: float
    reason: str

    @property
    def mean(self) -> float:
        """The mean difference."""
        return self.components.mean


def error_parts(differences: NDArray[np.float64]) -> tuple[NDArray[np.float64], TwoPartError]:
    """Return mean and error of tables of differences, shape (.., seeds >= 2, users >= 2).

    The seed part is the variance of the seeds' means over their number, the residual included;
    the user part is what of the users' spread is not residual, floored at 0.
    """
    *_, seeds, users = differences.shape
    mean = differences.mean(axis=(-2, -1))
    seed_square, user_square, residual_square = _mean_squares(differences)
    return mean, TwoPartError(
        seed_part=seed_square / (seeds * users),
        seed_df=float(seeds - 1),
        user_part=np.maximum(user_square - residual_square, 0.0) / (seeds * users),
        user_df=float(users - 1),
    )


def components(differences: Values) -> Components:
    """Decompose paired differences, shape (seeds >= 2, users >= 2)."""
    seeds, users = differences.shape
    mean, error = error_parts(differences)
    seed_square, user_square, residual = _mean_squares(differences)
    return Components(
        mean=float(mean),
        seeds=seeds,
        users=users,
        between_seeds=max(0.0, float(seed_square - residual)) / users,
        between_users=max(0.0, float(user_square - residual)) / seeds,
        residual=float(residual),
        error=TwoPartError(*(float(part) for part in error)),
    )


def compare(
    first: Values, second: Values, *, level: float = 0.95, seed_error: SeedError | None = None
) -> Comparison:
    """Compare two arms on the same users; row s of both was trained with the same seed.

    Args:
        first: per-user values of the metric, shape (seeds, users).
        second: the same of the other arm.
        level: of the interval.
        seed_error: the seed part pooled over the arms of a family (`analysis.families`), instead
            of these two arms' own.

    Raises:
        RequestError: the arms differ in seeds or users, or there are fewer than two users.

    >>> better = np.array([[0.5, 0.4, 0.9], [0.6, 0.3, 0.9]])
    >>> compare(better, better - 0.1).mean.__round__(3)
    0.1
    """
    return mean_difference(_paired(first, second), level=level, seed_error=seed_error)


def mean_difference(
    differences: Values, *, level: float = 0.95, seed_error: SeedError | None = None
) -> Comparison:
    """Assess a mean of paired differences, or of any contrast of arms, (seeds, users)."""
    seeds, _ = differences.shape
    improved = float(np.mean((differences > 0) + 0.5 * (differences == 0)))
    effect = _standardised(differences)
    if seeds < MIN_SEEDS:
        only = _one_seed(differences)
        nothing = float("nan")
        return Comparison(
            only,
            interval(differences, level=level, varies="users"),
            *(nothing, nothing, nothing),
            improved,
            effect,
            TOO_FEW_SEEDS,
        )
    found = components(differences)
    if seed_error is not None:
        found = found._replace(
            error=found.error._replace(seed_part=seed_error.part, seed_df=seed_error.df)
        )
    return judged(found, level=level, improved=improved, effect=effect)


def judged(found: Components, *, level: float, improved: float, effect: float) -> Comparison:
    """Return interval and p-value of a mean whose two-part error is known."""
    error, mean = found.error, found.mean
    half = float(distance_at(1 - level, error))
    scale = found.standard_error
    t = mean / scale if scale > 0 else (float(np.copysign(np.inf, mean)) if mean else 0.0)
    return Comparison(
        components=found,
        interval=Interval(
            mean - half, mean + half, level, "users and seeds", "variance components"
        ),
        t=t,
        p=float(two_sided(abs(mean), error)),
        satterthwaite=float(2 * special.stdtr(error.satterthwaite_df, -abs(t))),
        improved=improved,
        effect=effect,
        reason="",
    )


def interval(differences: Values, *, level: float = 0.95, varies: Varies = "users") -> Interval:
    """Return a Student interval with the other source of variation held as it is.

    With `users`, the trained models are these and no others; with `seeds`, the users are.

    Raises:
        RequestError: fewer than two of what varies, or both are asked for: see `compare`.
    """
    if varies == "users and seeds":
        raise RequestError("both vary in `compare`; ask here for users or seeds")
    means = differences.mean(axis=0 if varies == "users" else 1)
    if len(means) < 2:
        raise RequestError(f"an interval over {varies} needs at least two, got {len(means)}")
    error = float(means.std(ddof=1)) / np.sqrt(len(means))
    half = float(-special.stdtrit(len(means) - 1, (1 - level) / 2)) * error
    mean = float(means.mean())
    return Interval(mean - half, mean + half, level, varies, "Student t")


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Holm's adjusted p-values; NaN (no claim) stays NaN and is not counted.

    Source: S. Holm, Scandinavian Journal of Statistics 6, 1979.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    adjusted = np.full(p.shape, np.nan)
    claimed = np.flatnonzero(~np.isnan(p))
    order = claimed[np.argsort(p[claimed], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def _mean_squares(
    differences: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean squares of seeds, of users, and of the rest."""
    *_, seeds, users = differences.shape
    mean = differences.mean(axis=(-2, -1), keepdims=True)
    by_seed = differences.mean(axis=-1, keepdims=True) - mean
    by_user = differences.mean(axis=-2, keepdims=True) - mean
    rest = differences - mean - by_seed - by_user
    return (
        users * (by_seed**2).sum(axis=(-2, -1)) / (seeds - 1),
        seeds * (by_user**2).sum(axis=(-2, -1)) / (users - 1),
        (rest**2).sum(axis=(-2, -1)) / ((seeds - 1) * (users - 1)),
    )


def _one_seed(differences: Values) -> Components:
    """Return what one seed tells: the users' spread, with that seed's chance inside it."""
    users = differences.shape[1]
    spread = float(differences[0].var(ddof=1))
    nothing = float("nan")
    error = TwoPartError(nothing, 0.0, spread / users, float(users - 1))
    return Components(float(differences.mean()), 1, users, nothing, spread, nothing, error)


def _standardised(differences: Values) -> float:
    spread = float(differences.mean(axis=0).std(ddof=1))
    return float(differences.mean()) / spread if spread > 0 else float("nan")


def _paired(first: Values, second: Values) -> Values:
    if first.ndim != 2 or first.shape != second.shape:
        raise RequestError(
            "a paired comparison needs the same seeds and users in both arms, got "
            f"{first.shape} and {second.shape} (seeds, users); keep those that both have"
        )
    if first.shape[1] < 2 or first.shape[0] < 1:
        raise RequestError(
            f"a comparison needs a seed and at least two users, got {first.shape} (seeds, users)"
        )
    return np.asarray(first, dtype=np.float64) - second
