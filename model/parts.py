"""How many sequences go through a network at once: as many as stay near the processor.

The rule: attention scores (sequences x time x time, of one head) are bounded. Sequences go in order
of length, longest first; those that go together are cut to their longest, and none is shorter than
half of it. Short ones share rows where the network can tell them apart. The configured batch size
decides the steps of the optimizer, not this.
"""

from collections.abc import Iterator
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from model.data.batches import TrainingBatch
from model.limits import Limits
from model.packing import ROW, PackedBatch, pack


def stretches(lengths: NDArray[np.int64], *, limits: Limits, n_classes: int = 0) -> Iterator[slice]:
    """Cut sequences, whose lengths fall, into consecutive stretches within the limits.

    Args:
        lengths: of each sequence, at least 1, in falling order.
        limits: what a stretch stays within.
        n_classes: logits of each sequence.

    >>> falling = np.array([10, 10, 10, 5, 5])
    >>> limits = Limits(scores=200, logits=99, sequences=9)
    >>> [(s.start, s.stop) for s in stretches(falling, limits=limits)]
    [(0, 2), (2, 4), (4, 5)]
    >>> [(s.start, s.stop) for s in stretches(np.array([3, 1, 1]), limits=limits, n_classes=33)]
    [(0, 1), (1, 3)]
    """
    most = limits.sequences
    if n_classes:
        most = max(1, min(most, limits.logits // n_classes))
    first = 0
    while first < len(lengths):
        by_scores = first + limits.scores // int(lengths[first]) ** 2
        by_length = int(np.searchsorted(-2 * lengths, -lengths[first], side="right"))
        stop = max(first + 1, min(by_scores, by_length, first + most))
        yield slice(first, stop)
        first = stop


def parts(
    batch: TrainingBatch, *, limits: Limits, shared: bool
) -> Iterator[tuple[TrainingBatch, int]]:
    """Yield the parts of a batch, and how many chosen positions each has; those with none stay out.

    No sequence may be empty. The batch should lie on the CPU: its lengths are read.

    Args:
        batch: sequences, each in a row of its own.
        limits: what a part stays within.
        shared: lay those of at most `ROW` events in rows together; see `model.packing`.
    """
    lengths = batch.items.count_nonzero(dim=1).numpy(force=True)
    short = lengths <= ROW if shared else np.zeros_like(lengths, dtype=bool)
    if not short.all():
        yield from _cut(_rows(batch, ~short), limits)
    if short.any():
        yield from _cut(pack(_rows(batch, short)), limits)


def _cut(batch: TrainingBatch, limits: Limits) -> Iterator[tuple[TrainingBatch, int]]:
    lengths = batch.items.count_nonzero(dim=1).numpy(force=True)
    if isinstance(batch, PackedBatch):
        lengths[:] = batch.items.shape[1]  # all are full but the last, which is no part's worth
    counts = batch.labels.count_nonzero(dim=1).numpy(force=True)
    order = np.argsort(-lengths, kind="stable")
    for at in stretches(lengths[order], limits=limits):
        rows, n = order[at], int(counts[order[at]].sum())
        if n > 0:
            yield _rows(batch, rows, longest=int(lengths[rows[0]])), n


def _rows(
    batch: TrainingBatch, chosen: NDArray[np.int64] | NDArray[np.bool_], *, longest: int = 0
) -> TrainingBatch:
    """Return the chosen rows, of their newest columns all or as many as `longest`."""
    found = {f.name: getattr(batch, f.name)[chosen, -longest:] for f in fields(batch)}
    return replace(batch, **found)
