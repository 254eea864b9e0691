"""Negatives for sampled evaluation: drawn once per data set, the same for every trial.

An exponential race draws without replacement with probability proportional to a weight: item i
arrives after an Exponential(weight_i) time, and the first 100 arrivals are the sample, in order.
"""

import numpy as np
from numpy.typing import NDArray

N_NEGATIVES = 100
SEED = 20200922
"""Fixed for every data set, so part of the preparation's version (the day RecSys 2020 opened)."""

_KEYS_PER_CHUNK = 1_000_000  # 8 MB of float64 keys at a time
_SHORTLIST = 150
"""Expected arrivals among which a user's first 100 are looked for: 4 standard deviations more."""


def popular_negatives(
    items: NDArray[np.int32], offsets: NDArray[np.int64], popularity: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Draw each user's negatives in proportion to popularity, outside the user's whole sequence.

    Args:
        items: item numbers 1..I of all users, user u at offsets[u]:offsets[u + 1].
        offsets: shape (users + 1,).
        popularity: interactions of each item, shape (I + 1,), at least 1; row 0 is padding.

    Returns:
        Item numbers, int32, shape (users, 100); 0 from where the user's unseen items run out.
    """
    return _drawn(items, offsets, popularity)


def uniform_negatives(
    items: NDArray[np.int32], offsets: NDArray[np.int64], *, n_items: int
) -> NDArray[np.int32]:
    """Draw as `popular_negatives` does, every unseen item as likely as the next."""
    return _drawn(items, offsets, np.ones(n_items + 1, dtype=np.int64))


def fewest_drawn(negatives: NDArray[np.int32]) -> int:
    """Return how many negatives the user has that has the fewest.

    >>> fewest_drawn(np.array([[3, 1, 2], [4, 0, 0]], dtype=np.int32))
    1
    """
    return int((negatives > 0).sum(axis=1).min())


def _drawn(
    items: NDArray[np.int32], offsets: NDArray[np.int64], weights: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Run the race of each user's unseen items, in chunks of users that fit in memory.

    The time of an arrival, -log(1 - key) / weight, is at least key / weight: an item whose bound
    lies beyond a deadline cannot be among the first 100, if 100 others arrive before it. Logarithms
    and sorting so concern a shortlist alone. The few users whose shortlist is too short, and small
    catalogues, take all items.
    """
    rng = np.random.default_rng(SEED)
    n_users, n_items = len(offsets) - 1, len(weights) - 1
    negatives = np.zeros((n_users, N_NEGATIVES), dtype=np.int32)
    weight = weights[1:]
    deadlines = _deadlines(items, offsets, weight)
    chunk = max(1, _KEYS_PER_CHUNK // n_items)
    slowness = 1 / weight
    for first in range(0, n_users, chunk):
        last = min(first + chunk, n_users)
        keys = rng.random((last - first, n_items))
        deadline = deadlines[first:last]
        seen = (
            np.repeat(np.arange(last - first), np.diff(offsets[first : last + 1])),
            items[offsets[first] : offsets[last]] - 1,
        )
        shortlisted = keys * slowness <= deadline[:, None]
        shortlisted[seen] = False
        drawn, latest = _first(keys, weight, among=shortlisted)
        # Rounding is far below this margin.
        short = np.flatnonzero(~(latest < deadline * (1 - 1e-9)))
        if len(short):
            unseen = np.ones(keys.shape, dtype=np.bool_)
            unseen[seen] = False
            drawn[short], _ = _first(keys[short], weight, among=unseen[short])
        negatives[first:last] = drawn
    return negatives


def _deadlines(
    items: NDArray[np.int32], offsets: NDArray[np.int64], weight: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Guess when `_SHORTLIST` unseen items of each user will have arrived; too early is no error.

    By time t a share 1 - exp(-weight t) of an item has arrived. Of all arrivals a user's unseen
    items are counted in proportion to their weight.
    """
    times = np.geomspace(1e-3, 1e3, 61) * _SHORTLIST / weight.sum()
    arrived = np.array([-np.expm1(-weight * t).sum() for t in times])
    running = np.concatenate([[0], np.cumsum(weight[items - 1])])
    # An item that a user has twice counts twice, so the guess only gets later.
    unseen = 1 - (running[offsets[1:]] - running[offsets[:-1]]) / weight.sum()
    wanted = _SHORTLIST / np.maximum(unseen, 0.01)
    found: NDArray[np.float64] = np.interp(wanted, arrived, times)
    return found


def _first(
    keys: NDArray[np.float64], weight: NDArray[np.int64], *, among: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return the first arrivals of each row, item numbers with 0 where there are no more.

    Also when the last of the 100 came, infinite where there is none.
    """
    at = np.flatnonzero(among)
    row, item = np.divmod(at, keys.shape[1])
    # 1 - key lies in (0, 1], so the logarithm is finite.
    arrival = -np.log(1.0 - keys.ravel()[at]) / weight[item]
    order = np.lexsort((arrival, row))
    counts = np.bincount(row, minlength=len(keys))
    rank = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = rank < N_NEGATIVES
    drawn = np.zeros((len(keys), N_NEGATIVES), dtype=np.int32)
    drawn[row[kept], rank[kept]] = item[order][kept] + 1
    latest = np.full(len(keys), np.inf)
    full = rank == N_NEGATIVES - 1
    latest[row[full]] = arrival[order][full]
    return drawn, latest
