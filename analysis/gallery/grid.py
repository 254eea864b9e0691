"""Grid heatmaps: the mean of a metric over each pair of swept hyperparameters.

Only subsets with a value at every shown point enter, so that two cells differ by their levels and
not by which subsets were feasible there.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
import plotly.graph_objects as go

from analysis.captions import candidates
from analysis.colour import Limits, limits
from analysis.gallery.means import coverage, varied
from analysis.hatching import hatch
from analysis.layout import Area, NamedFigure, bare, file_name, new_drawing, write
from analysis.material import Material, NotDrawn
from analysis.style import HATCHES, INK
from analysis.tables import PROBLEM_FACTORS, Group, level, measure, score

KIND = "grid"
METRIC = "test_ndcg@10"


class Panel(NamedTuple):
    """One pair of factors.

    Attributes:
        across: factor of the columns.
        down: factor of the rows.
        columns: its declared levels, as text, in order.
        rows: the declared levels of the other.
        values: mean of the metric by (row, column), NaN without one.
        states: why a value is missing, a key of `style.HATCHES`; empty where there is one.
        reasons: in words.
        n_subsets: subsets with a value in every cell, which alone are averaged; 0: no subset has,
            and each cell is the mean over those that it has.
    """

    across: str
    down: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    states: tuple[tuple[str, ...], ...]
    reasons: tuple[tuple[str, ...], ...]
    n_subsets: int


class GridData(NamedTuple):
    """The panels of one group and what their caption says."""

    title: str
    metric: str
    panels: tuple[Panel, ...]
    limits: Limits
    notes: tuple[str, ...]


def grid_data(group: Group, metric: str = METRIC, *, factors: Sequence[str]) -> GridData | None:
    """Return a panel for each pair of the swept `factors`, or None where fewer than two vary."""
    cells = group.cells
    grid = [name for name in varied(cells, factors) if name not in PROBLEM_FACTORS]
    if len(grid) < 2:
        return None
    panels = tuple(
        _panel(cells, metric, across=across, down=down, grid=grid)
        for down, across in itertools.combinations(grid, 2)
    )
    valued = cells["counted"] & cells[metric].notna()
    seeds = cells["seed"].nunique()
    column = measure(metric)
    span = limits([value for panel in panels for row in panel.values for value in row])
    marks = [v for p in panels for row in p.values for v in row if span.mark(v)]
    return GridData(
        title=f"{column.split.capitalize()} {column.title} by hyperparameters on {group.title}",
        metric=f"{column.split} {column.title}",
        panels=panels,
        limits=span,
        notes=(
            coverage(cells, int(valued.sum())),
            f"{column.title}, {column.split}, read at the best validation epoch; "
            f"{candidates(column.protocol, cells)}.",
            "Each value is the mean over subsets, the levels of the other factors and "
            f"{seeds} seed{'s' if seeds > 1 else ''} (mode: marginal); it varies over all of them, "
            "and no difference here is tested.",
            *_matching(panels),
            *((f"▲▼: beyond the colours, which span {score(span.low)} to {score(span.high)}.",)
              if marks else ()),
        ),
    )  # fmt: skip


def _matching(panels: tuple[Panel, ...]) -> tuple[str, ...]:
    counts = sorted({panel.n_subsets for panel in panels})
    if counts[0] == 0:
        return ("Where no subset has a value in every cell, cells rest on different subsets.",)
    many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (f"Only subsets with a value in every cell of a panel enter: {many}.",)


def _panel(
    cells: pd.DataFrame, metric: str, *, across: str, down: str, grid: Sequence[str]
) -> Panel:
    columns, rows = (_levels(cells[name]) for name in (across, down))
    keyed = cells.assign(_across=cells[across].map(level), _down=cells[down].map(level))
    valued = keyed[keyed["counted"] & keyed[metric].notna()]
    places = valued.groupby("embeddings")[["_across", "_down"]].apply(
        lambda part: len(part.drop_duplicates())
    )
    full = places.index[places == len(columns) * len(rows)] if len(places) else places.index
    used = valued[valued["embeddings"].isin(full)] if len(full) else valued
    # Seeds first, then points, then subsets: each subset counts once.
    others = [name for name in grid if name not in (across, down)]
    points = used.groupby(["_down", "_across", "embeddings", *others], dropna=False)[metric].mean()
    means = points.groupby(level=[0, 1, 2]).mean().groupby(level=[0, 1]).mean().to_dict()
    values, states, reasons = [], [], []
    for row in rows:
        found = [means.get((row, column), math.nan) for column in columns]
        here = [keyed[(keyed["_down"] == row) & (keyed["_across"] == column)] for column in columns]
        why = [
            _why(part) if math.isnan(v) else ("", "") for v, part in zip(found, here, strict=True)
        ]
        values.append(tuple(found))
        states.append(tuple(state for state, _ in why))
        reasons.append(tuple(reason for _, reason in why))
    return Panel(
        across, down, columns, rows, tuple(values), tuple(states), tuple(reasons), len(full)
    )


def _levels(column: "pd.Series[Any]") -> tuple[str, ...]:
    """Return declared levels as text: numbers in order first, then words."""
    known = column.dropna().unique()
    return tuple(level(value) for value in sorted(known, key=_number))


def _number(value: object) -> float:
    """Return a level's number; words such as `per-embedding` come after all numbers."""
    try:
        return float(str(value))
    except ValueError:
        return math.inf


def _why(cells: pd.DataFrame) -> tuple[str, str]:
    """Return the most pressing state of cells without a value, and all reasons in words."""
    if cells.empty:
        return "undeclared", "not declared"
    counts = cells["outcome"].where(~cells["counted"], "unmeasured").value_counts()
    state = min((str(name) for name in counts.index), key=list(HATCHES).index)
    reasons = sorted({str(reason) for reason in cells["reason"].dropna()})
    told = ", ".join(f"{count} {HATCHES[str(name)].label}" for name, count in counts.items())
    return state, "; ".join([told, *reasons[:2]])


def area_of(data: GridData) -> Area:
    """Return the pixels of all panels, one above the other."""
    return Area(
        height=sum(_height(panel) + 62 for panel in data.panels), left=66, above=64, below=8
    )


def _height(panel: Panel) -> int:
    return 34 * len(panel.rows)


def draw(data: GridData) -> go.Figure:
    """Draw the panels one above the other under one colour bar."""
    figure, area = new_drawing(), area_of(data)
    top = 0
    for place, panel in enumerate(data.panels):
        suffix = "" if place == 0 else str(place + 1)
        height = _height(panel)
        domain = [1 - (top + height) / area.height, 1 - top / area.height]
        _draw_panel(figure, panel, data, suffix=suffix, first=place == 0)
        figure.update_layout(
            {
                f"xaxis{suffix}": {
                    "tickvals": list(range(len(panel.columns))),
                    "ticktext": list(panel.columns),
                    "range": [-0.5, len(panel.columns) - 0.5],
                    "anchor": f"y{suffix}",
                    "ticks": "",
                },
                f"yaxis{suffix}": {
                    "tickvals": list(range(len(panel.rows))),
                    "ticktext": list(panel.rows),
                    "range": [len(panel.rows) - 0.5, -0.5],
                    "domain": domain,
                    "anchor": f"x{suffix}",
                    "ticks": "",
                    "ticksuffix": " ",
                },
            }
        )
        write(
            figure, panel.across.replace("_", " "), x=0.5, y=domain[0], down=31, xanchor="center",
            color=INK,
        )  # fmt: skip
        write(
            figure, panel.down.replace("_", " "), x=0, y=sum(domain) / 2, right=-54,
            xanchor="center", textangle=-90, color=INK,
        )  # fmt: skip
        top += height + 62
    return bare(figure, area)


def _draw_panel(
    figure: go.Figure, panel: Panel, data: GridData, *, suffix: str, first: bool
) -> None:
    span = data.limits
    axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
    ticks = [span.low + (span.high - span.low) * step / 4 for step in range(5)]
    figure.add_heatmap(
        z=[[None if math.isnan(v) else v for v in row] for row in panel.values],
        hovertext=[
            [
                f"{panel.down.replace('_', ' ')} {down}, {panel.across.replace('_', ' ')} {across}"
                f"<br>{why or f'{value:.4f}'}"
                for across, value, why in zip(panel.columns, values, reasons, strict=True)
            ]
            for down, values, reasons in zip(panel.rows, panel.values, panel.reasons, strict=True)
        ],
        hovertemplate="%{hovertext}<extra></extra>",
        colorscale=span.plotly,
        zmin=span.low,
        zmax=span.high,
        xgap=2,
        ygap=2,
        showscale=first,
        colorbar={
            "orientation": "h", "y": 1, "yanchor": "bottom", "ypad": 8, "x": 0.5, "len": 1.0,
            "thickness": 10, "tickvals": ticks, "ticktext": [score(tick) for tick in ticks],
            "outlinewidth": 0,
            "title": {"text": data.metric, "side": "top", "font": {"size": 12}},
        },
        **axes,
    )  # fmt: skip
    hatch(figure, panel.states, axes)
    places = [
        (j, i, value)
        for i, row in enumerate(panel.values)
        for j, value in enumerate(row)
        if not math.isnan(value)
    ]
    figure.add_scatter(
        x=[j for j, _, _ in places],
        y=[i for _, i, _ in places],
        mode="text",
        text=[score(value) + span.mark(value) for _, _, value in places],
        textfont={"color": span.inks([value for _, _, value in places])},
        hoverinfo="skip",
        showlegend=False,
        **axes,
    )


def figures(material: Material) -> list[NamedFigure]:
    """Return a figure for each data set and problem.

    Raises:
        NotDrawn: the study sweeps fewer than two hyperparameters.
    """
    drawn = []
    for group in material.groups(("model", *PROBLEM_FACTORS)):
        data = grid_data(group, factors=material.factors)
        if data is None:
            continue
        rows, query = material.rows(group, METRIC)
        drawn.append(
            NamedFigure(
                kind=KIND,
                name=file_name(KIND, group.dataset, METRIC, *(f"{k}-{v}" for k, v in group.held)),
                title=data.title,
                caption=data.notes,
                page=draw(data),
                area=area_of(data),
                rows=rows,
                query=query,
            )
        )
    if not drawn:
        raise NotDrawn("it takes at least two swept hyperparameters")
    return drawn
