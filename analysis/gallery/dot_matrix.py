"""Subsets as columns of dots: six rows of embeddings, a dot where the subset holds it.

Sixty-four labels side by side are unreadable; sixty-four columns of dots are not, and they show at
a glance which embeddings gather at the good end.
"""

from collections.abc import Sequence

import plotly.graph_objects as go

from analysis.gallery.means import marked, members
from analysis.style import INK
from model.config import EMBEDDINGS

ROW_PIXELS = 17
HEIGHT = ROW_PIXELS * len(EMBEDDINGS)
"""Pixels of the matrix."""


def add(
    figure: go.Figure, subsets: Sequence[str], *, suffix: str, domain: tuple[float, float]
) -> None:
    """Draw the matrix on a pair of axes of its own; column i stands at x = i.

    Args:
        figure: what to draw on.
        subsets: labels, from left to right.
        suffix: of the axes, such as `2`.
        domain: of the y axis, from 0 to 1.
    """
    held = [
        (column, row)
        for column, subset in enumerate(subsets)
        for row, name in enumerate(EMBEDDINGS)
        if name in members(subset)
    ]
    size = 9 if len(subsets) <= 24 else 5
    for row in range(0, len(EMBEDDINGS), 2):
        figure.add_shape(
            type="rect", xref=f"x{suffix} domain", x0=0, x1=1, yref=f"y{suffix}",
            y0=row - 0.5, y1=row + 0.5, fillcolor="#f3f5f7", line_width=0, layer="below",
        )  # fmt: skip
    # A line from the first to the last member makes a column one thing.
    line_x: list[float | None] = []
    line_y: list[float | None] = []
    for column, subset in enumerate(subsets):
        rows = [row for row, name in enumerate(EMBEDDINGS) if name in members(subset)]
        if len(rows) > 1:
            line_x += [column, column, None]
            line_y += [rows[0], rows[-1], None]
    axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
    figure.add_scatter(
        x=line_x, y=line_y, mode="lines", line={"color": "#8a939d", "width": 1},
        hoverinfo="skip", showlegend=False, **axes,
    )  # fmt: skip
    figure.add_scatter(
        x=[column for column, _ in held],
        y=[row for _, row in held],
        text=[subsets[column] for column, _ in held],
        mode="markers",
        marker={"size": size, "color": INK},
        hovertemplate="%{text}<extra></extra>",
        showlegend=False,
        **axes,
    )
    figure.update_layout(
        {
            f"xaxis{suffix}": {
                "range": [-0.7, len(subsets) - 0.3],
                "anchor": f"y{suffix}",
                "showticklabels": False,
                "showline": False,
                "ticks": "",
            },
            f"yaxis{suffix}": {
                "range": [len(EMBEDDINGS) - 0.5, -0.5],
                "tickvals": list(range(len(EMBEDDINGS))),
                "ticktext": [marked(name) for name in EMBEDDINGS],
                "domain": list(domain),
                "anchor": f"x{suffix}",
                "showline": False,
            },
        }
    )
