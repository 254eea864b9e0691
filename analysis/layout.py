"""How a drawing stands on a page, in a column of a paper, or in a file of its own.

A drawing brings its traces and axes and says how many pixels its plot and the labels around it
need. Here it becomes three figures: bare and as wide as its page, bare in a paper's column, and
whole, with title and caption inside. Margins are fixed: what Plotly makes room for by itself
moves from figure to figure.
"""

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd
import plotly.graph_objects as go

from analysis.formats import FigureSize
from analysis.style import INK, MUTED, TEMPLATE

WHOLE_WIDTH = 800
"""Pixels of a figure that carries its title and caption."""

_SIDE = 16
_CAPTION_LINE = 15.6
_CHARACTERS = 128
"""In a line of the caption of a figure of `WHOLE_WIDTH`."""


COLUMN_WIDTHS: dict[FigureSize, int] = {FigureSize.one: 336, FigureSize.two: 672}
"""Pixels at 96 an inch: 3.5 and 7 inches."""

NARROWEST = 420
"""Pixels below which a drawing is no longer squeezed but made smaller as a whole, texts included:
64 columns and eight labels side by side still stand apart, and 11 pixels print as 6.6 points."""


class Area(NamedTuple):
    """Pixels of the plot's height, and of what stands around it: labels, legend, colour bar.

    `spare` of `below` is room for a legend that wraps on a narrow page.
    """

    height: int
    left: int = 60
    right: int = 16
    above: int = 24
    below: int = 52
    spare: int = 0


@dataclass(frozen=True, slots=True)
class NamedFigure:
    """A figure ready for a page and for files.

    Attributes:
        kind: what `--only` calls it: `subsets`, `ranking`, ..
        name: file name without ending, unique in its study.
        title: what it shows, in a line.
        caption: sentences: coverage first, then protocol, means, what varies.
        page: the figure without title and caption, which the page carries; as wide as that.
        area: the pixels that `page` needs.
        rows: the rows of the store that it was computed from.
        query: SQL that selects them.
    """

    kind: str
    name: str
    title: str
    caption: tuple[str, ...]
    page: go.Figure
    area: Area
    rows: pd.DataFrame
    query: str

    def sized(self, size: FigureSize) -> go.Figure:
        """Return the figure for a static file, to be shown `shrinking` its pixels."""
        if size is FigureSize.whole:
            return _whole(self)
        figure = go.Figure(self.page)
        figure.update_layout(width=max(COLUMN_WIDTHS[size], NARROWEST))
        if size is FigureSize.two:  # only a narrow page makes a legend wrap
            figure.update_layout(
                height=figure.layout.height - self.area.spare,
                margin={"b": self.area.below - self.area.spare},
            )
        return figure


def shrinking(size: FigureSize) -> float:
    """Return how large a sized figure's pixel is shown: below 1 where a column is too narrow.

    >>> shrinking(FigureSize.one)
    0.8
    """
    return COLUMN_WIDTHS[size] / max(COLUMN_WIDTHS[size], NARROWEST) if size in COLUMN_WIDTHS else 1


def file_name(*parts: str) -> str:
    """Join what a figure shows to a file name without ending.

    >>> file_name("subsets", "ml-1m", "test_ndcg@10")
    'subsets_ml-1m_test_ndcg-at-10'
    """
    return "_".join(parts).replace("@", "-at-").replace("/", "-").replace(" ", "-")


def new_drawing() -> go.Figure:
    """Return an empty figure in the house style."""
    return go.Figure(layout={"template": TEMPLATE})


def bare(figure: go.Figure, area: Area) -> go.Figure:
    """Give a drawing its height and margins, and let its page decide the width."""
    figure.update_layout(
        height=area.height + area.above + area.below,
        margin={
            "l": area.left,
            "r": area.right,
            "t": area.above,
            "b": area.below,
            "autoexpand": False,
        },
    )
    return figure


def legend_below(figure: go.Figure, area: Area, *, down: int) -> None:
    """Put the legend so many pixels under the plot."""
    figure.update_layout(
        legend={
            "orientation": "h",
            "x": 0.5,
            "xanchor": "center",
            "y": -down / area.height,
            "yanchor": "top",
        }
    )


def write(
    figure: go.Figure,
    text: str,
    *,
    x: float,
    y: float,
    right: float = 0,
    down: float = 0,
    size: int = 12,
    color: str = MUTED,
    **anchors: object,
) -> None:
    """Write text so many pixels right of and below a point of the plot area (0 to 1, upwards)."""
    figure.add_annotation(
        **{"xanchor": "left", "yanchor": "middle", "xref": "paper", "yref": "paper", **anchors},
        text=text,
        x=x,
        y=y,
        xshift=right,
        yshift=-down,
        showarrow=False,
        font={"size": size, "color": color},
    )


def escaped(text: str) -> str:
    """Return text that Plotly shows as it is: no markup."""
    return html.escape(text, quote=False)


def _whole(drawn: NamedFigure) -> go.Figure:
    """Put title and caption into the figure itself."""
    figure, area = go.Figure(drawn.page), drawn.area
    titles = _wrapped([drawn.title], 74)
    caption = _wrapped(drawn.caption, _CHARACTERS)
    above = 20 + 25 * len(titles)
    under = 14 + _CAPTION_LINE * len(caption) - area.spare
    figure.update_layout(
        width=WHOLE_WIDTH,
        height=round(area.height + area.above + area.below + above + under),
        margin={
            "l": area.left,
            "r": area.right,
            "t": area.above + above,
            "b": round(area.below + under),
            "autoexpand": False,
        },
    )
    shift = _SIDE - area.left
    text = "<br>".join(titles)
    write(
        figure, f"<b>{text}</b>", x=0, y=1, right=shift, down=-area.above - above + 14,
        size=19, color=INK, yanchor="top", align="left",
    )  # fmt: skip
    write(
        figure, "<br>".join(caption), x=0, y=0, right=shift, down=area.below - area.spare + 6,
        yanchor="top", align="left",
    )  # fmt: skip
    return figure


def _wrapped(sentences: Sequence[str], characters: int) -> list[str]:
    return [escaped(line) for sentence in sentences for line in textwrap.wrap(sentence, characters)]
