"""A cell: one point of a study's declared product, and what it comes to."""

from dataclasses import dataclass
from typing import Literal

from study.space import Heads, Point, Subset, as_heads, label

State = Literal["feasible", "infeasible", "duplicate", "unasked"]
Stage = Literal["screen", "final"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the declared product.

    Attributes:
        index: place in the declared product, from 0; also part of the store's key.
        dataset: name of the data set.
        model: name of the model.
        embeddings: the subset in canonical order; None for a model without temporal embeddings.
        factors: the declared value (heads unresolved) of every factor that the model may read,
            those that a search has yet to choose left out; shared between cells, read-only.
        seed: the replicate.
        state: `feasible` cells have a trial of their own, a `duplicate` shares an earlier one's;
            the point of an `unasked` one is chosen when the results before it are known.
        reason: the rule that makes the cell infeasible, or which cell it repeats; else empty.
        trial_id: the trial that answers the cell; None where infeasible or unasked.
        stage: `final` cells enter comparisons, those of `screen` choose what is confirmed.
    """

    index: int
    dataset: str
    model: str
    embeddings: Subset | None
    factors: Point
    seed: int
    state: State
    reason: str
    trial_id: str | None
    stage: Stage = "final"

    @property
    def label(self) -> str:
        """The subset's label, e.g. `Day+Pos+Sin+Log`, or `none`; empty for another model."""
        return "" if self.embeddings is None else label(self.embeddings)

    @property
    def heads(self) -> Heads | None:
        """Heads as declared: a number or `per-embedding`; None for a model without."""
        declared = self.factors.get("heads")
        return None if declared is None else as_heads(declared)
