"""Batches for models that predict the next item, with negatives from a fixed pool of each user.

The pool holds items that the user's training prefix does not: what it is trained against tells
nothing about the held-out targets.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from model.data.batches import TrainingBatch, Windows, gathered, smallest_gaps, windows
from model.data.prepare import PreparedData
from model.data.split import training_ends

POOL = 1000
"""Negatives of each user; all unseen items where there are fewer."""

_KEYS_PER_CHUNK = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class NextItemBatch(TrainingBatch):
    """Each position's label is the item after it; 0 where none is asked for.

    Attributes:
        users: the user, counted from 0, at every position.
        units: the user's smallest known gap between two times, seconds, at every position.
        next_times: when the item after each position came.
        negatives: items that the user has not had in training, for every position.
    """

    users: Int64[Tensor, "batch time"]
    units: Int64[Tensor, "batch time"]
    next_times: Int64[Tensor, "batch time"]
    negatives: Int64[Tensor, "batch time negatives"]


class NextItemBatches:
    """Each iteration is one epoch: all windows in a new order, against new negatives.

    Order and negatives come from the two generators and from nothing else; all state that lasts
    from epoch to epoch is theirs.
    """

    def __init__(
        self,
        data: PreparedData,
        stretches: Windows,
        *,
        batch: int,
        negatives: int,
        asked: int | None,
        order_rng: np.random.Generator,
        draw_rng: np.random.Generator,
        pool_rng: np.random.Generator,
    ) -> None:
        """Prepare the epochs.

        Args:
            data: the data set.
            stretches: events that are read, and the one after them: each of at least 2.
            batch: stretches at a time.
            negatives: of each position.
            asked: only so many of the newest events of a stretch are labels; None: all.
            order_rng: shuffles the stretches.
            draw_rng: picks negatives out of the pools.
            pool_rng: makes the pools.
        """
        self._data, self._stretches, self._batch = data, stretches, batch
        self._negatives, self._asked = negatives, asked
        self._order_rng, self._draw_rng = order_rng, draw_rng
        first = data.offsets[:-1]
        self._users = np.searchsorted(first, stretches.starts, side="right") - 1
        self._units = smallest_gaps(data.timestamps, first, ends=training_ends(data.offsets))
        self._pools = pools(data, pool_rng) if negatives else None

    def __iter__(self) -> Iterator[NextItemBatch]:
        order = self._order_rng.permutation(len(self._users))
        for first in range(0, len(order), self._batch):
            chosen = order[first : first + self._batch]
            starts, ends = self._stretches.starts[chosen], self._stretches.ends[chosen]
            items, times, days = gathered(self._data, starts, ends - 1)
            labels, next_times, _ = gathered(self._data, starts + 1, ends)
            if self._asked is not None:
                labels[:, : -self._asked] = 0
            users = np.broadcast_to(self._users[chosen, None], items.shape)
            yield NextItemBatch(
                items=torch.from_numpy(items),
                times=torch.from_numpy(times),
                days=torch.from_numpy(days),
                labels=torch.from_numpy(labels),
                users=torch.from_numpy(users.copy()),
                units=torch.from_numpy(self._units[users]),
                next_times=torch.from_numpy(next_times),
                negatives=torch.from_numpy(self._drawn(users)),
            )

    def _drawn(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Draw negatives for every position, each of the user's pool as likely as the next."""
        shape = (*users.shape, self._negatives)
        if self._pools is None:
            return np.zeros(shape, dtype=np.int64)
        pool, sizes = self._pools
        place = (self._draw_rng.random(shape) * sizes[users][..., None]).astype(np.int64)
        return pool[users[..., None], place].astype(np.int64)


def next_item_windows(data: PreparedData, *, max_len: int, stride: int) -> Windows:
    """Cut every training prefix into windows of `max_len` events to read and the one after each.

    Windows end every `stride` events from the newest. A prefix of one event has nothing to predict
    and is left out.
    """
    cut = windows(data, max_len=max_len + 1, train_window=stride)
    enough = cut.ends - cut.starts >= 2
    return Windows(cut.starts[enough], cut.ends[enough])


def every_next_item(data: PreparedData, *, history: int) -> Windows:
    """Return, for each event of a training prefix but the first, it and up to `history` before."""
    first, stop = data.offsets[:-1], training_ends(data.offsets)
    counts = stop - first - 1
    target = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    target += np.repeat(first, counts) + 1
    return Windows(np.maximum(np.repeat(first, counts), target - history), target + 1)


def whole_prefixes(data: PreparedData) -> Windows:
    """Return every training prefix with something to predict, that is of two events or more."""
    first, stop = data.offsets[:-1], training_ends(data.offsets)
    enough = stop - first >= 2
    return Windows(first[enough], stop[enough])


def pools(
    data: PreparedData, rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Draw each user's pool, uniformly and without repeats, outside the training prefix.

    Returns:
        Items, shape (users, at most `POOL`), and how many of each row count. A user who has had
        every item has the whole catalogue as pool.
    """
    width = min(POOL, data.n_items)
    found = np.zeros((data.n_users, width), dtype=np.int32)
    sizes = np.zeros(data.n_users, dtype=np.int64)
    starts, stops = data.offsets[:-1], training_ends(data.offsets)
    chunk = max(1, _KEYS_PER_CHUNK // data.n_items)
    for first in range(0, data.n_users, chunk):
        last = min(first + chunk, data.n_users)
        keys = rng.random((last - first, data.n_items))
        # Twice each item of a prefix is still once over 1: the right side is read first.
        rows = np.repeat(np.arange(last - first), np.diff(data.offsets[first : last + 1]))
        event = np.arange(starts[first], data.offsets[last])
        known = event < stops[first + rows]
        rows, seen = rows[known], data.items[event[known]] - 1
        keys[rows, seen] = keys[rows, seen] + 1.0
        earliest = np.argpartition(keys, width - 1, axis=1)[:, :width]
        at = np.take_along_axis(keys, earliest, axis=1)
        order = np.argsort(at, axis=1)
        found[first:last] = np.take_along_axis(earliest, order, axis=1) + 1
        sizes[first:last] = (at < 1.0).sum(axis=1)
    sizes[sizes == 0] = width
    return found, sizes
