"""Scores of the relative embeddings, `u_i . r_ij`, without a batch x time x time x hidden tensor.

Sin: the addition theorems split `w (t_i - t_j)` into a factor of i and one of j, so the score is a
dot product of a rotated query with the sines and cosines of the key's time; an identity.
Exp and Log: r depends on i and j only through the gap x = |t_i - t_j| / tau. `u . r(x)` is
tabulated at knots uniform in log(1 + x), where both are smooth, and interpolated by the parabola
through the nearest three: off by at most 5e-6 for Log, and by 5e-5 for Exp at gaps of seconds, per
unit of u. (As near as straight lines between 1,024 knots, with a quarter of the table.)

Each also gives the spread `sqrt(sum_f u_f^2 r_f^2)`: entry-wise dropout of r at rate p adds noise
of sqrt(p / (1 - p)) times this standard deviation to a score. Everywhere `u_i = query_i @ weight`.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

KNOTS = 256
"""One before gap 0, where equal times lie, and one past the last: parabolas want neighbours."""
LONGEST_GAP_SECONDS = 2.0**32
"""136 years, the range of 32-bit Unix times; longer gaps count as this one."""
_LEAST_VARIANCE = 1e-12  # the square root has no slope at 0


@dataclass(frozen=True, slots=True, eq=False)
class SinRelation:
    """`r_ij = [sin(w (t_i - t_j)), cos(w (t_i - t_j))]`.

    Attributes:
        same: `[sin w t_i, sin w t_i]`, what turns each half of u into its own half.
        other: `[cos w t_i, -cos w t_i]`, what turns each half of u into the other one.
        swing: `[cos 2 w t_i, -sin 2 w t_i] / 2`.
        keys: `[cos w t_j, sin w t_j]`.
        double_keys: `[cos 2 w t_j, sin 2 w t_j]`.
    """

    same: Float[Tensor, "batch queries hidden"]
    other: Float[Tensor, "batch queries hidden"]
    swing: Float[Tensor, "batch queries hidden"]
    keys: Float[Tensor, "batch keys hidden"]
    double_keys: Float[Tensor, "batch keys hidden"]

    @classmethod
    def of(
        cls,
        moments: Float64[Tensor, "batch time"],
        frequencies: Float64[Tensor, "half"],
        *,
        dtype: torch.dtype,
    ) -> "SinRelation":
        """Compute phases in float64, within a turn: over months float32 would make them noise."""
        turns = moments[:, :, None] * (frequencies / (2 * math.pi))
        angles = turns.sub_(turns.round()).mul_(2 * math.pi).to(dtype)
        sin, cos = angles.sin(), angles.cos()
        double_sin, double_cos = 2 * sin * cos, (cos - sin) * (cos + sin)
        return cls(
            same=torch.cat([sin, sin], -1),
            other=torch.cat([cos, -cos], -1),
            swing=torch.cat([double_cos, -double_sin], -1) / 2,
            keys=torch.cat([cos, sin], -1),
            double_keys=torch.cat([double_cos, double_sin], -1),
        )

    def rows(self, places: Int64[Tensor, "batch chosen"]) -> "SinRelation":
        """Return the relation of the queries at these places to all keys."""
        return replace(
            self,
            same=rows(self.same, places),
            other=rows(self.other, places),
            swing=rows(self.swing, places),
        )

    def scores(
        self, query: Float[Tensor, "batch queries width"], weight: Float[Tensor, "width hidden"]
    ) -> Float[Tensor, "batch queries keys"]:
        """Return `u_i . r_ij`."""
        u = query @ weight
        turned = torch.addcmul(u * self.same, _halves_swapped(u), self.other)
        return turned @ self.keys.mT

    def spread(
        self, query: Float[Tensor, "batch queries width"], weight: Float[Tensor, "width hidden"]
    ) -> Float[Tensor, "batch queries keys"]:
        """Return `sqrt(sum u_sin^2 sin^2 + u_cos^2 cos^2)`: a mean over phase, a swing at 2 w."""
        squares = (query @ weight).square()
        mean = squares.sum(dim=-1, keepdim=True) / 2
        turned = (_halves_swapped(squares) - squares) * self.swing
        variance = torch.baddbmm(mean, turned, self.double_keys.mT)
        return cast("Tensor", _Root.apply(variance))  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Where the gap of every pair lies among the knots.

    Attributes:
        first: the knot before the nearest one.
        before, nearest, after: weights of the three knots from `first` on.
    """

    first: Int64[Tensor, "batch queries keys"]
    before: Float[Tensor, "batch queries keys"]
    nearest: Float[Tensor, "batch queries keys"]
    after: Float[Tensor, "batch queries keys"]

    @classmethod
    def of(
        cls, moments: Float64[Tensor, "batch time"], tau: float, *, dtype: torch.dtype
    ) -> "Gaps":
        """Locate the gaps of all pairs; `moments` are in units of `tau` seconds."""
        gaps = (moments[:, :, None] - moments[:, None, :]).abs_().to(dtype)
        place = gaps.log1p_().div_(knot_distance(tau)).clamp_(max=KNOTS - 3)
        first = place.round()  # of the knots from 0 on; there is one before
        t = place.sub_(first)  # in [-1/2, 1/2]
        before = (t * t).sub_(t).div_(2)
        return cls(first.long(), before, nearest=1 - t * t, after=before + t)

    def rows(self, places: Int64[Tensor, "batch chosen"]) -> "Gaps":
        """Return the gaps between the positions at these places and all others."""
        found = (rows(x, places) for x in (self.first, self.before, self.nearest, self.after))
        return Gaps(*found)

    def interpolate(
        self, table: Float[Tensor, "batch queries knots"]
    ) -> Float[Tensor, "batch queries keys"]:
        """Read each query's row of the table at its gap to each key."""
        read = _Parabola.apply(  # type: ignore[no-untyped-call]
            table, self.first, self.before, self.nearest, self.after
        )
        return cast("Tensor", read)


@dataclass(frozen=True, slots=True, eq=False)
class GapRelation:
    """`r_ij = r(gap_ij)`, for Exp or Log, from `features`: r at every knot."""

    features: Float[Tensor, "hidden knots"]
    gaps: Gaps

    def rows(self, places: Int64[Tensor, "batch chosen"]) -> "GapRelation":
        """Return the relation of the queries at these places to all keys."""
        return replace(self, gaps=self.gaps.rows(places))

    def scores(
        self, query: Float[Tensor, "batch queries width"], weight: Float[Tensor, "width hidden"]
    ) -> Float[Tensor, "batch queries keys"]:
        """Return `u_i . r_ij`; the features are projected, which is less work than projecting u."""
        return self.gaps.interpolate(query @ (weight @ self.features))

    def spread(
        self, query: Float[Tensor, "batch queries width"], weight: Float[Tensor, "width hidden"]
    ) -> Float[Tensor, "batch queries keys"]:
        """Return `sqrt(sum_f u_if^2 r_ijf^2)` at the nearest knot: good to 5%, exact at 0."""
        variance = (query @ weight).square() @ self.features[:, 1:-1].square()
        table = cast("Tensor", _Root.apply(variance))  # type: ignore[no-untyped-call]
        return table.gather(-1, self.gaps.first)


Relation = SinRelation | GapRelation
"""A relative embedding between the positions of a batch."""


class _Root(Function):
    """The square root, in place, of a variance that rounding may have taken below 0."""

    @staticmethod
    def forward(ctx: Any, variance: Tensor) -> Tensor:  # noqa: ANN401  torch does not type it
        root = variance.clamp_(_LEAST_VARIANCE).sqrt_()
        ctx.mark_dirty(root)
        ctx.save_for_backward(root)
        return root

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401
        (root,) = ctx.saved_tensors
        return torch.div(gradient, root).div_(2)


class _Parabola(Function):
    """The weighted sum of three neighbours in a table; backward adds up at the three."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, first: Tensor, *weights: Tensor) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(first, *weights)
        ctx.shape = table.shape
        read = table.gather(-1, first)
        beside = torch.empty_like(read)
        total = read.mul_(weights[0])
        for step in (1, 2):
            torch.gather(table[..., step:], -1, first, out=beside)
            total.addcmul_(beside, weights[step])
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        first, *weights = ctx.saved_tensors
        table = gradient.new_zeros(ctx.shape)
        weighted = torch.empty_like(gradient)
        for step in (0, 1, 2):
            torch.mul(gradient, weights[step], out=weighted)
            table[..., step:].scatter_add_(-1, first, weighted)
        return table, None, None, None, None


def sin_frequencies(hidden: int, base: float) -> Float64[Tensor, "half"]:
    """Return `w_k = f^(-2k/h)`, k = 0 .. h/2 - 1."""
    return base ** (-2 * torch.arange(hidden // 2, dtype=torch.float64) / hidden)


def knot_distance(tau: float) -> float:
    """Return the step between knots on the scale of `log(1 + gap / tau)`."""
    return math.log1p(LONGEST_GAP_SECONDS / tau) / (KNOTS - 3)


def knot_features(
    kind: Literal["exp", "log"], hidden: int, *, base: float, tau: float
) -> Float64[Tensor, "hidden knots"]:
    """Return `exp(-x w_k)` or `log(1 + x w_k)`, `w_k = f^(-k/h)`, at the x of every knot."""
    x = torch.expm1((torch.arange(KNOTS, dtype=torch.float64) - 1) * knot_distance(tau))
    w = base ** (-torch.arange(hidden, dtype=torch.float64) / hidden)
    products = w[:, None] * x
    return torch.exp(-products) if kind == "exp" else torch.log1p(products)


def rows(x: Tensor, places: Int64[Tensor, "batch chosen"]) -> Tensor:
    """Return the rows of `x`, (batch, time, features), at these places of batch x time."""
    flat = x.flatten(0, 1)
    if x.requires_grad:  # the gradient of `index_select` is slow
        across = places.flatten()[:, None].expand(-1, x.shape[-1])
        return flat.gather(0, across).view(*places.shape, -1)
    return flat.index_select(0, places.flatten()).view(*places.shape, -1)


def _halves_swapped(x: Float[Tensor, "*rows hidden"]) -> Float[Tensor, "*rows hidden"]:
    return x.roll(x.shape[-1] // 2, dims=-1)
