"""How much each factor moves the metric: fANOVA importances with the rows that they rest on."""

import numpy as np
import plotly.graph_objects as go

from analysis.captions import candidates
from analysis.gallery.board import METRIC
from analysis.gallery.means import marked
from analysis.importance import FORESTS, Importance, importance
from analysis.layout import Area, NamedFigure, bare, file_name, new_drawing
from analysis.material import Material, NotDrawn
from analysis.style import INK, SERIES
from analysis.tables import PROBLEM_FACTORS, Group, measure
from model.config import EMBEDDINGS
from model.errors import RequestError

KIND = "importance"
FOREST_SEED = 0
"""Of the forests, so that the same rows give the same figure."""

_ROW = 26


def notes(group: Group, found: Importance) -> tuple[str, ...]:
    """Return the caption: which rows were used and why others were not, and what shares mean."""
    protocol = candidates(found.measure.protocol, group.cells)
    return (
        f"{found.coverage}.",
        f"{found.measure.split.capitalize()} {found.measure.title}, read at the best validation "
        f"epoch; {protocol}. Every trial is a row, whatever its seed and hyperparameters (no mode: "
        "nothing is chosen or averaged first).",
        f"Share of the rows' variance that a random forest explains by each factor by itself "
        f"(fANOVA), mean of {FORESTS} forests; {found.together:.0%} belong to factors together. "
        "Error bars: standard deviation between forests, which says nothing of seeds or users.",
        "Each embedding (dark) is a factor, in or out. A share says how much a factor moves the "
        "metric over the declared levels, in which direction and how far it says not; nothing is "
        "tested.",
    )


def area_of(found: Importance) -> Area:
    """Return the pixels of a row for each factor."""
    return Area(height=_ROW * len(found.factors), left=108, right=24, above=12, below=52)


def draw(found: Importance) -> go.Figure:
    """Draw a bar for each factor, the largest on top; embeddings darker than hyperparameters."""
    figure, area = new_drawing(), area_of(found)
    names = [one.factor for one in found.factors]
    figure.add_bar(
        y=list(range(len(names))),
        x=[one.share for one in found.factors],
        orientation="h",
        width=0.66,
        marker={
            "color": [SERIES[0][0] if name in EMBEDDINGS else "#9fb4d4" for name in names],
        },
        error_x={
            "type": "data",
            "array": [one.spread for one in found.factors],
            "color": INK,
            "thickness": 1.2,
            "width": 4,
        },
        hovertext=[
            f"{name.replace('_', ' ')}: {one.share:.3f} ± {one.spread:.3f}"
            for name, one in zip(names, found.factors, strict=True)
        ],
        hovertemplate="%{hovertext}<extra></extra>",
        showlegend=False,
    )
    figure.update_layout(
        xaxis={
            "title": {"text": "share of explained variance"},
            "tickformat": ".0%",
            "rangemode": "tozero",
            "showgrid": True,
        },
        yaxis={
            "tickvals": list(range(len(names))),
            "ticktext": [
                marked(name) if name in EMBEDDINGS else name.replace("_", " ") for name in names
            ],
            "ticksuffix": " ",
            "range": [len(names) - 0.5, -0.5],
            "ticks": "",
        },
    )
    return bare(figure, area)


def figures(material: Material) -> list[NamedFigure]:
    """Return a figure for each data set and problem.

    Raises:
        NotDrawn: too few trials are complete, or nothing varies.
    """
    drawn, reasons = [], []
    for group in material.groups(("model", *PROBLEM_FACTORS)):
        try:
            found = importance(group.cells, measure(METRIC), np.random.default_rng(FOREST_SEED))
        except RequestError as error:
            reasons.append(str(error))
            continue
        rows, query = material.rows(group, METRIC)
        drawn.append(
            NamedFigure(
                kind=KIND,
                name=file_name(KIND, group.dataset, METRIC, *(f"{k}-{v}" for k, v in group.held)),
                title=f"How much each factor moves test NDCG@10 on {group.title}",
                caption=notes(group, found),
                page=draw(found),
                area=area_of(found),
                rows=rows,
                query=query,
            )
        )
    if not drawn:
        raise NotDrawn("; ".join(dict.fromkeys(reasons)) or "no cell has a subset of embeddings")
    return drawn
