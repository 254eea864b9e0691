"""Data set by subset: where each subset stands on each data set, and how far the orders agree."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.captions import candidates
from analysis.gallery import dot_matrix
from analysis.gallery.means import SubsetMeans, averaged, coverage, subset_means
from analysis.gallery.pairs import Pair, agreement, pair
from analysis.layout import Area, NamedFigure, bare, file_name, new_drawing, write
from analysis.material import Material, NotDrawn
from analysis.style import INK, SEQUENTIAL
from analysis.tables import PROBLEM_FACTORS, Group, level, measure

KIND = "orders"
METRIC = "test_ndcg@10"
_ROW_PIXELS = 30


class OrdersData(NamedTuple):
    """Ranks of subsets on each data set.

    Attributes:
        datasets: rows.
        subsets: columns, by mean rank, the best first.
        ranks: shape (data sets, subsets), 1 is best; NaN where a subset has no value there.
        values: the means that were ranked, same shape.
        pairs: each two data sets compared.
        title: a line.
        notes: the caption.
    """

    datasets: tuple[str, ...]
    subsets: tuple[str, ...]
    ranks: tuple[tuple[float, ...], ...]
    values: tuple[tuple[float, ...], ...]
    pairs: tuple[Pair, ...]
    title: str
    notes: tuple[str, ...]


def orders_data(
    groups: list[Group], metric: str = METRIC, *, factors: Sequence[str]
) -> OrdersData | None:
    """Rank subsets on each data set, or None where fewer than two data sets have two subsets.

    Args:
        groups: one for each data set, at the same held levels.
        metric: column of the results.
        factors: those that the study sweeps.
    """
    means: dict[str, SubsetMeans] = {
        group.dataset: subset_means(group, metric, factors=factors) for group in groups
    }
    means = {name: found for name, found in means.items() if len(found.table) > 1}
    if len(means) < 2:
        return None
    values = pd.DataFrame({name: found.table["value"] for name, found in means.items()})
    shared = values.dropna()
    ranks = shared.rank(ascending=False)
    order = ranks.mean(axis=1).sort_values(kind="stable").index
    if len(order) < 2:
        return None
    ranks, shared = ranks.loc[order], shared.loc[order]
    pairs = tuple(
        pair(shared[one], shared[other], names=(one, other), same=False)
        for one, other in itertools.combinations(means, 2)
    )
    cells = pd.concat([group.cells for group in groups])
    column = measure(metric)
    points = max(found.points for found in means.values())
    left_out = len(values) - len(shared)
    held = "".join(f", {k.replace('_', ' ')} {v}" for k, v in groups[0].held)
    return OrdersData(
        datasets=tuple(means),
        subsets=tuple(str(name) for name in order),
        ranks=tuple(tuple(ranks[name]) for name in means),
        values=tuple(tuple(shared[name]) for name in means),
        pairs=pairs,
        title=f"Subsets by data set{held}: the same order?",
        notes=(
            coverage(cells, int((cells["counted"] & cells[metric].notna()).sum())),
            f"Rank of each subset's mean {column.split} {column.title} among {len(shared)} subsets"
            f", 1 is best; read at the best validation epoch; "
            f"{candidates(column.protocol, cells)}; {averaged(groups[0], points)}.",
            "Columns: subsets by their mean rank over the data sets, the best on the left.",
            *((f"{left_out} subsets without a value on every data set are left out.",)
              if left_out else ()),
            *(f"{one.across} and {one.up}: {agreement(one)}." for one in pairs),
            "Ranks of means: neighbours may differ by less than their seeds do.",
        ),
    )  # fmt: skip


def area_of(data: OrdersData) -> Area:
    """Return the pixels of one row for each data set above the dot matrix."""
    return Area(
        height=_ROW_PIXELS * len(data.datasets) + dot_matrix.HEIGHT + 14,
        left=96, above=62, below=16,
    )  # fmt: skip


def draw(data: OrdersData) -> go.Figure:
    """Draw ranks as colours, dark is best, above the dot matrix of membership."""
    figure, area = new_drawing(), area_of(data)
    n = len(data.subsets)
    split = (dot_matrix.HEIGHT + 14) / area.height
    dot_matrix.add(figure, data.subsets, suffix="2", domain=(0.0, dot_matrix.HEIGHT / area.height))
    last = len(SEQUENTIAL) - 1
    ticks = sorted({1, *np.linspace(1, n, 5).round().astype(int).tolist()})
    figure.add_heatmap(
        z=[list(row) for row in data.ranks],
        hovertext=[
            [
                f"{subset} on {name}<br>rank {rank:g} of {n}, {value:.4f}"
                for subset, rank, value in zip(data.subsets, ranks, values, strict=True)
            ]
            for name, ranks, values in zip(data.datasets, data.ranks, data.values, strict=True)
        ],
        hovertemplate="%{hovertext}<extra></extra>",
        colorscale=[[i / last, colour] for i, colour in enumerate(reversed(SEQUENTIAL))],
        zmin=1,
        zmax=n,
        xgap=1,
        ygap=2,
        colorbar={
            "orientation": "h", "y": 1, "yanchor": "bottom", "ypad": 8, "x": 0.5, "len": 1.0,
            "thickness": 10, "tickvals": ticks, "outlinewidth": 0,
            "title": {"text": "rank", "side": "top", "font": {"size": 12}},
        },
    )  # fmt: skip
    if n <= 16:
        flat = [(x, y, rank) for y, row in enumerate(data.ranks) for x, rank in enumerate(row)]
        figure.add_scatter(
            x=[x for x, _, _ in flat],
            y=[y for _, y, _ in flat],
            text=[f"{rank:g}" for _, _, rank in flat],
            mode="text",
            textfont={"color": ["#ffffff" if rank < n / 2 else INK for _, _, rank in flat]},
            hoverinfo="skip",
            showlegend=False,
        )
    figure.update_layout(
        xaxis={"range": [-0.7, n - 0.3], "showticklabels": False, "ticks": "", "showline": False},
        yaxis={
            "range": [len(data.datasets) - 0.5, -0.5],
            "tickvals": list(range(len(data.datasets))),
            "ticktext": list(data.datasets),
            "domain": [split, 1.0],
            "showline": False,
            "ticks": "",
            "ticksuffix": " ",
        },
    )
    if len(data.pairs) == 1 and not math.isnan(data.pairs[0].kendall):
        write(figure, f"Kendall's τ {data.pairs[0].kendall:.2f}", x=1, y=1, down=-54,
              xanchor="right", color=INK)  # fmt: skip
    return bare(figure, area)


def figures(material: Material) -> list[NamedFigure]:
    """Return a figure for each problem that two data sets or more answer.

    Raises:
        NotDrawn: fewer than two data sets have results for the same subsets.
    """
    by_problem: dict[tuple[tuple[str, str], ...], list[Group]] = {}
    for group in material.groups(("model", "heads", *PROBLEM_FACTORS)):
        by_problem.setdefault(group.held, []).append(group)
    drawn = []
    for levels, groups in by_problem.items():
        data = orders_data(groups, factors=material.factors)
        if data is None:
            continue
        parts = [material.rows(group, METRIC) for group in groups]
        drawn.append(
            NamedFigure(
                kind=KIND,
                name=file_name(KIND, METRIC, *(f"{k}-{level(v)}" for k, v in levels)),
                title=data.title,
                caption=data.notes,
                page=draw(data),
                area=area_of(data),
                rows=pd.concat([rows for rows, _ in parts], ignore_index=True),
                query="; ".join(query for _, query in parts),
            )
        )
    if not drawn:
        raise NotDrawn("it takes two data sets with results for the same subsets")
    return drawn
