"""Two arms without a common seed: users are paired, seeds are not.

Pairing seeds that have nothing in common would make the result depend on their order. Here each
arm has a seeds' error of its own, and the two add up; users are the same in both.
"""

from typing import NamedTuple

import numpy as np

from analysis.error_distribution import TwoPartError
from analysis.statistics import MIN_SEEDS, Comparison, Components, Values, components, judged
from model.errors import RequestError


class _Share(NamedTuple):
    """What one arm adds to the error: from its seeds, and the rest within a user's mean."""

    seeds: float
    rest: float


def compare_unpaired(first: Values, second: Values, *, level: float = 0.95) -> Comparison:
    """Compare two arms on the same users, whose seeds differ, in mean and interval.

    The seed part is the sum of the arms' own, with Welch's degrees of freedom (B. L. Welch,
    Biometrika 34, 1947); the user part is the spread of users' mean differences without what the
    seeds put into it. `improved` is a share of users, by their means.

    Args:
        first: per-user values, shape (seeds >= 2, users).
        second: the same, perhaps with another number of seeds.
        level: of the interval.

    Raises:
        RequestError: other users, or an arm with fewer than two seeds.
    """
    if first.shape[1] != second.shape[1] or first.shape[1] < 2:
        raise RequestError(
            "a comparison needs the same two users or more in both arms, got "
            f"{first.shape} and {second.shape} (seeds, users)"
        )
    if min(len(first), len(second)) < MIN_SEEDS:
        raise RequestError(
            f"arms without a common seed need at least {MIN_SEEDS} seeds each, got "
            f"{len(first)} and {len(second)}; train more seeds"
        )
    users = first.shape[1]
    shares = [_share(values) for values in (first, second)]
    by_user = first.mean(axis=0) - second.mean(axis=0)
    spread = float(by_user.var(ddof=1))
    between_users = max(0.0, spread - sum(share.rest for share in shares))
    seed_part = sum(share.seeds for share in shares)
    squares = sum(
        share.seeds**2 / (len(values) - 1)
        for share, values in zip(shares, (first, second), strict=True)
    )
    error = TwoPartError(
        seed_part=seed_part,
        seed_df=seed_part**2 / squares if squares > 0 else 1.0,
        user_part=between_users / users,
        user_df=float(users - 1),
    )
    found = Components(
        mean=float(by_user.mean()),
        seeds=min(len(first), len(second)),
        users=users,
        between_seeds=sum(components(values).between_seeds for values in (first, second)),
        between_users=between_users,
        residual=sum(components(values).residual for values in (first, second)),
        error=error,
    )
    improved = float(np.mean((by_user > 0) + 0.5 * (by_user == 0)))
    effect = float(by_user.mean()) / float(np.sqrt(spread)) if spread > 0 else float("nan")
    return judged(found, level=level, improved=improved, effect=effect)


def _share(values: Values) -> _Share:
    found = components(values)
    return _Share(seeds=float(found.error.seed_part), rest=found.residual / found.seeds)
