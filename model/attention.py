"""The attention of one head, in as few passes over its scores as it takes, forward and backward.

A tensor of sequences x time x time leaves a processor's cache long before it costs arithmetic, so
passes over memory decide the speed. Each head is computed on its own, softmax and dropout work in
place, and the backward pass is written out: it needs the weights before and after dropout, no
masks, and no scores.
"""

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from model.blocks import kept_entries, kept_share


def attend(
    query: Float[Tensor, "batch queries width"],
    key: Float[Tensor, "batch keys width"],
    value: Float[Tensor, "batch keys width"],
    *,
    relative: Float[Tensor, "batch queries keys"] | None,
    unseen: Float[Tensor, "batch #queries keys"] | None,
    rate: float,
    dropout: torch.Generator | None,
) -> Float[Tensor, "batch queries width"]:
    """Return `dropped(softmax(q k / sqrt(width) + relative + unseen)) v` of one head.

    Args:
        query: what asks.
        key: what is asked.
        value: what is averaged.
        relative: what its scores get besides `q k / sqrt(width)`.
        unseen: 0 for keys that a query sees, the lowest number for others; None if it sees all.
        rate: dropout of the weights.
        dropout: None for evaluation.
    """
    dtype = query.dtype  # under autocast not all of them need have the same
    relative = None if relative is None else relative.to(dtype)
    if dropout is None and not torch.is_grad_enabled():
        return _fused(query, key, value, relative=relative, unseen=unseen)
    with torch.autocast(query.device.type, enabled=False):
        attended = _Head.apply(  # type: ignore[no-untyped-call]
            query, key.to(dtype), value.to(dtype), relative, unseen, rate, dropout
        )
    return cast("Tensor", attended)


def _fused(
    query: Tensor, key: Tensor, value: Tensor, *, relative: Tensor | None, unseen: Tensor | None
) -> Tensor:
    """Attend without ever writing the scores down; torch can do so where nothing is dropped."""
    given = [x for x in (relative, unseen) if x is not None]
    bias = sum(given[1:], given[0])[:, None] if given else None
    attended: Tensor = functional.scaled_dot_product_attention(
        query[:, None], key[:, None], value[:, None], attn_mask=bias
    )
    return attended[:, 0]


class _Head(Function):
    """With P the weights, D those that dropout leaves, s = 1 / (1 - rate): `out = s D v`.

    Backward, for the gradient G of out: `dv = s D^T G`; the gradient of the scores is
    `s D * (G v^T) - P * rowsum(G * out)`, since `rowsum(D * (G v^T)) = rowsum(G * D v)`.
    """

    @staticmethod
    def forward(  # noqa: PLR0917  torch passes them by position
        ctx: Any,  # noqa: ANN401  torch does not type it
        query: Tensor,
        key: Tensor,
        value: Tensor,
        relative: Tensor | None,
        unseen: Tensor | None,
        rate: float,
        dropout: torch.Generator | None,
    ) -> Tensor:
        scale = query.shape[-1] ** -0.5
        query = query * scale
        if relative is None:
            scores = torch.bmm(query, key.mT)
        else:
            scores = torch.baddbmm(relative, query, key.mT)
        if unseen is not None:
            scores += unseen
        weights = torch.softmax(scores, dim=-1, out=scores)
        left, upscale = weights, 1.0
        if dropout is not None and rate > 0:
            left = kept_entries(weights, rate, dropout).mul_(weights)
            upscale = 1 / kept_share(rate)
        out = torch.bmm(left, value).mul_(upscale)
        ctx.save_for_backward(query, key, value, weights, left, out)
        ctx.scale, ctx.upscale = scale, upscale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        query, key, value, weights, left, out = ctx.saved_tensors
        total = (gradient * out).sum(dim=-1, keepdim=True)
        gradient = gradient * ctx.upscale
        d_value = torch.bmm(left.mT, gradient)
        d_scores = torch.bmm(gradient, value.mT).mul_(left).addcmul_(weights, total, value=-1)
        d_query = torch.bmm(d_scores, key).mul_(ctx.scale)
        d_key = torch.bmm(d_scores.mT, query)
        d_relative = d_scores if ctx.needs_input_grad[3] else None
        return d_query, d_key, d_value, d_relative, None, None, None
