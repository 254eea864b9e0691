"""What attention models are built of besides attention: dropout, feed-forward and item head.

Modules come without values: the network that owns them draws every weight from a named generator,
and dropout takes its masks from a generator that is passed in. Nothing uses global random state.
"""

import math
from functools import cache
from typing import Any, cast

import torch
from jaxtyping import Float, Int16, Int64
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

_CUBIC, _STEEPNESS = 0.044715, 2 * math.sqrt(2 / math.pi)  # of the tanh form of GELU
_LEVELS = 1 << 16  # dropout rates are rounded to multiples of 2**-16


def drop(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Zero entries of `x` at `rate` and scale the others to keep the mean; None: return `x`."""
    if generator is None or rate == 0:
        return x
    return x * kept_entries(x, rate, generator).mul_(1 / kept_share(rate))


def add_dropped(
    x: Tensor, branch: Tensor, *, rate: float, generator: torch.Generator | None
) -> Tensor:
    """Return `x` plus the dropped residual branch."""
    if generator is None or rate == 0:
        return x + branch
    kept = kept_entries(branch, rate, generator)
    return torch.addcmul(x, branch, kept, value=1 / kept_share(rate))


def kept_entries(like: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Draw 0, at `rate`, or 1 for every entry of `like`.

    The comparison writes numbers, not truth values: with 16 bits an entry, a tenth of the time of
    `bernoulli_`.
    """
    bits = _bits(like.numel(), generator, device=like.device).view(like.shape)
    kept = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    torch.ge(bits, _dropped_levels(rate) - _LEVELS // 2, out=kept)
    return kept


def kept_share(rate: float) -> float:
    """Return the probability that an entry is kept: `1 - rate`, as it is rounded."""
    return 1 - _dropped_levels(rate) / _LEVELS


def standard_normal(like: Tensor, generator: torch.Generator) -> Tensor:
    """Draw from normal(0, 1) for every entry of `like`.

    One of 65,536 equally likely quantiles, from -4.2 to 4.2: 16 bits and a look-up take half the
    time of `normal_`.
    """
    bits = _bits(like.numel(), generator, device=like.device)
    level = bits.to(torch.int32).add_(_LEVELS // 2)
    return _quantiles(like.dtype, like.device).index_select(0, level).view(like.shape)


def _bits(n: int, generator: torch.Generator, *, device: torch.device) -> Int16[Tensor, "n"]:
    """Draw n uniform 16-bit integers; four of them share one 64-bit draw."""
    words = torch.empty((n + 3) // 4, dtype=torch.int64, device=device)
    words.random_(-(2**63), None, generator=generator)
    return words.view(torch.int16)[:n]


def _dropped_levels(rate: float) -> int:
    return min(round(rate * _LEVELS), _LEVELS - 1)


@cache
def _quantiles(dtype: torch.dtype, device: torch.device) -> Float[Tensor, "levels"]:
    """Return the normal's quantiles at the middles of equal shares, scaled to variance 1."""
    middles = (torch.arange(_LEVELS, dtype=torch.float64) + 0.5) / _LEVELS
    found: Tensor = torch.special.ndtri(middles)
    return found.div_(found.square().mean().sqrt()).to(device, dtype)


def linear(n_in: int, n_out: int, *, bias: bool = True) -> nn.Linear:
    """Return a linear map without values: torch would draw them from the global generator."""
    return nn.Linear(n_in, n_out, bias=bias, device="meta").to_empty(device="cpu")


def side_by_side(x: Float[Tensor, "*rows n_in"], *maps: nn.Linear) -> tuple[Tensor, ...]:
    """Return what each map makes of `x`, by one matrix product."""
    weights: list[Tensor] = [m.weight for m in maps]
    sizes = [len(weight) for weight in weights]
    biases: list[Tensor] = [
        weight.new_zeros(len(weight)) if m.bias is None else m.bias
        for m, weight in zip(maps, weights, strict=True)
    ]
    made: Tensor = functional.linear(x, torch.cat(weights), torch.cat(biases))
    return made.split_with_sizes(sizes, dim=-1)


def gelu(x: Tensor) -> Tensor:
    """GELU in its tanh form."""
    return functional.gelu(x, approximate="tanh")


def dropped_gelu(
    x: Float[Tensor, "*rows n"], rate: float, generator: torch.Generator | None
) -> Float[Tensor, "*rows n"]:
    """Return `drop(gelu(x))`."""
    factors = None
    if generator is not None and rate > 0:
        factors = kept_entries(x, rate, generator).mul_(1 / kept_share(rate))
    return cast("Tensor", _DroppedGelu.apply(x, factors))  # type: ignore[no-untyped-call]


class _DroppedGelu(Function):
    """With g = sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), the tanh form of GELU is `x g`.

    Its slope `g + x g (1 - g) 2 sqrt(2 / pi) (1 + 3 * 0.044715 x^2)` is computed in the forward
    pass, where everything is at hand: together half the time of torch's own, whose tanh is slow.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, factors: Tensor | None) -> Tensor:  # noqa: ANN401
        dtype = x.dtype
        x = x.to(torch.promote_types(dtype, torch.float32))
        square = x * x
        gate = torch.addcmul(x, square, x, value=_CUBIC).mul_(_STEEPNESS).sigmoid_()
        out = x * gate
        if not ctx.needs_input_grad[0]:
            return out.to(dtype) if factors is None else out.mul_(factors).to(dtype)
        slope = square.mul_(3 * _CUBIC * _STEEPNESS).add_(_STEEPNESS)
        slope.mul_(torch.addcmul(out, out, gate, value=-1)).add_(gate)
        if factors is not None:
            out.mul_(factors)
            slope.mul_(factors)
        ctx.save_for_backward(slope)
        return out.to(dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        (slope,) = ctx.saved_tensors
        return (gradient * slope).to(gradient.dtype), None


class FeedForward(nn.Module):
    """`W2 drop(gelu(W1 x))`, hidden -> 4 hidden -> hidden."""

    def __init__(self, hidden: int, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.expand = linear(hidden, 4 * hidden)
        self.contract = linear(4 * hidden, hidden)

    def forward(
        self, x: Float[Tensor, "*rows hidden"], dropout: torch.Generator | None
    ) -> Float[Tensor, "*rows hidden"]:
        """Transform every row on its own."""
        return cast("Tensor", self.contract(dropped_gelu(self.expand(x), self.rate, dropout)))


class ItemHead(nn.Module):
    """`LayerNorm(gelu(W x + b))` dotted with the item embedding rows 0..I, plus a bias per row."""

    def __init__(self, hidden: int, n_items: int) -> None:
        super().__init__()
        self.linear = linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.item_bias = nn.Parameter(torch.zeros(1, n_items + 1))

    def state(self, x: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows hidden"]:
        """Return what is dotted with items."""
        return cast("Tensor", self.norm(gelu(self.linear(x))))

    def all_scores(
        self, state: Float[Tensor, "rows hidden"], items: Float[Tensor, "item_rows hidden"]
    ) -> Float[Tensor, "rows classes"]:
        """Score rows 0..I of the item embedding; `[MASK]`, its last row, is no class."""
        return torch.addmm(self.item_bias, state, items[:-1].T)

    def candidate_scores(
        self,
        state: Float[Tensor, "rows hidden"],
        items: Float[Tensor, "item_rows hidden"],
        *,
        candidates: Int64[Tensor, "rows candidates"],
    ) -> Float[Tensor, "rows candidates"]:
        """Score the given items of each row."""
        dots = functional.embedding(candidates, items) @ state[:, :, None]
        return dots[:, :, 0] + self.item_bias[0, candidates]
