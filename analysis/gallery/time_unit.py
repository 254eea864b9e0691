"""Sensitivity to the time unit tau of the relative embeddings: a second, an hour, a day, .."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from analysis.captions import candidates
from analysis.gallery.means import averaged, coverage, members, subset_means
from analysis.layout import Area, NamedFigure, bare, file_name, legend_below, new_drawing, write
from analysis.material import Material, NotDrawn
from analysis.style import MUTED, SERIES
from analysis.tables import PROBLEM_FACTORS, Group, level, measure, score
from model.config import RELATIVE_EMBEDDINGS

KIND = "time-unit"
METRIC = "test_ndcg@10"
_AREA = Area(height=340, left=58, above=28, below=196, spare=122)
_UNITS = {1.0: "1 s", 60.0: "1 min", 3600.0: "1 h", 86400.0: "1 day", 604800.0: "1 week"}


class Line(NamedTuple):
    """One subset: its mean at each level of tau, NaN without one."""

    subset: str
    values: tuple[float, ...]

    @property
    def reach(self) -> float:
        """Largest minus smallest mean."""
        known = [value for value in self.values if not math.isnan(value)]
        return max(known) - min(known) if known else 0.0


class TimeUnitData(NamedTuple):
    """Lines of one group.

    Attributes:
        title: a line.
        levels: declared levels of tau, seconds, in order.
        lines: subsets with a relative embedding, the widest reach first.
        unaffected: the best mean among subsets that read no tau, NaN without one.
        notes: the caption.
    """

    title: str
    levels: tuple[float, ...]
    lines: tuple[Line, ...]
    unaffected: float
    notes: tuple[str, ...]


def time_unit_data(
    group: Group, metric: str = METRIC, *, factors: Sequence[str]
) -> TimeUnitData | None:
    """Return the lines, or None where tau is not swept or no subset reads it."""
    cells = group.cells
    if "tau" not in factors or cells["tau"].nunique() < 2:
        return None
    levels = tuple(sorted(float(tau) for tau in cells["tau"].dropna().unique()))
    means = {
        tau: subset_means(group._replace(cells=cells[cells["tau"] == tau]), metric, factors=factors)
        for tau in levels
    }
    at = {tau: found.table["value"] for tau, found in means.items()}
    subsets = list(dict.fromkeys(str(name) for found in at.values() for name in found.index))
    reads = [name for name in subsets if set(members(name)) & set(RELATIVE_EMBEDDINGS)]
    lines = [
        Line(name, tuple(float(at[tau].get(name, math.nan)) for tau in levels)) for name in reads
    ]
    if not lines:
        return None
    lines.sort(key=lambda line: -line.reach)
    flat = [float(at[levels[0]].get(name, math.nan)) for name in subsets if name not in reads]
    column = measure(metric)
    widest = lines[0]
    points = max(found.points for found in means.values())
    return TimeUnitData(
        title=f"Sensitivity to the time unit tau on {group.title}",
        levels=levels,
        lines=tuple(lines),
        unaffected=max((value for value in flat if not math.isnan(value)), default=math.nan),
        notes=(
            coverage(cells, int((cells["counted"] & cells[metric].notna()).sum())),
            f"{column.split.capitalize()} {column.title}, read at the best validation epoch; "
            f"{candidates(column.protocol, cells)}; at each tau {averaged(group, points)}.",
            f"Most sensitive: {widest.subset}, whose means differ by {score(widest.reach)}. "
            "Only Sin, Exp and Log read tau; the dotted line is the best subset without them. "
            "Differences are not tested here.",
            *(("Grey: the less sensitive subsets.",) if len(lines) > len(SERIES) else ()),
        ),
    )


def draw(data: TimeUnitData) -> go.Figure:
    """Draw a line for each subset over the levels as categories; the most sensitive in colour."""
    figure = new_drawing()
    places = list(range(len(data.levels)))
    grey = data.lines[len(SERIES) :]
    if grey:
        figure.add_scatter(
            x=[place for _ in grey for place in [*places, None]],
            y=np.array([v for line in grey for v in [*line.values, math.nan]], dtype=np.float32),
            text=[line.subset for line in grey for _ in [*places, None]],
            mode="lines",
            line={"color": "#c9ced4", "width": 1},
            hovertemplate="%{text}: %{y:.4f}<extra></extra>",
            showlegend=False,
        )
    if not math.isnan(data.unaffected):
        figure.add_scatter(
            x=[-0.3, len(places) - 0.7], y=[data.unaffected] * 2, mode="lines",
            line={"color": MUTED, "width": 1, "dash": "dot"},
            name="best without a relative embedding", hoverinfo="skip",
        )  # fmt: skip
    for line, (colour, dash, symbol) in zip(data.lines, SERIES, strict=False):
        figure.add_scatter(
            x=places,
            y=list(line.values),
            mode="lines+markers",
            name=line.subset,
            line={"color": colour, "dash": dash, "width": 2},
            marker={"symbol": symbol, "size": 8, "color": colour},
            hovertemplate=f"{line.subset}: %{{y:.4f}}<extra></extra>",
        )
    figure.update_layout(
        xaxis={
            "tickvals": places,
            "ticktext": [_UNITS.get(tau, f"{level(tau)} s") for tau in data.levels],
            "range": [-0.3, len(places) - 0.7],
            "title": {"text": "tau"},
        },
        yaxis={"showgrid": True},
    )
    write(figure, "test NDCG@10", x=0, y=1, down=-12, right=-44)
    legend_below(figure, _AREA, down=46)
    return bare(figure, _AREA)


def figures(material: Material) -> list[NamedFigure]:
    """Return a figure for each data set and problem.

    Raises:
        NotDrawn: the study does not sweep tau, or no subset that reads it has a result.
    """
    drawn = []
    for group in material.groups(("model", "heads", *PROBLEM_FACTORS)):
        data = time_unit_data(group, factors=material.factors)
        if data is None:
            continue
        rows, query = material.rows(group, METRIC)
        drawn.append(
            NamedFigure(
                kind=KIND,
                name=file_name(KIND, group.dataset, *(f"{k}-{v}" for k, v in group.held)),
                title=data.title,
                caption=data.notes,
                page=draw(data),
                area=_AREA,
                rows=rows,
                query=query,
            )
        )
    if not drawn:
        raise NotDrawn("it takes a study that sweeps tau, for example tau: [1, 3600, 86400]")
    return drawn
