"""Colours from numbers: scales, limits that an outlier does not stretch, and ink that reads.

Scales darken (or leave white) at every step, so that they survive colour blindness and grey print.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from plotly.colors import sample_colorscale

from analysis.style import DIVERGING, INK, PAPER, SEQUENTIAL


class Limits(NamedTuple):
    """The values that a colour scale spans; values beyond it take the end's colour and a mark.

    Attributes:
        low: value of the first colour.
        high: value of the last colour; above `low`.
        scale: `SEQUENTIAL`, or `DIVERGING` with its middle at 0.
    """

    low: float
    high: float
    scale: tuple[str, ...]

    def mark(self, value: float) -> str:
        """Return the mark of a value beyond the scale, or nothing.

        >>> Limits(0.1, 0.3, SEQUENTIAL).mark(0.5)
        '▲'
        """
        if value > self.high:
            return OUTLIER_MARKS[1]
        return OUTLIER_MARKS[0] if value < self.low else ""

    def position(self, value: float) -> float:
        """Return where a value lies on the scale, from 0 to 1."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    @property
    def plotly(self) -> list[list[object]]:
        """The scale as Plotly takes it."""
        last = len(self.scale) - 1
        return [[step / last, colour] for step, colour in enumerate(self.scale)]

    def inks(self, values: Sequence[float]) -> list[str]:
        """Return the ink that reads best on each value's colour."""
        positions = [self.position(value) for value in values]
        grounds = sample_colorscale(list(self.scale), positions, colortype="tuple")
        return [readable_on(ground) for ground in grounds]


OUTLIER_MARKS = ("▼", "▲")
"""Below and above what the colours span."""


def limits(values: Sequence[float]) -> Limits:
    """Return limits for quantities without a natural zero: the values within Tukey's fences.

    A value further than 1.5 interquartile ranges from the quartiles would take the colours from
    all the others; with fewer than 8 values every value is inside.

    >>> limits([0.20, 0.21, 0.22, 0.23, 0.24, 0.25, 0.26, 0.9])[:2]
    (0.2, 0.26)
    """
    known = np.asarray([value for value in values if np.isfinite(value)], dtype=np.float64)
    if not len(known):
        return Limits(0.0, 1.0, SEQUENTIAL)
    if len(known) >= 8:
        first, third = np.quantile(known, (0.25, 0.75))
        reach = 1.5 * (third - first)
        inside = known[(known >= first - reach) & (known <= third + reach)]
        known = inside if len(inside) else known
    low, high = float(known.min()), float(known.max())
    if low == high:
        low, high = low - 0.005, high + 0.005
    return Limits(low, high, SEQUENTIAL)


def balanced_limits(values: Sequence[float]) -> Limits:
    """Return limits for differences: as far below 0 as above, so that white means no difference.

    >>> balanced_limits([-0.02, 0.01])[:2]
    (-0.02, 0.02)
    """
    fenced = limits([abs(value) for value in values])
    reach = fenced.high if any(np.isfinite(value) and value for value in values) else 0.005
    return Limits(-reach, reach, DIVERGING)


def luminance(colour: tuple[float, float, float]) -> float:
    """Return the relative luminance of an sRGB colour, channels in [0, 1] (WCAG 2.2)."""
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
        for channel in colour
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def readable_on(ground: tuple[float, float, float]) -> str:
    """Return ink or white, whichever has the higher contrast (WCAG 2.2) on an sRGB colour."""
    light = luminance(ground) + 0.05
    dark = luminance((0x1B / 255, 0x1F / 255, 0x24 / 255)) + 0.05
    return PAPER if 1.05 / light > light / dark else INK
