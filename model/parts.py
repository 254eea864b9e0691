"""How many sequences go through a network at once: as many as stay near the processor.

The rule: attention scores (sequences x time x time, of one head) and logits (scored positions x
classes) are bounded. Sequences go in order of length, longest first; those that go together are cut
to their longest, and none is shorter than half of it. The configured batch size decides
the steps of the optimizer, not this.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from model.data.batches import TrainingBatch


@dataclass(frozen=True, slots=True)
class Limits:
    """How much goes at once, at most; one sequence always goes.

    Attributes:
        scores: sequences x time x time.
        logits: scored positions x classes.
        sequences: sequences.
    """

    scores: int
    logits: int
    sequences: int


LIMITS = {
    "cpu": Limits(scores=640_000, logits=4_000_000, sequences=1_024),
    "cuda": Limits(scores=16_000_000, logits=64_000_000, sequences=4_096),
}
"""By kind of device: a CPU's caches are small, a GPU is idle unless it has much at a time."""


def stretches(
    lengths: NDArray[np.int64], scored: NDArray[np.int64], *, n_classes: int, limits: Limits
) -> Iterator[slice]:
    """Cut sequences, whose lengths fall, into consecutive stretches within the limits.

    Args:
        lengths: of each sequence, at least 1, in falling order.
        scored: scored positions of each sequence.
        n_classes: logits of a scored position.
        limits: what a stretch stays within.

    >>> falling, ones = np.array([10, 10, 10, 5, 5]), np.ones(5, dtype=int)
    >>> limits = Limits(scores=200, logits=99, sequences=9)
    >>> [(s.start, s.stop) for s in stretches(falling, ones, n_classes=9, limits=limits)]
    [(0, 2), (2, 4), (4, 5)]
    >>> uneven = np.array([3, 1, 1])
    >>> [(s.start, s.stop) for s in stretches(uneven, ones[:3], n_classes=9, limits=limits)]
    [(0, 1), (1, 3)]
    """
    upto = np.concatenate([[0], np.cumsum(scored)])
    first = 0
    while first < len(lengths):
        by_scores = first + limits.scores // int(lengths[first]) ** 2
        allowed = upto[first] + limits.logits // n_classes
        by_logits = int(np.searchsorted(upto, allowed, side="right")) - 1
        by_length = int(np.searchsorted(-2 * lengths, -lengths[first], side="right"))
        stop = min(by_scores, by_logits, by_length, first + limits.sequences)
        stop = max(stop, first + 1)
        yield slice(first, stop)
        first = stop


def parts(
    batch: TrainingBatch, *, n_classes: int, limits: Limits
) -> Iterator[tuple[TrainingBatch, int]]:
    """Yield the parts of a batch, and how many chosen positions each has; those with none stay out.

    No sequence may be empty. The batch should lie on the CPU: its lengths are read.
    """
    lengths = batch.items.count_nonzero(dim=1).numpy(force=True)
    counts = batch.labels.count_nonzero(dim=1).numpy(force=True)
    order = np.argsort(-lengths, kind="stable")
    for at in stretches(lengths[order], counts[order], n_classes=n_classes, limits=limits):
        rows, n = order[at], int(counts[order[at]].sum())
        if n > 0:
            yield _cut(batch, rows, int(lengths[rows[0]])), n


def _cut(batch: TrainingBatch, rows: NDArray[np.int64], longest: int) -> TrainingBatch:
    return replace(
        batch, **{f.name: getattr(batch, f.name)[rows, -longest:] for f in fields(batch)}
    )
