"""Subset ranking: ordered means with intervals above a matrix of dots that says which embeddings.

Readable for 64 arms, where labels or a critical-difference diagram are not. The order is that of
the test means drawn; what is best is named by validation alone and marked.
"""

import math
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from analysis.families import against
from analysis.gallery import dot_matrix
from analysis.gallery.board import (
    LEVEL,
    METRIC,
    SIGNIFICANT,
    Board,
    boards,
    uncertainty,
    with_users,
)
from analysis.layout import Area, NamedFigure, bare, file_name, legend_below, new_drawing, write
from analysis.material import Material
from analysis.style import INK, MUTED, PAPER, SERIES
from analysis.tables import SELECTION, measure, score

KIND = "ranking"
_MEANS = 250
_AREA = Area(
    height=_MEANS + 12 + dot_matrix.HEIGHT, left=62, right=12, above=28, below=84, spare=20
)


class Ranked(NamedTuple):
    """One subset.

    Attributes:
        subset: label.
        mean: of the test metric, over users and seeds.
        low: `mean` moved by the lower end of the interval of its difference from the best.
        high: the same for the upper end; both equal `mean` for the best itself.
        adjusted: Holm's p of that difference; NaN without a claim.
    """

    subset: str
    mean: float
    low: float
    high: float
    adjusted: float

    @property
    def apart(self) -> bool:
        """Whether it differs from the best significantly."""
        return self.adjusted < SIGNIFICANT


class RankingData(NamedTuple):
    """All subsets of a board, the largest mean first.

    Attributes:
        title: a line.
        ranked: the subsets.
        best: label of the best by validation, which the others are compared with.
        family: comparisons that Holm adjusts for.
        notes: the caption.
    """

    title: str
    ranked: tuple[Ranked, ...]
    best: str
    family: int
    notes: tuple[str, ...]


def ranking_data(of: Board) -> RankingData:
    """Order the board's subsets and compare each with the best by validation."""
    best = of.best
    family = against(best, of.arms, level=LEVEL, pool=of.pool)
    ranked = [Ranked(best.subset, best.mean, best.mean, best.mean, math.nan)]
    for pair in family.pairs:
        arm = of.arm(pair.first)
        low = high = arm.mean
        if pair.comparison is not None:
            off = arm.mean - pair.comparison.mean
            low, high = (end + off for end in pair.comparison.interval[:2])
        ranked.append(Ranked(arm.subset, arm.mean, low, high, pair.adjusted))
    ranked.sort(key=lambda one: -one.mean)
    apart = sum(one.apart for one in ranked)
    claim = (
        f"Filled: differs from it significantly (Holm's p < {SIGNIFICANT} over the {family.size} "
        f"comparisons drawn): {apart}."
        if family.size
        else "No difference is tested."
    )
    top = ranked[0]
    lucky = (
        ()
        if top.subset == best.subset
        else (f"{top.subset} has a larger test mean, which was not known when choosing.",)
    )
    return RankingData(
        title=f"Subsets by test NDCG@10 on {of.group.title}",
        ranked=tuple(ranked),
        best=best.subset,
        family=family.size,
        notes=(
            *of.notes,
            f"Diamond: {best.subset}, best by {measure(SELECTION).title} on validation, test "
            f"{score(best.mean)} (dashed). Bars: interval of each subset's difference from it, "
            "drawn around the subset's mean: one that reaches the dashed line holds zero. "
            f"{claim}",
            *lucky,
            *uncertainty(of, family=family.size),
        ),
    )


def draw(data: RankingData) -> go.Figure:
    """Draw means above, the dot matrix below."""
    figure = new_drawing()
    dot_matrix.add(
        figure,
        [one.subset for one in data.ranked],
        suffix="2",
        domain=(0.0, dot_matrix.HEIGHT / _AREA.height),
    )
    colour = SERIES[0][0]
    size = 7 if len(data.ranked) <= 24 else 5
    best = next(place for place, one in enumerate(data.ranked) if one.subset == data.best)
    figure.add_shape(
        type="line", xref="paper", x0=0, x1=1, y0=data.ranked[best].mean,
        y1=data.ranked[best].mean, line={"color": MUTED, "width": 1, "dash": "dash"},
        layer="below",
    )  # fmt: skip
    names = ((True, "differs from it (Holm)"), (False, "not told apart from it"))
    for apart, name in names:
        own = [
            (place, one)
            for place, one in enumerate(data.ranked)
            if one.apart == apart and place != best
        ]
        if not own:
            continue
        means = np.array([one.mean for _, one in own])
        figure.add_scatter(
            x=[place for place, _ in own],
            y=means,
            error_y={
                "type": "data",
                "symmetric": False,
                "array": np.array([one.high for _, one in own]) - means,
                "arrayminus": means - np.array([one.low for _, one in own]),
                "color": colour,
                "thickness": 1.1,
                "width": 0,
            },
            mode="markers",
            name=name,
            marker={
                "size": size,
                "color": colour if apart else PAPER,
                "line": {"color": colour, "width": 1.2},
            },
            hovertext=[_hover(one, data) for _, one in own],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    figure.add_scatter(
        x=[best],
        y=[data.ranked[best].mean],
        mode="markers",
        name="best by validation",
        legendrank=1,
        marker={
            "symbol": "diamond",
            "size": 11 if len(data.ranked) <= 24 else 8,
            "color": SERIES[1][0],
            "line": {"color": INK, "width": 1},
        },
        hovertext=[f"<b>{data.best}</b><br>{data.ranked[best].mean:.4f}, best by validation"],
        hovertemplate="%{hovertext}<extra></extra>",
    )
    figure.update_layout(
        xaxis={
            "range": [-0.7, len(data.ranked) - 0.3],
            "showticklabels": False,
            "ticks": "",
            "anchor": "y",
        },
        yaxis={"domain": [(dot_matrix.HEIGHT + 12) / _AREA.height, 1.0], "showgrid": True},
    )
    write(figure, "test NDCG@10", x=0, y=1, down=-12, right=-48)
    legend_below(figure, _AREA, down=16)
    return bare(figure, _AREA)


def _hover(one: Ranked, data: RankingData) -> str:
    lines = [f"<b>{one.subset}</b>", f"{one.mean:.4f}"]
    best = next(other.mean for other in data.ranked if other.subset == data.best)
    low, high = one.low - best, one.high - best
    lines.append(f"{one.mean - best:+.4f} against {data.best} [{low:+.4f}, {high:+.4f}]")
    lines.append("no claim" if math.isnan(one.adjusted) else f"Holm's p {one.adjusted:.3g}")
    return "<br>".join(lines)


def figures(material: Material) -> list[NamedFigure]:
    """Return a figure for each data set and problem."""
    drawn = []
    for of in boards(material):
        data = ranking_data(of)
        rows, query = material.rows(of.group, METRIC, SELECTION)
        drawn.append(
            NamedFigure(
                kind=KIND,
                name=file_name(KIND, of.group.dataset, *(f"{k}-{v}" for k, v in of.group.held)),
                title=data.title,
                caption=data.notes,
                page=draw(data),
                area=_AREA,
                rows=with_users(rows, material),
                query=query,
            )
        )
    return drawn
