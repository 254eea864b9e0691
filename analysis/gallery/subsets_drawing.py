"""The subset heatmap as a Plotly figure: values over colour, hatches where there is no value."""

import math
import textwrap
from collections.abc import Sequence

import plotly.graph_objects as go

from analysis.colour import Limits, limits
from analysis.gallery.means import marked
from analysis.gallery.subsets import (
    COLUMNS,
    METRICS,
    NEVER_AVERAGED,
    ROWS,
    HeatmapCell,
    HeatmapData,
    panels_of,
)
from analysis.hatching import hatch
from analysis.layout import Area, NamedFigure, bare, escaped, legend_below, new_drawing, write
from analysis.material import Material
from analysis.style import HATCHES, INK, PAPER
from analysis.tables import Measure, score
from model.config import EMBEDDINGS

KIND = "subsets"
_AREA = Area(height=424, left=108, right=16, above=64, below=150, spare=36)


def area_of(states: Sequence[Sequence[str]]) -> Area:
    """Return the pixels of an 8 x 8 heatmap; room for a legend only where cells are hatched."""
    hatched = any(state in HATCHES for row in states for state in row)
    return _AREA if hatched else _AREA._replace(below=96, spare=0)


def figures(material: Material) -> list[NamedFigure]:
    """Draw every panel of a study.

    Metrics that no complete trial of the study has are left out, unless that leaves none.
    """
    results = material.results
    stored = [name for name in METRICS if name in results and results[name].notna().any()]
    drawn = []
    for group in material.groups(NEVER_AVERAGED):
        for data in panels_of(group, stored or METRICS[:1], material.factors):
            rows, query = material.rows(group, data.measure.column)
            drawn.append(
                NamedFigure(
                    kind=KIND,
                    name=data.name,
                    title=data.title,
                    caption=(f"{data.coverage}.", *data.notes, *outliers(data)),
                    page=draw(data),
                    area=area_of([[cell.state for cell in row] for row in data.cells]),
                    rows=rows,
                    query=query,
                )
            )
    return drawn


def colours(data: HeatmapData) -> Limits:
    """Return what the colours span: a subset far from all the others does not stretch it."""
    return limits([cell.value for row in data.cells for cell in row])


def outliers(data: HeatmapData) -> tuple[str, ...]:
    """Return the sentence about values beyond the colours, where there are any."""
    span = colours(data)
    marks = [cell for row in data.cells for cell in row if span.mark(cell.value)]
    if not marks:
        return ()
    return (
        f"▲▼ lie beyond the colours, which span {score(span.low)} to {score(span.high)}: further "
        "than 1.5 interquartile ranges from the quartiles.",
    )


def draw(data: HeatmapData) -> go.Figure:
    """Draw a panel."""
    figure, span = new_drawing(), colours(data)
    _colour(figure, data, span)
    hatch(figure, [[cell.state for cell in row] for row in data.cells], {}, legend=True)
    _write_values(figure, data, span)
    outline_untimed(figure)
    label_axes(figure)
    area = area_of([[cell.state for cell in row] for row in data.cells])
    legend_below(figure, area, down=88)
    return bare(figure, area)


def _colour(figure: go.Figure, data: HeatmapData, span: Limits) -> None:
    """Add the heatmap: its colours, and what pointing at any cell tells."""
    ticks = [span.low + (span.high - span.low) * step / 4 for step in range(5)]
    figure.add_heatmap(
        z=[[None if math.isnan(cell.value) else cell.value for cell in row] for row in data.cells],
        hovertext=[[_hover(cell, data.measure) for cell in row] for row in data.cells],
        hovertemplate="%{hovertext}<extra></extra>",
        colorscale=span.plotly,
        zmin=span.low,
        zmax=span.high,
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
            "title": {
                "text": f"{data.measure.split} {data.measure.title}, {data.protocol}",
                "side": "top",
                "font": {"size": 12},
            },
        },
    )


def _write_values(figure: go.Figure, data: HeatmapData, span: Limits) -> None:
    """Write each value in ink or white, whichever reads better (Plotly's own choice is weak)."""
    places = [
        (j, i, cell)
        for i, row in enumerate(data.cells)
        for j, cell in enumerate(row)
        if not math.isnan(cell.value)
    ]
    figure.add_scatter(
        x=[j for j, _, _ in places],
        y=[i for _, i, _ in places],
        mode="text",
        text=[span.mark(cell.value) + cell.text for _, _, cell in places],
        textfont={"size": 11, "color": span.inks([cell.value for _, _, cell in places])},
        showlegend=False,
        hoverinfo="skip",
    )


def outline_untimed(figure: go.Figure) -> None:
    """Outline what is blind to the target's time: no Day (half of ROWS), no relative embedding."""
    figure.add_shape(
        type="rect", x0=-0.48, x1=0.48, y0=-0.48, y1=3.48, line={"color": INK, "width": 2.5}
    )


def label_axes(figure: go.Figure) -> None:
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
    write(figure, "relative embeddings", x=0.5, y=0, down=78, xanchor="center")
    write(figure, "absolute embeddings", x=0, y=0.5, right=-98, xanchor="center", textangle=-90)


def _marked(subset: tuple[str, ...]) -> list[str]:
    """Return the embeddings' names, in canonical order, with the mark of the target's time."""
    return [marked(name) for name in EMBEDDINGS if name in subset] or ["none"]


def _hover(cell: HeatmapCell, column: Measure) -> str:
    """Return what pointing at a cell tells, as the subset of HTML that Plotly knows."""
    lines = [f"<b>{cell.subset}</b>"]
    if cell.counted:
        lines.append(
            f"{column.split} {column.title} {cell.value:.4f}, "
            f"{cell.counted} of {cell.declared} cells"
        )
    for reason in cell.reasons:
        lines += [escaped(line) for line in textwrap.wrap(reason, 60)]
    lines.append("sees the target's time" if cell.timed else "does not see the target's time")
    return "<br>".join(lines)
