"""The distribution of a mean whose error has two parts, each estimated from its own replicates.

The error of a mean over crossed seeds and users is `sqrt(a) T_f + sqrt(b) T_g`: a part `a` known
from a few seeds (f = seeds - 1 degrees of freedom) and a part `b` known from many users (g = users
- 1), with independent Student variables. This is the Behrens-Fisher distribution (R. A. Fisher,
The fiducial argument in statistical inference, Annals of Eugenics 6, 1935). Its intervals are
conservative (G. K. Robinson, Biometrika 63, 1976) where Satterthwaite's single t, which trusts a
seed variance that came out small by chance, is not. With one part zero it is Student's t.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import elementwise

Real = float | NDArray[np.float64]

Nodes = tuple[NDArray[np.float64], NDArray[np.float64]]


def _nodes(end: float, step: float, *, heavy: bool) -> Nodes:
    """Return places and widths of a trapezoidal rule, for heavy tails in t = sinh v."""
    v = np.arange(-end, end + step / 2, step)
    return (np.sinh(v), np.cosh(v) * step) if heavy else (v, np.full(v.shape, step))


_LIGHT_NODES = _nodes(12.0, 0.2, heavy=False)
_HEAVY_NODES = _nodes(30.0, 0.04, heavy=True)
_MANY = 50
"""Degrees of freedom from which a part's tails are light."""

_CHUNK = 2048


class TwoPartError(NamedTuple):
    """The squared standard error of a mean, in parts; floats, or arrays that broadcast.

    Attributes:
        seed_part: variance of the mean that comes from having few seeds.
        seed_df: degrees of freedom that it was estimated with.
        user_part: variance of the mean that comes from having these users.
        user_df: degrees of freedom of that.
    """

    seed_part: Real
    seed_df: Real
    user_part: Real
    user_df: Real

    @property
    def variance(self) -> Real:
        """The squared standard error."""
        return self.seed_part + self.user_part

    @property
    def satterthwaite_df(self) -> Real:
        """Degrees of freedom of the one t that has the same first two moments of the variance."""
        spread = np.asarray(self.seed_part**2 / self.seed_df + self.user_part**2 / self.user_df)
        known = spread > 0
        df = np.where(known, self.variance**2 / np.where(known, spread, 1.0), self.user_df)
        return df if df.ndim else float(df)


def two_sided(distance: Real, error: TwoPartError) -> NDArray[np.float64]:
    """Return the probability that an error of a mean is larger than `distance` in size.

    A relative accuracy of 1 in 1,000 is tested down to probabilities of 1e-6. No error at all
    (both parts zero) gives 0, and 1 at distance 0.

    >>> float(two_sided(12.706, TwoPartError(1.0, 1, 0.0, 99)).round(4))
    0.05
    """
    arrays = np.broadcast_arrays(np.abs(distance), *error)
    shape = arrays[0].shape
    flat = [np.asarray(array, dtype=np.float64).ravel() for array in arrays]
    pieces = [
        _two_sided(*(array[start : start + _CHUNK] for array in flat))
        for start in range(0, flat[0].size, _CHUNK)
    ]
    return np.concatenate([np.zeros(0), *pieces]).reshape(shape)


def distance_at(probability: float, error: TwoPartError) -> NDArray[np.float64]:
    """Return the distance that errors exceed in size with this probability, 0 < p < 1.

    >>> float(distance_at(0.05, TwoPartError(1.0, 1, 0.0, 99)).round(3))
    12.706
    """
    parts = np.broadcast_arrays(*error)
    seed_part, seed_df, user_part, user_df = parts
    # P(|A + B| > x) <= P(|A| > x / 2) + P(|B| > x / 2): twice the larger quantile is beyond it,
    # and half the quantile of the wider part alone is not.
    quantiles = [
        np.sqrt(part) * -special.stdtrit(df, probability / 4)
        for part, df in ((seed_part, seed_df), (user_part, user_df))
    ]
    farthest = 2 * np.maximum(*quantiles)
    scale = np.where(farthest > 0, farthest, 1.0)

    def excess(share: NDArray[np.float64], *parts: NDArray[np.float64]) -> NDArray[np.float64]:
        far, a, f, b, g = parts
        found = two_sided(share * far, TwoPartError(a, f, b, g))
        logarithm: NDArray[np.float64] = np.log(np.maximum(found, 1e-300))
        return logarithm - float(np.log(probability))

    solution = elementwise.find_root(
        excess,
        (np.full(scale.shape, 1e-9), np.ones(scale.shape)),
        args=(scale, *parts),
        tolerances={"xrtol": 1e-7, "xatol": 0.0, "fatol": 1e-9, "frtol": 0.0},
    )
    distance: NDArray[np.float64] = np.where(farthest > 0, solution.x * scale, 0.0)
    return distance


def _two_sided(
    x: NDArray[np.float64],
    a: NDArray[np.float64],
    f: NDArray[np.float64],
    b: NDArray[np.float64],
    g: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Integrate over the narrower part; the wider one's tail is smooth on its scale."""
    swap = a < b
    narrow, narrow_df = np.sqrt(np.where(swap, a, b)), np.where(swap, f, g)
    wide, wide_df = np.sqrt(np.where(swap, b, a)), np.where(swap, g, f)
    result = np.where(x > 0, 0.0, 1.0)
    one = (wide > 0) & (narrow == 0)
    result[one] = 2 * _lower_tail(-x[one] / wide[one], wide_df[one])
    light = narrow_df >= _MANY
    for rows, nodes in (
        ((narrow > 0) & light, _LIGHT_NODES),
        ((narrow > 0) & ~light, _HEAVY_NODES),
    ):
        if rows.any():
            node, width = nodes
            df = narrow_df[rows, None]
            constant = special.gammaln((df + 1) / 2) - special.gammaln(df / 2)
            log_density = constant - np.log(df * np.pi) / 2 - (df + 1) / 2 * np.log1p(node**2 / df)
            lower = (narrow[rows, None] * node - x[rows, None]) / wide[rows, None]
            tail = _lower_tail(lower, np.broadcast_to(wide_df[rows, None], lower.shape))
            result[rows] = 2 * (np.exp(log_density) * width * tail).sum(axis=1)
    return np.clip(result, 0.0, 1.0)


def _lower_tail(t: NDArray[np.float64], df: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(T <= t); with many degrees of freedom through Wallace's normal deviate.

    The approximation (D. L. Wallace, Annals of Mathematical Statistics 30, 1959) is closer than
    the integration here, and many times as fast as the incomplete beta function.
    """
    if (df < _MANY).any():
        return np.asarray(special.stdtr(df, t), dtype=np.float64)
    deviate = (8 * df + 1) / (8 * df + 3) * np.sqrt(df * np.log1p(t * t / df))
    return np.asarray(special.ndtr(np.copysign(deviate, t)), dtype=np.float64)
