"""Popularity: every user gets the same ranking, by training interactions; the floor of a table."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from model.config import EvaluationConfig
from model.data.batches import Batch
from model.data.prepare import PreparedData
from model.data.split import HeldOut, training_ends
from model.evaluate import evaluate
from model.results import PROTOCOLS, Protocol, Ranks


class Popularity:
    """Scores an item by its interactions in the training prefixes; targets are not counted."""

    def __init__(self, data: PreparedData) -> None:
        position = np.arange(len(data.items))
        ends = np.repeat(training_ends(data.offsets), np.diff(data.offsets))
        counts = np.bincount(data.items[position < ends], minlength=data.n_items + 1)
        self._counts = torch.from_numpy(counts).double()

    def state(self, batch: Batch) -> Float[Tensor, "batch 0"]:
        """Return nothing for each sequence: histories do not matter."""
        return torch.empty(len(batch.items), 0, device=batch.items.device)

    def candidate_scores(
        self, state: Float[Tensor, "batch 0"], candidates: Int64[Tensor, "batch candidates"]
    ) -> Float[Tensor, "batch candidates"]:
        """Return the candidates' counts."""
        del state
        return self._counts.to(candidates.device)[candidates]

    def all_scores(self, state: Float[Tensor, "batch 0"]) -> Float[Tensor, "batch classes"]:
        """Return every item's count, padding's (0) first."""
        return self._counts.to(state.device).expand(len(state), -1)


def popularity_ranks(
    data: PreparedData,
    split: HeldOut,
    *,
    protocols: Sequence[Protocol] = PROTOCOLS,
    evaluation: EvaluationConfig | None = None,
) -> tuple[Ranks, ...]:
    """Rank every user's target by popularity alone."""
    return evaluate(
        Popularity(data),
        data,
        split,
        protocols=protocols,
        evaluation=evaluation or EvaluationConfig(),
        max_len=2,
    )
