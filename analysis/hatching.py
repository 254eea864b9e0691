"""Hatches for cells without a value: told apart by pattern first, by grey second."""

from collections.abc import Sequence

import plotly.graph_objects as go

from analysis.style import HATCHES


def hatch(
    figure: go.Figure,
    states: Sequence[Sequence[str]],
    axes: dict[str, str],
    *,
    legend: bool = False,
) -> None:
    """Fill the cells without a value, one trace per state; the heatmap below keeps the hover.

    Plotly's heatmap knows no patterns, so each hatched cell is a closed scatter path.
    """
    for state, look in HATCHES.items():
        places = [
            (j, i) for i, row in enumerate(states) for j, own in enumerate(row) if own == state
        ]
        if not places:
            continue
        x: list[float | None] = []
        y: list[float | None] = []
        for j, i in places:
            x += [j - 0.47, j + 0.47, j + 0.47, j - 0.47, j - 0.47, None]
            y += [i - 0.47, i - 0.47, i + 0.47, i + 0.47, i - 0.47, None]
        figure.add_scatter(
            x=x,
            y=y,
            mode="lines",
            line={"width": 0},
            fill="toself",
            fillpattern={
                "shape": look.shape,
                "fgcolor": look.colour,
                "bgcolor": look.background,
                "size": look.pixels,
                "solidity": 2.1 / look.pixels,
            },
            name=f"{look.label} ({len(places)})",
            showlegend=legend,
            hoverinfo="skip",
            **axes,
        )
