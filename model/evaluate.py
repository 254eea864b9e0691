"""Ranks of the held-out targets by counting: how many candidates beat or equal each target.

Candidates of `popular-100` are the target and the data set's fixed negatives. Those of `full` are
all items but the ones anywhere in the user's history before the target, so that `max_len` does not
change them; the target is a candidate even if it is a repeat, padding and `[MASK]` never are.
"""

from collections.abc import Sequence
from typing import Protocol as Interface
from typing import runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from numpy.typing import NDArray
from torch import Tensor

from model.config import EvaluationConfig
from model.data.batches import Batch, evaluation_batches
from model.data.prepare import PreparedData
from model.data.split import HeldOut, target_positions
from model.errors import Diverged
from model.results import Protocol, Ranks


@runtime_checkable
class Recommender(Interface):
    """What evaluation asks of a model; a higher score is better."""

    def state(self, batch: Batch) -> Float[Tensor, "batch hidden"]:
        """Return what scoring needs to know of each sequence."""

    def candidate_scores(
        self, state: Float[Tensor, "batch hidden"], candidates: Int64[Tensor, "batch candidates"]
    ) -> Float[Tensor, "batch candidates"]:
        """Score each row's own candidates."""

    def all_scores(self, state: Float[Tensor, "batch hidden"]) -> Float[Tensor, "batch classes"]:
        """Score padding, which is never a candidate, and items 1..I."""


@torch.no_grad()
def evaluate(
    model: Recommender,
    data: PreparedData,
    split: HeldOut,
    *,
    protocols: Sequence[Protocol],
    evaluation: EvaluationConfig,
    max_len: int,
    batch: int,
    device: str | torch.device = "cpu",
) -> tuple[Ranks, ...]:
    """Rank every user's target under each protocol, in one pass over the users.

    Raises:
        Diverged: a score is NaN or infinite.
    """
    counts: dict[Protocol, list[Tensor]] = {protocol: [] for protocol in protocols}
    targets = data.items[target_positions(data.offsets, split)].astype(np.int64)
    batches = evaluation_batches(
        data, split, max_len=max_len, target_time=evaluation.target_time, batch=batch
    )
    for users, seen in batches:
        state = model.state(seen.to(device))
        target = torch.from_numpy(targets[users])[:, None].to(device)
        for protocol in protocols:
            if protocol == "full":
                scores = model.all_scores(state)
                repeats = evaluation.repeats == "allowed"
                allowed = _open_items(data, users, split=split, repeats=repeats).to(device)
                allowed.scatter_(1, target, False)
                target_score = scores.gather(1, target)
            else:
                negatives = torch.from_numpy(data.negatives[protocol][users].astype(np.int64))
                scores = model.candidate_scores(state, torch.cat([target, negatives.to(device)], 1))
                target_score, scores = scores[:, :1], scores[:, 1:]
                allowed = negatives.to(device) > 0
            if not (scores.isfinite().all() and target_score.isfinite().all()):
                raise Diverged(f"scores must be finite, got NaN or infinity ({split}, {protocol})")
            greater = ((scores > target_score) & allowed).sum(1)
            equal = ((scores == target_score) & allowed).sum(1)
            counts[protocol].append(torch.stack([greater, equal]))
    return tuple(
        Ranks(split, protocol, *torch.cat(found, 1).cpu().numpy().astype(np.int32))
        for protocol, found in counts.items()
    )


def _open_items(
    data: PreparedData, users: NDArray[np.int64], *, split: HeldOut, repeats: bool
) -> Bool[Tensor, "batch classes"]:
    """Mark the items that may be recommended to each user: new ones, or all if they may repeat."""
    allowed = torch.ones(len(users), data.n_items + 1, dtype=torch.bool)
    allowed[:, 0] = False
    if not repeats:
        starts = data.offsets[users]
        lengths = target_positions(data.offsets, split)[users] - starts
        row = np.repeat(np.arange(len(users)), lengths)
        within = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        seen = data.items[starts[row] + within].astype(np.int64)
        allowed[torch.from_numpy(row), torch.from_numpy(seen)] = False
    return allowed
