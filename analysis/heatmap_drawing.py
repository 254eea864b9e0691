"""The subset heatmap as a Plotly figure: values over colour, hatches where there is no value."""

import html
import math
import textwrap

import pandas as pd
import plotly.graph_objects as go
from plotly.colors import sample_colorscale

from analysis.export import NamedFigure
from analysis.heatmap import COLUMNS, ROWS, HeatmapCell, HeatmapData, panels
from analysis.style import HATCHES, INK, MUTED, PAPER, SEQUENTIAL, TEMPLATE, TIME_MARK
from analysis.tables import Measure, score
from model.config import EMBEDDINGS, TIMED_EMBEDDINGS

CAPTION_WIDTH = 128
"""Characters in a line of the caption of an 800 pixel figure."""


def heatmaps(results: pd.DataFrame, cells: pd.DataFrame) -> list[NamedFigure]:
    """Draw every panel of a study, for a page and for a file of its own.

    Args:
        results: one row per trial of the study (the view `results`).
        cells: one row per declared cell.
    """
    return [
        NamedFigure(
            name=data.name,
            title=data.title,
            caption=(f"{data.coverage}.", *data.notes),
            page=draw(data, bare=True),
            whole=draw(data),
        )
        for data in panels(results, cells)
    ]


def draw(data: HeatmapData, *, bare: bool = False) -> go.Figure:
    """Draw a panel.

    Args:
        data: what to show.
        bare: leave title and caption to the page around it, and take its width, down to that of
            a phone; else the figure carries both and is 800 x 880 pixels.
    """
    shown = [cell.value for row in data.cells for cell in row if not math.isnan(cell.value)]
    low, high = (min(shown), max(shown)) if shown else (0.0, 1.0)
    if low == high:
        low, high = low - 0.005, high + 0.005
    figure = go.Figure()
    figure.update_layout(template=TEMPLATE)
    _colour(figure, data, low=low, high=high)
    _hatch(figure, data)
    _write_values(figure, data, low=low, high=high, size=11 if bare else 13)
    # The corner blind to the target's time: no Day (the first half of ROWS), no relative embedding.
    figure.add_shape(
        type="rect", x0=-0.48, x1=0.48, y0=-0.48, y1=3.48, line={"color": INK, "width": 2.5}
    )
    _label_axes(figure)
    legend = {"orientation": "h", "x": 0.5, "xanchor": "center", "yanchor": "top"}
    # Margins are fixed: what Plotly makes room for by itself moves from figure to figure.
    if bare:
        figure.update_layout(
            height=638,
            margin={"l": 108, "r": 16, "t": 64, "b": 150, "autoexpand": False},
            font={"size": 11},
            legend={**legend, "y": -88 / 424},
        )
    else:
        figure.update_layout(
            width=800,
            height=880,
            margin={"l": 134, "r": 24, "t": 132, "b": 228, "autoexpand": False},
            legend={**legend, "y": -98 / 520},
        )
        _frame(figure, data)
    return figure


def _colour(figure: go.Figure, data: HeatmapData, *, low: float, high: float) -> None:
    """Add the heatmap: colours from `low` to `high`, and what pointing at any cell tells."""
    ticks = [low + (high - low) * step / 4 for step in range(5)]
    figure.add_heatmap(
        z=[[None if math.isnan(cell.value) else cell.value for cell in row] for row in data.cells],
        hovertext=[[_hover(cell, data.measure) for cell in row] for row in data.cells],
        hovertemplate="%{hovertext}<extra></extra>",
        colorscale=[[i / (len(SEQUENTIAL) - 1), c] for i, c in enumerate(SEQUENTIAL)],
        zmin=low,
        zmax=high,
        xgap=2,
        ygap=2,
        showscale=data.n_counted > 0,
        colorbar={
            "orientation": "h",
            "y": 1.01,
            "yanchor": "bottom",
            "x": 0.5,
            "len": 1.0,
            "thickness": 10,
            "tickvals": ticks,
            "ticktext": [score(tick) for tick in ticks],
            "outlinewidth": 0,
            "title": {"text": data.measure.title, "side": "top", "font": {"size": 12}},
        },
    )


def _hatch(figure: go.Figure, data: HeatmapData) -> None:
    """Fill the cells without a value, one trace per state; the heatmap below keeps the hover.

    Plotly's heatmap knows no patterns, so each hatched cell is a closed scatter path.
    """
    for state, hatch in HATCHES.items():
        places = [
            (j, i)
            for i, row in enumerate(data.cells)
            for j, cell in enumerate(row)
            if cell.state == state
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
                "shape": hatch.shape,
                "fgcolor": hatch.colour,
                "bgcolor": hatch.background,
                "size": hatch.pixels,
                "solidity": 2.1 / hatch.pixels,
            },
            name=f"{hatch.label} ({len(places)})",
            showlegend=True,
            hoverinfo="skip",
        )


def _write_values(
    figure: go.Figure, data: HeatmapData, *, low: float, high: float, size: int
) -> None:
    """Write each value in ink or white, whichever reads better (Plotly's own choice is weak)."""
    places = [
        (j, i, cell)
        for i, row in enumerate(data.cells)
        for j, cell in enumerate(row)
        if not math.isnan(cell.value)
    ]
    positions = [(cell.value - low) / (high - low) for _, _, cell in places]
    grounds = sample_colorscale(list(SEQUENTIAL), positions, colortype="tuple") if places else []
    figure.add_scatter(
        x=[j for j, _, _ in places],
        y=[i for _, i, _ in places],
        mode="text",
        text=[cell.text for _, _, cell in places],
        textfont={"size": size, "color": [readable_on(ground) for ground in grounds]},
        showlegend=False,
        hoverinfo="skip",
    )


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


def _label_axes(figure: go.Figure) -> None:
    """Name the subsets; columns stack their embeddings so that labels fit a phone."""
    axis = {
        "tickvals": list(range(8)),
        "fixedrange": True,
        "ticks": "outside",
        "ticklen": 5,
        "tickcolor": PAPER,
    }
    figure.update_xaxes(
        **axis,
        range=[-0.5, 7.5],
        ticktext=["<br>".join(_marked(subset)) for subset in COLUMNS],
        tickangle=0,
    )
    figure.update_yaxes(
        **axis,
        range=[7.5, -0.5],
        ticktext=["+".join(_marked(subset)) for subset in ROWS],
    )
    _write(figure, "relative embeddings", x=0.5, y=0, down=78, xanchor="center")
    _write(figure, "absolute embeddings", x=0, y=0.5, right=-98, xanchor="center", textangle=-90)


def _frame(figure: go.Figure, data: HeatmapData) -> None:
    """Put title, coverage and caption into the figure itself."""
    title = f"<b>{html.escape(data.title, quote=False)}</b>"
    _write(figure, title, x=0, y=1, right=-118, down=-104, size=19, color=INK)
    _write(figure, html.escape(data.coverage, quote=False), x=0, y=1, right=-118, down=-80, size=13)
    caption = "<br>".join(
        html.escape(line, quote=False)
        for note in data.notes
        for line in textwrap.wrap(note, CAPTION_WIDTH)
    )
    _write(figure, caption, x=0, y=0, right=-118, down=126, yanchor="top", align="left")


def _write(
    figure: go.Figure,
    text: str,
    *,
    x: float,
    y: float,
    right: int = 0,
    down: int = 0,
    size: int = 12,
    color: str = MUTED,
    **anchors: object,
) -> None:
    """Write text so many pixels right of and below a point of the plot area (0 to 1, upwards)."""
    figure.add_annotation(
        **{"xanchor": "left", "yanchor": "middle", **anchors},
        text=text,
        xref="paper",
        yref="paper",
        x=x,
        y=y,
        xshift=right,
        yshift=-down,
        showarrow=False,
        font={"size": size, "color": color},
    )


def _marked(subset: tuple[str, ...]) -> list[str]:
    """Return the embeddings' names, in canonical order, with the mark of the target's time."""
    return [
        name.capitalize() + (TIME_MARK if name in TIMED_EMBEDDINGS else "")
        for name in EMBEDDINGS
        if name in subset
    ] or ["none"]


def _hover(cell: HeatmapCell, column: Measure) -> str:
    """Return what pointing at a cell tells, as the subset of HTML that Plotly knows."""
    lines = [f"<b>{cell.subset}</b>"]
    if cell.counted:
        lines.append(
            f"{column.split} {column.title} {cell.value:.4f}, "
            f"{cell.counted} of {cell.declared} cells"
        )
    for reason in cell.reasons:
        lines += [html.escape(line, quote=False) for line in textwrap.wrap(reason, 60)]
    lines.append("sees the target's time" if cell.timed else "does not see the target's time")
    return "<br>".join(lines)
