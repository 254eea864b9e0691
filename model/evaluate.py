"""Ranks of the held-out targets by counting: how many candidates beat or equal each target.

Candidates of `popular-100` are the target and the data set's fixed negatives. Those of `full` are
all items but the ones anywhere in the user's history before the target, so that `max_len` does not
change them; the target is a candidate even if it is a repeat, padding and `[MASK]` never are.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol as Interface
from typing import runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int32, Int64
from numpy.typing import NDArray
from torch import Tensor

from model.config import EvaluationConfig
from model.data.batches import Batch, evaluation_batch
from model.data.prepare import PreparedData
from model.data.split import HeldOut, target_positions
from model.errors import Diverged
from model.limits import LIMITS, Limits
from model.parts import stretches
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


@torch.inference_mode()
def evaluate(
    model: Recommender,
    data: PreparedData,
    split: HeldOut,
    *,
    protocols: Sequence[Protocol],
    evaluation: EvaluationConfig,
    max_len: int,
    device: str | torch.device = "cpu",
    limits: Limits | None = None,
) -> tuple[Ranks, ...]:
    """Rank every user's target under each protocol, in one pass over the users.

    How many users go at once is a matter of memory alone (`limits`, by default the device's).

    Raises:
        Diverged: a score is NaN or infinite.
    """
    device = torch.device(device)
    limits = limits or LIMITS[device.type]
    counts = {p: torch.empty(2, data.n_users, dtype=torch.int32, device=device) for p in protocols}
    finite = torch.ones((), dtype=torch.bool, device=device)
    targets = data.items[target_positions(data.offsets, split)].astype(np.int64)
    for users in _together(data, split, max_len=max_len, limits=limits):
        seen = evaluation_batch(
            data, split, users, max_len=max_len, target_time=evaluation.target_time
        )
        state = model.state(seen.to(device))
        target = torch.from_numpy(targets[users])[:, None].to(device)
        column = torch.from_numpy(users).to(device)
        for protocol in protocols:
            if protocol == "full":
                scores = model.all_scores(state)
                repeats = evaluation.repeats == "allowed"
                allowed = _open_items(data, users, split=split, repeats=repeats).to(device)
                allowed.scatter_(1, target, False)
                target_score = scores.gather(1, target)
            else:
                negatives = torch.from_numpy(data.negatives[protocol][users]).to(device).long()
                scores = model.candidate_scores(state, torch.cat([target, negatives], 1))
                target_score, scores = scores[:, :1], scores[:, 1:]
                allowed = negatives > 0
            finite &= scores.isfinite().all() & target_score.isfinite().all()
            counts[protocol][0, column] = _count(scores > target_score, allowed)
            counts[protocol][1, column] = _count(scores == target_score, allowed)
    # Asked once: each question makes a device wait.
    if not finite:
        raise Diverged(
            f"scores must be finite, got NaN or infinity ({split}, {', '.join(protocols)})"
        )
    return tuple(Ranks(split, protocol, *found.cpu().numpy()) for protocol, found in counts.items())


def _together(
    data: PreparedData, split: HeldOut, *, max_len: int, limits: Limits
) -> Iterator[NDArray[np.int64]]:
    """Yield every user once, those together whose inputs are of similar length."""
    lengths = np.minimum(target_positions(data.offsets, split) - data.offsets[:-1] + 1, max_len)
    order = np.argsort(-lengths, kind="stable")
    for at in stretches(lengths[order], limits=limits, n_classes=data.n_items + 1):
        yield order[at]


def _count(
    found: Bool[Tensor, "batch candidates"], allowed: Bool[Tensor, "batch candidates"]
) -> Int32[Tensor, "batch"]:
    return (found & allowed).sum(1, dtype=torch.int32)


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
