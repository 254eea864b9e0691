"""Short windows share rows, so that hardly a position is padding; each sees itself alone.

A batch of random windows, padded to its longest, is mostly padding where windows are short (86% on
Amazon Beauty). Laid end to end in rows as long as the longest, hardly any of it is left, and the
network computes what it would compute for each window by itself: attention stays inside a window,
and a position counts from the end of its own window.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int64
from numpy.typing import NDArray
from torch import Tensor

from model.data.batches import TrainingBatch

ROW = 64
"""Events of a window that may share a row, at most. Longer rows would waste attention."""


@dataclass(frozen=True, slots=True, eq=False)
class PackedBatch(TrainingBatch):
    """Rows that hold one or more windows each, end to end, padded on the left with zeros.

    Attributes:
        newer: events of its own window after each position; 0 at padding.
    """

    newer: Int64[Tensor, "batch time"]

    def apart(self) -> Bool[Tensor, "batch time time"]:
        """Mark pairs of different windows; each padded position is a window of its own."""
        window = (self.newer == 0).flip(1).cumsum(1).flip(1)
        return window[:, :, None] != window[:, None, :]


def pack(batch: TrainingBatch) -> PackedBatch:
    """Lay windows, none of them empty, in rows as long as the longest. They lie on the CPU."""
    time = batch.items.shape[1]
    lengths = batch.items.count_nonzero(dim=1).numpy()
    falling = np.argsort(-lengths, kind="stable")
    in_row = [falling[chosen] for chosen in _rows(lengths[falling])]
    windows = np.concatenate(in_row)
    sizes, row_sizes = lengths[windows], np.array([lengths[chosen].sum() for chosen in in_row])
    columns = int(row_sizes.max())
    # Events laid end to end: how many come after each in its window, and in its row.
    event = np.arange(sizes.sum())
    newer = np.repeat(np.cumsum(sizes), sizes) - 1 - event
    after = np.repeat(np.cumsum(row_sizes), row_sizes) - 1 - event
    source = np.repeat(windows + 1, sizes) * time - 1 - newer
    place = np.repeat(np.arange(len(in_row)) + 1, row_sizes) * columns - 1 - after

    def laid_out(values: NDArray[np.int64]) -> Int64[Tensor, "rows columns"]:
        rows = np.zeros((len(in_row), columns), dtype=np.int64)
        rows.flat[place] = values
        return torch.from_numpy(rows)

    return PackedBatch(
        items=laid_out(batch.items.numpy().flat[source]),
        times=laid_out(batch.times.numpy().flat[source]),
        days=laid_out(batch.days.numpy().flat[source]),
        labels=laid_out(batch.labels.numpy().flat[source]),
        newer=laid_out(newer),
    )


def _rows(lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Share out windows, whose lengths fall: the longest that fit, then the shortest that do.

    Rows are as long as the first window.

    >>> [row.tolist() for row in _rows(np.array([60, 30, 30, 29, 9, 8, 7]))]
    [[0], [1, 2], [3, 4, 5, 6]]
    """
    upto = np.concatenate([[0], np.cumsum(lengths)])
    row, first, stop = lengths[0], 0, len(lengths)
    while first < stop:
        longest = min(int(np.searchsorted(upto, upto[first] + row, side="right")) - 1, stop)
        room = row - (upto[longest] - upto[first])
        shortest = max(int(np.searchsorted(upto, upto[stop] - room)), longest)
        yield np.concatenate([np.arange(first, longest), np.arange(shortest, stop)])
        first, stop = longest, shortest
