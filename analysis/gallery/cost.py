"""Quality against cost: test NDCG@10 over seconds of training and over parameters, with fronts."""

import itertools
import math
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
import plotly.graph_objects as go

from analysis.captions import candidates
from analysis.gallery.means import coverage, timed, varied
from analysis.layout import Area, NamedFigure, bare, file_name, legend_below, new_drawing, write
from analysis.material import Material, NotDrawn
from analysis.style import INK, SERIES, TIME_MARK
from analysis.tables import PROBLEM_FACTORS, Group, arms, level, measure

KIND = "cost"
METRIC = "test_ndcg@10"
COSTS = (("seconds", "seconds of training and evaluation"), ("n_parameters", "parameters"))
_AREA = Area(height=520, left=58, above=28, below=128, spare=36)
LISTED = 6
"""Arms of a front that carry a letter and are named in the caption: the ends, the largest steps."""


class Arm(NamedTuple):
    """One point: an arm's cost and quality, means over seeds."""

    name: str
    timed: bool
    cost: float
    value: float


class Front(NamedTuple):
    """One panel: all arms, and the places of those that no cheaper arm beats, cheapest first."""

    cost: str
    title: str
    arms: tuple[Arm, ...]
    front: tuple[int, ...]

    @property
    def named(self) -> tuple[int, ...]:
        """The places on the front that carry a letter, cheapest first."""
        values = [self.arms[place].value for place in self.front]
        steps = [math.inf, *(after - before for before, after in itertools.pairwise(values))]
        steps[-1] = math.inf
        largest = sorted(range(len(steps)), key=lambda step: -steps[step])[:LISTED]
        return tuple(self.front[step] for step in sorted(largest))


class CostData(NamedTuple):
    """The panels of one group and their caption."""

    title: str
    fronts: tuple[Front, ...]
    notes: tuple[str, ...]

    @property
    def letters(self) -> tuple[dict[int, str], ...]:
        """For each front: place -> letter; no letter comes twice, and none looks like a tick."""
        return _letters(self.fronts)


def pareto_front(costs: list[float], values: list[float]) -> tuple[int, ...]:
    """Return the places of points that no point with at most their cost exceeds in value.

    >>> pareto_front([3, 1, 2, 2], [5, 1, 4, 3])
    (1, 2, 0)
    """
    order = sorted(range(len(costs)), key=lambda place: (costs[place], -values[place]))
    kept: list[int] = []
    for place in order:
        if not kept or values[place] > values[kept[-1]]:
            kept.append(place)
    return tuple(kept)


def cost_data(group: Group, metric: str = METRIC, *, factors: Sequence[str]) -> CostData | None:
    """Return quality against each cost, or None where no arm has a value.

    `factors` are those that the study sweeps: they tell the arms of a subset apart.
    """
    compared = [name for name in varied(group.cells, factors) if name not in PROBLEM_FACTORS]
    table = arms(group.cells, compared)
    table = table[table[metric].notna()]
    if table.empty:
        return None
    names = [_name(arm, compared) for _, arm in table.iterrows()]
    fronts = []
    for cost, title in COSTS:
        if cost not in table or table[cost].isna().all():
            continue
        known = [
            Arm(name, timed(str(subset)), float(spent), float(value))
            for name, subset, spent, value in zip(
                names, table["embeddings"], table[cost], table[metric], strict=True
            )
            if not math.isnan(float(spent))
        ]
        best = pareto_front([arm.cost for arm in known], [arm.value for arm in known])
        fronts.append(Front(cost, title, tuple(known), best))
    column = measure(metric)
    seeds = group.cells["seed"].nunique()
    return CostData(
        title=f"Quality against cost on {group.title}",
        fronts=tuple(fronts),
        notes=(
            coverage(group.cells, int(group.cells["counted"].sum())),
            f"Each point is an arm, the mean over {seeds} seed{'s' if seeds > 1 else ''}, and "
            "every arm is shown (no mode: no hyperparameter point is chosen or averaged); "
            f"{column.split} {column.title}, read at the best validation epoch, "
            f"{candidates(column.protocol, group.cells)}.",
            *map(_listing, fronts, _letters(fronts)),
            "The fronts describe these means; they select nothing, and the differences along them "
            "are not tested.",
            f"{TIME_MARK} sees the target's time. Seconds are wall-clock on the machine that "
            "trained, with whatever ran beside it.",
        ),
    )


def _name(arm: "pd.Series[Any]", factors: Sequence[str]) -> str:
    """Name an arm by its subset, or by its model where that has none, and by what else varies."""
    own = str(arm["embeddings"]) or str(arm.get("model", "no embedding"))
    read = [name for name in factors if name != "model" and level(arm[name]) != "–"]
    return ", ".join([own, *(f"{name.replace('_', ' ')} {level(arm[name])}" for name in read)])


def _letters(fronts: Sequence[Front]) -> tuple[dict[int, str], ...]:
    alphabet = iter(string.ascii_uppercase)
    return tuple({place: next(alphabet) for place in front.named} for front in fronts)


def _listing(front: Front, letters: dict[int, str]) -> str:
    named = [f"{letter} {front.arms[place].name}" for place, letter in letters.items()]
    left = len(front.front) - len(named)
    more = f"; {left} smaller step{'s' if left > 1 else ''} between them" if left > 0 else ""
    return f"Front by {front.title.split(' of ')[0]}: {'; '.join(named)}{more}."


def draw(data: CostData) -> go.Figure:
    """Draw one panel for each cost, one above the other."""
    figure = new_drawing()
    share = 1 / len(data.fronts)
    gap = 66 / _AREA.height
    for place, (front, letters) in enumerate(zip(data.fronts, data.letters, strict=True)):
        suffix = "" if place == 0 else str(place + 1)
        top = 1 - place * share
        bottom = 0.0 if place == len(data.fronts) - 1 else top - share + gap
        figure.update_layout(
            {
                f"yaxis{suffix}": {"domain": [bottom, top - (0.0 if place == 0 else 0.02)],
                                   "anchor": f"x{suffix}", "showgrid": True},
                f"xaxis{suffix}": {"anchor": f"y{suffix}", "showgrid": True, **_axis(front)},
            }
        )  # fmt: skip
        _panel(figure, front, letters, suffix)
    write(figure, "test NDCG@10", x=0, y=1, down=-12, right=-44)
    legend_below(figure, _AREA, down=48)
    return bare(figure, _AREA)


def _axis(front: Front) -> dict[str, object]:
    """Return a logarithmic axis where costs span a factor of five, else a linear one."""
    low, high = (end(arm.cost for arm in front.arms) for end in (min, max))
    if low > 0 and high / low >= 5:
        room = 0.06 * math.log10(high / low)
        span = [math.log10(low) - room, math.log10(high) + room]
        text = f"{front.title} (log scale)"
        return {"type": "log", "dtick": "D2", "range": span, "title": {"text": text}}
    room = 0.08 * (high - low) or 0.05 * high
    return {"range": [low - room, high + room], "title": {"text": front.title}}


def _panel(figure: go.Figure, front: Front, letters: dict[int, str], suffix: str) -> None:
    axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
    for sees, (colour, _, symbol) in zip((True, False), SERIES, strict=False):
        own = [arm for arm in front.arms if arm.timed == sees]
        figure.add_scatter(
            x=[arm.cost for arm in own],
            y=[arm.value for arm in own],
            text=[arm.name for arm in own],
            mode="markers",
            name=f"sees the target's time{TIME_MARK}" if sees else "does not see it",
            legendgroup=str(sees),
            showlegend=suffix == "" and bool(own),
            marker={"symbol": symbol, "size": 7, "color": colour, "opacity": 0.55},
            hovertemplate="%{text}<br>%{y:.4f} at %{x:,.4g}<extra></extra>",
            **axes,
        )
    best = [front.arms[place] for place in front.front]
    figure.add_scatter(
        x=[arm.cost for arm in best],
        y=[arm.value for arm in best],
        mode="lines+markers",
        line={"color": INK, "width": 1.2, "shape": "hv"},
        marker={"symbol": "circle-open", "size": 11, "color": INK},
        name="Pareto front",
        legendgroup="front",
        showlegend=suffix == "",
        hoverinfo="skip",
        cliponaxis=False,
        **axes,
    )
    named = [front.arms[place] for place in letters]
    figure.add_scatter(
        x=[arm.cost for arm in named],
        y=[arm.value for arm in named],
        text=[f"<b>{letter}</b>\u2002" for letter in letters.values()],
        mode="text",
        textposition="top left",
        hoverinfo="skip",
        showlegend=False,
        cliponaxis=False,
        **axes,
    )


def figures(material: Material) -> list[NamedFigure]:
    """Return a figure for each data set and problem.

    Raises:
        NotDrawn: no trial is complete.
    """
    drawn = []
    for group in material.groups(PROBLEM_FACTORS, baselines=True):
        data = cost_data(group, factors=material.factors)
        if data is None:
            continue
        rows, query = material.rows(group, METRIC, "seconds", "n_parameters")
        drawn.append(
            NamedFigure(
                kind=KIND,
                name=file_name(KIND, group.dataset, METRIC, *(f"{k}-{v}" for k, v in group.held)),
                title=data.title,
                caption=data.notes,
                page=draw(data),
                area=_AREA,
                rows=rows,
                query=query,
            )
        )
    if not drawn:
        raise NotDrawn("no trial is complete")
    return drawn
