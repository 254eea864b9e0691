"""What attention models are built of besides attention: dropout, feed-forward and item head.

Modules come without values: the network that owns them draws every weight from a named generator,
and dropout takes its masks from a generator that is passed in. Nothing uses global random state.
"""

from typing import cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

_LEVELS = 1 << 16  # dropout rates are rounded to multiples of 2**-16


def drop(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Zero entries of `x` at `rate` and scale the others to keep the mean; None: return `x`."""
    if generator is None or rate == 0:
        return x
    return x * dropout_mask(x, rate, generator)


def add_dropped(
    x: Tensor, branch: Tensor, *, rate: float, generator: torch.Generator | None
) -> Tensor:
    """Return `x` plus the dropped residual branch."""
    if generator is None or rate == 0:
        return x + branch
    return torch.addcmul(x, branch, dropout_mask(branch, rate, generator))


def dropout_mask(like: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Draw factors of 0 (at `rate`) and 1 / (1 - rate), shaped like `like`.

    Four entries share one 64-bit draw, 16 bits each, and the comparison writes numbers, not truth
    values: with both, a tenth of the time of `bernoulli_`.
    """
    n = like.numel()
    bits = torch.empty((n + 3) // 4, dtype=torch.int64, device=like.device)
    bits.random_(-(2**63), None, generator=generator)
    dropped = min(round(rate * _LEVELS), _LEVELS - 1)
    kept = torch.empty(n, dtype=like.dtype, device=like.device)
    torch.ge(bits.view(torch.int16)[:n], dropped - _LEVELS // 2, out=kept)
    return kept.view(like.shape).mul_(_LEVELS / (_LEVELS - dropped))


def linear(n_in: int, n_out: int, *, bias: bool = True) -> nn.Linear:
    """Return a linear map without values: torch would draw them from the global generator."""
    return nn.Linear(n_in, n_out, bias=bias, device="meta").to_empty(device="cpu")


def gelu(x: Tensor) -> Tensor:
    """GELU in its tanh form."""
    return functional.gelu(x, approximate="tanh")


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
        return cast("Tensor", self.contract(drop(gelu(self.expand(x)), self.rate, dropout)))


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
