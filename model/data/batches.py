"""Windows, cloze masks and evaluation inputs as tensors, gathered from the flat arrays.

Sequences are left-padded with item 0: column -1 is the newest position. A batch is cut to its
longest sequence, so T columns stand for positions N-T .. N-1 of the N = max_len that a model has.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Literal, Self

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from model.config import TrainingConfig
from model.data.prepare import PreparedData
from model.data.split import HeldOut, target_positions, training_ends

_MASKED, _MASKED_OR_RANDOM = 0.8, 0.9  # of the chosen: 80% [MASK], 10% a random item, 10% as it is
_AS_IT_IS, _CHOSEN_AS_IT_IS = 0, -1


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What a network reads.

    Padded positions repeat the row's oldest time and day: they are masked, and so they do not
    widen the range of gaps in the batch either.

    Attributes:
        items: 0 = padding, 1..I, I+1 = `[MASK]`.
        times: seconds UTC.
        days: whole UTC days since the data set's first day.
    """

    items: Int64[Tensor, "batch time"]
    times: Int64[Tensor, "batch time"]
    days: Int64[Tensor, "batch time"]

    def to(self, device: str | torch.device) -> Self:
        """Return the batch with every tensor on `device`."""
        tensors: dict[str, Tensor] = {
            f.name: getattr(self, f.name).to(device) for f in fields(self)
        }
        return replace(self, **tensors)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingBatch(Batch):
    """A cloze: at the chosen positions `labels` is the item that was there, elsewhere 0."""

    labels: Int64[Tensor, "batch time"]


@dataclass(frozen=True, slots=True, eq=False)
class UserBatch(Batch):
    """What is read when a user is evaluated.

    Attributes:
        users: the user, counted from 0, at every position.
        units: the smallest gap between two of the user's times before the target, seconds, at
            every position; 1 where there is none.
    """

    users: Int64[Tensor, "batch time"]
    units: Int64[Tensor, "batch time"]


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Stretches of training prefixes, `starts[k]:ends[k]` of the flat arrays, int64."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def windows(data: PreparedData, *, max_len: int, train_window: int) -> Windows:
    """Cut every training prefix, of length p, into windows of at most `max_len` N events.

    They end at p, p - W, p - 2W, .. (W = `train_window`) while the end is at least N; the one that
    ends at p is always there. Users in order, each user's newest window first.
    """
    first, stop = data.offsets[:-1], training_ends(data.offsets)
    counts = 1 + np.maximum(stop - first - max_len, 0) // train_window
    users = np.repeat(np.arange(data.n_users), counts)
    nth = np.arange(len(users)) - np.repeat(np.cumsum(counts) - counts, counts)
    ends = stop[users] - nth * train_window
    return Windows(starts=np.maximum(first[users], ends - max_len), ends=ends)


class TrainingBatches:
    """Each iteration is one epoch: all windows in a new order, under new masks.

    A batch holds windows drawn at random, of any length (sharing batches by length was tried and
    cost accuracy); `model.parts` cuts them. One in which no position was chosen is left out, since
    it makes no step.

    Order and masks come from the two generators and from nothing else. An epoch's masks are drawn
    for the windows in their own order: a window has the same ones however windows are ordered,
    batched and padded. Networks which differ in anything but `max_len` see the same
    batches at equal seeds. All state that lasts from epoch to epoch is the generators'.
    """

    def __init__(
        self,
        data: PreparedData,
        config: TrainingConfig,
        *,
        max_len: int,
        order_rng: np.random.Generator,
        mask_rng: np.random.Generator,
    ) -> None:
        self._data = data
        self._config = config
        self._windows = windows(data, max_len=max_len, train_window=config.train_window)
        self._lengths = self._windows.ends - self._windows.starts
        self._order_rng = order_rng
        self._mask_rng = mask_rng

    def __iter__(self) -> Iterator[TrainingBatch]:
        shown = self._drawn()
        last = np.cumsum(self._lengths)
        order = self._order_rng.permutation(len(self._lengths))
        for first in range(0, len(order), self._config.batch):
            chosen = order[first : first + self._config.batch]
            starts, ends = self._windows.starts[chosen], self._windows.ends[chosen]
            items, times, days = gathered(self._data, starts, ends)
            place = np.maximum(last[chosen, None] + np.arange(-items.shape[1], 0), 0)
            instead = np.where(items > 0, shown[place], _AS_IT_IS)
            labels = np.where(instead == _AS_IT_IS, 0, items)
            if labels.any():
                yield TrainingBatch(
                    items=torch.from_numpy(np.where(instead > 0, instead, items)),
                    times=torch.from_numpy(times),
                    days=torch.from_numpy(days),
                    labels=torch.from_numpy(labels),
                )

    def _drawn(self) -> NDArray[np.int64]:
        """Draw what every event of every window, laid end to end, shows in place of itself.

        int32 would halve the memory of an epoch of ML-20M, 120 MB, and slow every batch.
        """
        rng, n_items = self._mask_rng, self._data.n_items
        shown = np.full(int(self._lengths.sum()), _AS_IT_IS, dtype=np.int64)
        chosen = np.flatnonzero(rng.random(len(shown)) < self._config.mask_probability)
        fate = rng.random(len(chosen))
        random_items = rng.integers(1, n_items + 1, size=len(chosen))
        shown[chosen] = np.where(fate < _MASKED_OR_RANDOM, random_items, _CHOSEN_AS_IT_IS)
        shown[chosen[fate < _MASKED]] = n_items + 1
        return shown


def evaluation_batch(
    data: PreparedData,
    split: HeldOut,
    users: NDArray[np.int64],
    *,
    max_len: int,
    target_time: Literal["actual", "last"],
) -> UserBatch:
    """Return the users' inputs: the newest events before the target, then `[MASK]`.

    At most `max_len` - 1 events; the test input includes the validation item. `[MASK]` carries the
    target's own time and day (`actual`) or those of the event before it (`last`).
    """
    target = target_positions(data.offsets, split)[users]
    starts = np.maximum(data.offsets[users], target - (max_len - 1))
    items, times, days = gathered(data, starts, target)
    mask = np.full(len(users), data.n_items + 1, dtype=np.int64)
    moment = target if target_time == "actual" else target - 1
    units = smallest_gaps(data.timestamps, data.offsets[users], ends=target)
    width = items.shape[1] + 1
    return UserBatch(
        items=torch.from_numpy(np.column_stack([items, mask])),
        times=torch.from_numpy(np.column_stack([times, data.timestamps[moment]])),
        days=torch.from_numpy(np.column_stack([days, data.days[moment].astype(np.int64)])),
        users=torch.from_numpy(np.repeat(users[:, None], width, axis=1)),
        units=torch.from_numpy(np.repeat(units[:, None], width, axis=1)),
    )


def smallest_gaps(
    times: NDArray[np.int64], starts: NDArray[np.int64], *, ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the smallest non-zero gap between neighbours in each stretch of times; 1 if none.

    >>> smallest_gaps(np.array([0, 9, 9, 13, 50]), np.array([0, 3]), ends=np.array([4, 4])).tolist()
    [4, 1]
    """
    counts = ends - starts - 1
    first = np.cumsum(counts) - counts
    earlier = np.repeat(starts - first, counts) + np.arange(counts.sum())
    gaps = times[earlier + 1] - times[earlier]
    none = np.iinfo(np.int64).max
    gaps[gaps == 0] = none
    found = np.ones(len(starts), dtype=np.int64)
    some = np.flatnonzero(counts > 0)
    if len(some):
        smallest = np.minimum.reduceat(gaps, first[some])
        found[some] = np.where(smallest == none, 1, smallest)
    return found


def gathered(
    data: PreparedData, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return items, times and days of the stretches, int64, (batch, longest), left-padded."""
    columns = np.arange(-int((ends - starts).max()), 0)
    wanted = ends[:, None] + columns
    position = np.maximum(wanted, starts[:, None])
    items = np.where(wanted >= starts[:, None], data.items[position], 0).astype(np.int64)
    return items, data.timestamps[position], data.days[position].astype(np.int64)
