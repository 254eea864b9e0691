"""Where a point's name stands: on the side where it covers the fewest points and other names."""

from collections.abc import Sequence
from typing import NamedTuple

CHARACTER = 6.2
"""Pixels, on average, in text of 11."""

_LINE = 12
_REACH = 6
"""Pixels from the middle of a point of `MARKER` to its name, as Plotly sets it."""

MARKER = {"size": 8, "opacity": 0}
"""Of the trace that writes the names: unseen, it holds them off their points."""

_SIDES = {
    "middle right": (0, 0.5),
    "middle left": (-1, 0.5),
    "top right": (0, 1),
    "bottom right": (0, 0),
    "top left": (-1, 1),
    "bottom left": (-1, 0),
    "top center": (-0.5, 1),
    "bottom center": (-0.5, 0),
}
"""Plotly's text position -> where the name's left end and upper edge lie, in its widths and lines
from the point; upwards."""


class _Box(NamedTuple):
    left: float
    right: float
    low: float
    high: float

    def meets(self, other: "_Box") -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.low < other.high and other.low < self.high


def sides(
    x: Sequence[float],
    y: Sequence[float],
    names: dict[int, str],
    *,
    width: float,
    height: float,
) -> list[str]:
    """Return Plotly's text position for each named point, in the order of `names`.

    Args:
        x: of all points, named or not.
        y: likewise.
        names: place of a point -> its name.
        width: pixels that the points span; of the narrowest page, since names keep their size.
        height: pixels that the points span.
    """
    across, up = _pixels(x, width), _pixels(y, height)
    points = [
        _Box(right - _REACH, right + _REACH, high - _REACH, high + _REACH)
        for right, high in zip(across, up, strict=True)
    ]
    placed: list[_Box] = []
    found = []
    for place, name in names.items():
        best = min(
            _SIDES,
            key=lambda side: _cost(
                _box(across[place], up[place], name, side),
                [point for other, point in enumerate(points) if other != place],
                placed,
                width=width,
            ),
        )
        found.append(best)
        placed.append(_box(across[place], up[place], name, best))
    return found


def _pixels(values: Sequence[float], span: float) -> list[float]:
    low, high = min(values), max(values)
    return [span * (value - low) / ((high - low) or 1) for value in values]


def _box(across: float, up: float, name: str, side: str) -> _Box:
    ends, lines = _SIDES[side]
    wide = CHARACTER * len(name)
    left = across + ends * wide + (_REACH if ends == 0 else -_REACH if ends == -1 else 0)
    high = up + lines * _LINE + (_REACH if lines == 1 else -_REACH if lines == 0 else 0)
    return _Box(left, left + wide, high - _LINE, high)


def _cost(box: _Box, points: Sequence[_Box], placed: Sequence[_Box], *, width: float) -> float:
    outside = max(0.0, -box.left, box.right - width) > 2 * _REACH
    covered = sum(box.meets(point) for point in points)
    return 100 * outside + 3 * sum(box.meets(other) for other in placed) + covered
