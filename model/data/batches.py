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

    The last partial batch is kept; a batch in which no position was chosen is left out, since it
    makes no step. Order and masks come from the two generators and from nothing else, so that
    networks which differ in anything but `max_len` see the same batches at equal seeds.
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
        self._order_rng = order_rng
        self._mask_rng = mask_rng

    def __iter__(self) -> Iterator[TrainingBatch]:
        order = self._order_rng.permutation(len(self._windows.ends))
        for first in range(0, len(order), self._config.batch):
            chosen = order[first : first + self._config.batch]
            batch = self._masked(self._windows.starts[chosen], self._windows.ends[chosen])
            if batch.labels.any():
                yield batch

    def _masked(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> TrainingBatch:
        items, times, days = _gathered(self._data, starts, ends)
        rng, n_items = self._mask_rng, self._data.n_items
        chosen = (rng.random(items.shape) < self._config.mask_probability) & (items > 0)
        fate = rng.random(items.shape)
        random_items = rng.integers(1, n_items + 1, size=items.shape)
        replaced = np.where(fate < _MASKED_OR_RANDOM, random_items, items)
        replaced[fate < _MASKED] = n_items + 1
        return TrainingBatch(
            items=torch.from_numpy(np.where(chosen, replaced, items)),
            times=torch.from_numpy(times),
            days=torch.from_numpy(days),
            labels=torch.from_numpy(np.where(chosen, items, 0)),
        )


def evaluation_batches(
    data: PreparedData,
    split: HeldOut,
    *,
    max_len: int,
    target_time: Literal["actual", "last"],
    batch: int,
) -> Iterator[tuple[NDArray[np.int64], Batch]]:
    """Yield user numbers and their inputs: the newest events before the target, then `[MASK]`.

    At most `max_len` - 1 events; the test input includes the validation item. `[MASK]` carries the
    target's own time and day (`actual`) or those of the event before it (`last`).
    """
    targets = target_positions(data.offsets, split)
    for first in range(0, data.n_users, batch):
        users = np.arange(first, min(first + batch, data.n_users), dtype=np.int64)
        target = targets[users]
        starts = np.maximum(data.offsets[users], target - (max_len - 1))
        items, times, days = _gathered(data, starts, target)
        mask = np.full(len(users), data.n_items + 1, dtype=np.int64)
        moment = target if target_time == "actual" else target - 1
        yield (
            users,
            Batch(
                items=torch.from_numpy(np.column_stack([items, mask])),
                times=torch.from_numpy(np.column_stack([times, data.timestamps[moment]])),
                days=torch.from_numpy(np.column_stack([days, data.days[moment].astype(np.int64)])),
            ),
        )


def _gathered(
    data: PreparedData, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return items, times and days of the stretches, int64, (batch, longest), left-padded."""
    columns = np.arange(-int((ends - starts).max()), 0)
    wanted = ends[:, None] + columns
    position = np.maximum(wanted, starts[:, None])
    items = np.where(wanted >= starts[:, None], data.items[position], 0).astype(np.int64)
    return items, data.timestamps[position], data.days[position].astype(np.int64)
