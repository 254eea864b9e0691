"""How much goes through a network at once, by kind of device; no torch, for planning."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How much goes at once, at most; one sequence always goes.

    Attributes:
        scores: sequences x time x time.
        logits: sequences x classes, where all items are ranked.
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
