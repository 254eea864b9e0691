"""Negatives for sampled evaluation: drawn once per data set, the same for every trial.

An exponential race draws without replacement with probability proportional to a weight: item i
arrives after an Exponential(weight_i) time, and the first 100 arrivals are the sample, in order.
"""

import numpy as np
from numpy.typing import NDArray

N_NEGATIVES = 100
SEED = 20200922
"""Fixed for every data set, so part of the preparation's version (the day RecSys 2020 opened)."""

_KEYS_PER_CHUNK = 4_000_000  # 32 MB of float64 keys at a time


def popular_negatives(
    items: NDArray[np.int32], offsets: NDArray[np.int64], popularity: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Draw each user's negatives in proportion to popularity, outside the user's whole sequence.

    Args:
        items: item numbers 1..I of all users, user u at offsets[u]:offsets[u + 1].
        offsets: shape (users + 1,).
        popularity: interactions of each item, shape (I + 1,); row 0 is padding.

    Returns:
        Item numbers, int32, shape (users, 100); 0 from where the user's unseen items run out.
    """
    return _drawn(items, offsets, popularity)


def uniform_negatives(
    items: NDArray[np.int32], offsets: NDArray[np.int64], *, n_items: int
) -> NDArray[np.int32]:
    """Draw as `popular_negatives` does, every unseen item as likely as the next."""
    return _drawn(items, offsets, np.ones(n_items + 1, dtype=np.int64))


def _drawn(
    items: NDArray[np.int32], offsets: NDArray[np.int64], weights: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Run the race of each user's unseen items, in chunks of users that fit in memory."""
    rng = np.random.default_rng(SEED)
    n_users, n_items = len(offsets) - 1, len(weights) - 1
    negatives = np.zeros((n_users, N_NEGATIVES), dtype=np.int32)
    width = min(N_NEGATIVES, n_items)
    chunk = max(1, _KEYS_PER_CHUNK // n_items)
    for first in range(0, n_users, chunk):
        last = min(first + chunk, n_users)
        # 1 - random() lies in (0, 1], so the logarithm is finite.
        arrival = -np.log(1.0 - rng.random((last - first, n_items))) / weights[1:]
        rows = np.repeat(np.arange(last - first), np.diff(offsets[first : last + 1]))
        arrival[rows, items[offsets[first] : offsets[last]] - 1] = np.inf
        earliest = np.argpartition(arrival, width - 1, axis=1)[:, :width]
        times = np.take_along_axis(arrival, earliest, axis=1)
        order = np.argsort(times, axis=1)
        drawn = np.take_along_axis(earliest, order, axis=1) + 1
        drawn[np.isinf(np.take_along_axis(times, order, axis=1))] = 0
        negatives[first:last, :width] = drawn
    return negatives
