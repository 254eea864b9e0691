"""One look for every figure: light paper, colours that survive colour blindness and grey print.

Nothing is registered globally: a figure asks for `TEMPLATE` by value, so that drawing one figure
never changes another.
"""

from typing import NamedTuple

import plotly.graph_objects as go

INK = "#1b1f24"
MUTED = "#59636e"
RULE = "#d5dae0"
PAPER = "#ffffff"
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"

SEQUENTIAL: tuple[str, ...] = (
    "#f1f8c4",
    "#d3eeb3",
    "#97d6b9",
    "#5abfc0",
    "#32a5c2",
    "#217fb7",
    "#2255a4",
    "#253185",
    "#081d58",
)
"""Low to high, darkening at every step: Brewer's YlGnBu, its first step told from paper."""

DIVERGING: tuple[str, ...] = (
    "#7f3b08",
    "#b8641b",
    "#e3a65f",
    "#f8dcb8",
    "#ffffff",
    "#d6dbec",
    "#a09bc9",
    "#6a5aa0",
    "#2d0f4c",
)
"""Below and above zero, darkening both ways: Brewer's PuOr with a white middle."""

SERIES: tuple[tuple[str, str, str], ...] = (
    ("#1f4e9c", "solid", "circle"),
    ("#d9730d", "dash", "square"),
    ("#3a8f6b", "dot", "diamond"),
    ("#8e3b8a", "dashdot", "triangle-up"),
    ("#7a6a1c", "longdash", "x"),
    ("#5c6670", "longdashdot", "cross"),
)
"""Colour, dash and marker of each series: told apart without colour, too."""

TIME_MARK = "†"
"""Follows the name of an embedding that sees the target's time."""


class Hatch(NamedTuple):
    """How a cell without a value looks: told apart by pattern first, by grey second."""

    shape: str
    pixels: int
    colour: str
    background: str
    label: str


HATCHES: dict[str, Hatch] = {
    "failed": Hatch("x", 7, "#8c2d04", "#fdf3ec", "failed"),
    "running": Hatch(".", 7, "#45505c", "#f6f7f8", "running"),
    "pending": Hatch(".", 9, "#9aa4ae", "#fafbfb", "pending"),
    "censored": Hatch("-", 7, "#6e7781", "#f6f7f8", "censored"),
    "infeasible": Hatch("/", 7, "#8a939d", "#f3f4f6", "infeasible"),
    "unmeasured": Hatch("+", 7, "#6e7781", "#f6f7f8", "metric not stored"),
    "undeclared": Hatch("\\", 14, "#d9dde2", "#fcfcfd", "not declared"),
}
"""By state, the most pressing first: a cell missing for several reasons shows this one."""

_AXIS = {
    "zeroline": False,
    "showgrid": False,
    "linecolor": "#9aa4ae",
    "tickcolor": "#9aa4ae",
    "gridcolor": "#e9ecef",
    "fixedrange": True,
    "title": {"font": {"size": 12}, "standoff": 6},
}

TEMPLATE = go.layout.Template(
    layout={
        "font": {"family": FONT, "size": 12, "color": INK},
        "paper_bgcolor": PAPER,
        "plot_bgcolor": PAPER,
        "colorway": [colour for colour, _, _ in SERIES],
        "autotypenumbers": "strict",
        "hoverlabel": {
            "bgcolor": PAPER,
            "bordercolor": RULE,
            "align": "left",
            "font": {"family": FONT, "size": 12, "color": INK},
        },
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "legend": {"font": {"size": 12}},
    }
)
