"""What models of the next item share: which events they read, their loss, and dot products."""

from dataclasses import fields, replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from model.config import CtaConfig, SasrecConfig, TimeLstmConfig, TisasrecConfig
from model.data.batches import Batch, TrainingBatch, UserBatch
from model.data.next_items import NextItemBatch
from model.loss import item_cross_entropy
from model.network import Network

_SECONDS_PER_DAY = 86_400


def without_target(batch: Batch) -> Batch:
    """Return an evaluation batch without its last place, which is the target's."""
    return replace(batch, **{f.name: getattr(batch, f.name)[:, :-1] for f in fields(batch)})


def of_users(batch: Batch) -> UserBatch | NextItemBatch:
    """Return the batch, which says whose events it holds."""
    if not isinstance(batch, UserBatch | NextItemBatch):
        raise TypeError("the model reads users: a UserBatch or a NextItemBatch")
    return batch


def causal_mask(
    items: Int64[Tensor, "batch time"], dtype: torch.dtype
) -> Float[Tensor, "batch time time"]:
    """Return 0 where j <= i is no padding, else the lowest number."""
    length = items.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool, device=items.device).tril()
    allowed = earlier & (items > 0)[:, None, :]
    mask = torch.zeros(allowed.shape, dtype=dtype, device=items.device)
    return mask.masked_fill_(~allowed, torch.finfo(dtype).min)


def next_item_loss(
    hidden: Float[Tensor, "batch time hidden"],
    batch: TrainingBatch,
    *,
    items: Float[Tensor, "item_rows hidden"],
    config: SasrecConfig | TisasrecConfig | CtaConfig | TimeLstmConfig,
) -> Float[Tensor, ""]:
    """Return the loss that the configuration asks for, over the positions with a label."""
    chosen = batch.labels > 0
    state, labels = hidden[chosen], batch.labels[chosen]
    if config.loss == "softmax":
        bias = torch.zeros(1, len(items) - 1, dtype=items.dtype, device=items.device)
        bias[0, 0] = torch.finfo(items.dtype).min  # padding is no class
        return item_cross_entropy(state, items, bias=bias, labels=labels)
    if not isinstance(batch, NextItemBatch):
        raise TypeError("the binary loss needs negatives: a NextItemBatch")
    right = dots(state, items, items=labels[:, None])[:, 0]
    wrong = dots(state, items, items=batch.negatives[chosen])
    return (functional.softplus(-right) + functional.softplus(wrong).sum(dim=1)).mean()


class DotProduct(Network):
    """A network that scores an item by the dot product of the state with its embedding."""

    def candidate_scores(
        self, state: Float[Tensor, "batch hidden"], candidates: Int64[Tensor, "batch candidates"]
    ) -> Float[Tensor, "batch candidates"]:
        """Score each row's own candidates."""
        return dots(state, self.item_embedding, items=candidates)

    def all_scores(self, state: Float[Tensor, "batch hidden"]) -> Float[Tensor, "batch classes"]:
        """Score items 1..I; column 0 belongs to padding."""
        return state @ self.item_embedding[:-1].T


def dots(
    state: Float[Tensor, "rows hidden"],
    embedding: Float[Tensor, "item_rows hidden"],
    *,
    items: Int64[Tensor, "rows n"],
) -> Float[Tensor, "rows n"]:
    """Return the dot products of each row's state with its own items."""
    return (functional.embedding(items, embedding) @ state[:, :, None])[:, :, 0]


def until_next(batch: TrainingBatch) -> Int64[Tensor, "batch time"]:
    """Return the seconds from each event to its label's."""
    if not isinstance(batch, NextItemBatch):
        raise TypeError("the model reads when the next item comes: a NextItemBatch")
    return batch.next_times - batch.times


def log_days(seconds: Int64[Tensor, "*places"], dtype: torch.dtype) -> Float[Tensor, "*places"]:
    """Return `log(1 + days)`."""
    return torch.log1p(seconds.double() / _SECONDS_PER_DAY).to(dtype)
