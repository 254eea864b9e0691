"""Cross entropy over all items in bounded memory: only a block of logits exists at a time.

The gradient of a block is computed while its logits are there, in place of them. What is kept for
the backward pass has the size of the states and of the item embedding, whatever the number of
positions times the number of items; and the block stays in the processor's cache.
"""

import math
from typing import Any, cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

LOGITS = {"cpu": 1 << 19, "cuda": 1 << 26}
"""Logits that exist at a time, by kind of device; one position's are the least."""


def item_cross_entropy(
    state: Float[Tensor, "positions hidden"],
    items: Float[Tensor, "item_rows hidden"],
    *,
    bias: Float[Tensor, "1 classes"],
    labels: Int64[Tensor, "positions"],
    block: int | None = None,
) -> Float[Tensor, ""]:
    """Return the mean of `logsumexp(logits) - logits[label]`, `logits = state . items + bias`.

    Args:
        state: what is dotted with items, at least one position.
        items: the item embedding; `[MASK]`, its last row, is no class.
        bias: of each class.
        labels: the class of each position.
        block: logits that exist at a time; None: what suits the device.
    """
    device = state.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else items.dtype
    if block is None:
        block = LOGITS.get(device, LOGITS["cuda"])
    n_blocks = math.ceil(len(state) / max(1, block // bias.shape[-1]))
    positions = math.ceil(len(state) / n_blocks)
    with torch.autocast(device, enabled=False):
        loss = _ItemCrossEntropy.apply(  # type: ignore[no-untyped-call]
            state.to(dtype), items.to(dtype), bias.to(dtype), labels, positions
        )
    return cast("Tensor", loss)


class _ItemCrossEntropy(Function):
    """The gradient of the logits is `(softmax - onehot(label)) / positions`."""

    @staticmethod
    def forward(  # noqa: PLR0917  torch passes them by position
        ctx: Any,  # noqa: ANN401  torch does not type it
        state: Tensor,
        items: Tensor,
        bias: Tensor,
        labels: Tensor,
        positions: int,
    ) -> Tensor:
        # Sums are at least float32, also where products are bfloat16.
        wide = torch.promote_types(state.dtype, torch.float32)
        classes = items[:-1]
        total = torch.zeros((), dtype=wide, device=state.device)
        d_state = torch.empty_like(state)
        d_items = torch.zeros(items.shape, dtype=wide, device=items.device)
        d_bias = torch.zeros(bias.shape, dtype=wide, device=bias.device)
        block = torch.empty(positions, bias.shape[-1], dtype=state.dtype, device=state.device)
        for first in range(0, len(state), positions):
            at = slice(first, first + positions)
            some, label = state[at], labels[at, None]
            logits = torch.addmm(bias, some, classes.T, out=block[: len(some)]).to(wide)
            highest, own = logits.amax(dim=1), logits.gather(1, label)[:, 0]
            share = torch.softmax(logits, dim=1, out=logits)
            # The share of the highest is at least 1 / classes: its logarithm is never -inf.
            total += (highest - share.amax(dim=1).log() - own).sum()
            share.scatter_add_(1, label, share.new_full((), -1.0).expand_as(label))
            d_logits = share.to(state.dtype)
            torch.mm(d_logits, classes, out=d_state[at])
            if d_items.dtype == d_logits.dtype:
                d_items[:-1].addmm_(d_logits.T, some)
            else:
                d_items[:-1] += d_logits.T @ some
            d_bias += share.sum(dim=0)
        ctx.save_for_backward(d_state, d_items, d_bias)
        ctx.dtype, ctx.n = items.dtype, len(state)
        return total / len(state)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        each = gradient / ctx.n
        d_state, d_items, d_bias = ((d * each).to(ctx.dtype) for d in ctx.saved_tensors)
        return d_state, d_items, d_bias, None, None
