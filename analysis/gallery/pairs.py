"""Two readings of the same subsets against each other: do they put them in the same order?

Used for the candidate protocols (sampled metrics can reorder models: Krichene and Rendle, KDD 2020)
and for the target's time, actual or replaced by the last known one.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from scipy import stats

from analysis.captions import candidates, own_protocol
from analysis.gallery import labels
from analysis.gallery.means import SubsetMeans, averaged, coverage, subset_means, timed
from analysis.layout import (
    NARROWEST,
    Area,
    NamedFigure,
    bare,
    file_name,
    legend_below,
    new_drawing,
    write,
)
from analysis.material import Material, NotDrawn
from analysis.style import INK, MUTED, SERIES, TIME_MARK
from analysis.tables import PROBLEM_FACTORS, Group, level, measure

PANEL_HEIGHT = 330

_ALL_NAMED = 10
"""Subsets up to which every point carries its name."""


class Pair(NamedTuple):
    """One panel: each subset by two means.

    Attributes:
        across: what the horizontal axis holds.
        up: what the vertical axis holds.
        subsets: labels.
        x: means, one a subset.
        y: means, one a subset.
        kendall: Kendall's tau-b between the two orders, NaN with fewer than 3 subsets.
        p_value: of no association (exact where there are no ties and few subsets).
        same_scale: both axes hold the same metric, so that the diagonal means no difference.
    """

    across: str
    up: str
    subsets: tuple[str, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]
    kendall: float
    p_value: float
    same_scale: bool


class PairsData(NamedTuple):
    """The panels of one figure, the metric on all axes, and the caption."""

    title: str
    metric: str
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...]


def pair(
    first: "pd.Series[float]", second: "pd.Series[float]", *, names: tuple[str, str], same: bool
) -> Pair:
    """Compare two means of the subsets that have both."""
    both = pd.concat([first, second], axis=1, keys=["x", "y"]).dropna()
    tau = p_value = math.nan
    if len(both) >= 3:
        found = stats.kendalltau(both["x"], both["y"])
        tau, p_value = float(found.statistic), float(found.pvalue)
    return Pair(
        across=names[0],
        up=names[1],
        subsets=tuple(str(name) for name in both.index),
        x=tuple(both["x"]),
        y=tuple(both["y"]),
        kendall=tau,
        p_value=p_value,
        same_scale=same,
    )


def agreement(one: Pair) -> str:
    """Say how far two orders agree, in a clause."""
    if math.isnan(one.kendall):
        return f"too few subsets ({len(one.subsets)}) for a rank correlation"
    better = (one.kendall + 1) / 2
    return (
        f"Kendall's τ {one.kendall:.2f} over {len(one.subsets)} subsets: of two subsets drawn at "
        f"random, both readings prefer the same one in about {better:.0%} of cases"
    )


def protocols_data(
    group: Group, metric: str = "ndcg@10", *, factors: Sequence[str]
) -> PairsData | None:
    """Compare the protocols that the group's trials were tested under, two by two.

    Trials are read under their own protocol and under `full`; a study that sweeps `protocol` has
    trials of several.
    """
    measured: dict[str, SubsetMeans] = {}
    for protocol, cells in _by_protocol(group.cells, factors):
        own = group._replace(cells=cells)
        for name, column in ((protocol, f"test_{metric}"), ("full", f"test_full_{metric}")):
            if column in cells and name not in measured:
                means = subset_means(own, column, factors=factors)
                if len(means.table):
                    measured[name] = means
    if len(measured) < 2 or min(len(means.table) for means in measured.values()) < 3:
        return None
    pairs = tuple(
        pair(
            measured[one].table["value"],
            measured[other].table["value"],
            names=(one, other),
            same=False,
        )
        for one, other in itertools.combinations(measured, 2)
    )
    title = measure(f"test_{metric}").title
    first = next(iter(measured.values()))
    return PairsData(
        title=f"Do the protocols order subsets alike on {group.title}?",
        metric=f"test {title}",
        pairs=pairs,
        notes=(
            first.coverage,
            f"Test {title}, read at the best validation epoch; {averaged(group, first.points)}.",
            f"Candidates: {'; '.join(_rival_items(group, name) for name in measured)}.",
            *(f"{one.across} and {one.up}: {agreement(one)}." for one in pairs),
            "Sampled protocols rank the target among few items and can order models differently "
            "from the ranking of all items (Krichene and Rendle, KDD 2020). τ describes these "
            "means: neighbours that no seed tells apart count like any other pair.",
        ),
    )


def _by_protocol(cells: pd.DataFrame, factors: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    if "protocol" not in factors:
        yield own_protocol("popular-100", cells), cells
        return
    for protocol, part in cells.groupby("protocol", sort=False):
        yield str(protocol), part


def target_time_data(
    group: Group, metric: str = "test_ndcg@10", *, factors: Sequence[str]
) -> PairsData | None:
    """Compare each subset with the target's actual time and without it."""
    cells = group.cells
    if "target_time" not in factors or set(cells["target_time"].dropna()) != {"actual", "last"}:
        return None
    parts = {
        reading: subset_means(
            group._replace(cells=cells[cells["target_time"] == reading]), metric, factors=factors
        )
        for reading in ("actual", "last")
    }
    if not all(len(means.table) for means in parts.values()):
        return None
    one = pair(
        parts["actual"].table["value"],
        parts["last"].table["value"],
        names=("target's actual time", "time of the last known interaction"),
        same=True,
    )
    x, y = np.asarray(one.x), np.asarray(one.y)
    sees = np.asarray([timed(subset) for subset in one.subsets])
    column = measure(metric)
    gains = (
        f"Withholding the target's time changes the mean over the {sees.sum()} subsets that see it "
        f"by {(y - x)[sees].mean():+.3f} {column.title} (from {(y - x)[sees].min():+.3f} to "
        f"{(y - x)[sees].max():+.3f})."
        if sees.any()
        else "No subset here sees the target's time."
    )
    return PairsData(
        title=f"With and without the target's time on {group.title}",
        metric=f"{column.split} {column.title}",
        pairs=(one,),
        notes=(
            coverage(cells, int((cells["counted"] & cells[metric].notna()).sum())),
            f"{column.split.capitalize()} {column.title}, read at the best validation epoch; "
            f"{candidates(column.protocol, cells)}; {averaged(group, parts['actual'].points)}.",
            gains,
            f"The two orders: {agreement(one)}.",
            "Subsets without a timed embedding are the same trial on both axes and lie on the "
            "diagonal. Differences are not tested here.",
        ),
    )


def _rival_items(group: Group, protocol: str) -> str:
    """Say which items compete with the target under a protocol: `full (all items except ..)`."""
    shared = group.cells.drop(columns="protocol", errors="ignore")
    sentence = candidates(
        "full" if protocol == "full" else "popular-100",
        shared if protocol == "full" else shared.assign(protocol=protocol),
    )
    return sentence.removeprefix("protocol ")


def area_of(data: PairsData) -> Area:
    """Return the pixels of all panels, one above the other."""
    return Area(height=PANEL_HEIGHT * len(data.pairs), left=62, above=28, below=112, spare=20)


def draw(data: PairsData) -> go.Figure:
    """Draw the panels one above the other."""
    figure, area = new_drawing(), area_of(data)
    for place, one in enumerate(data.pairs):
        suffix = "" if place == 0 else str(place + 1)
        top = 1 - place / len(data.pairs) - (0 if place == 0 else 26 / area.height)
        bottom = 1 - (place + 1) / len(data.pairs)
        bottom += 0 if place == len(data.pairs) - 1 else 48 / area.height
        figure.update_layout(
            {
                f"xaxis{suffix}": {"anchor": f"y{suffix}", "showgrid": True,
                                   "title": {"text": f"{data.metric}, {one.across}"}},
                f"yaxis{suffix}": {"anchor": f"x{suffix}", "showgrid": True,
                                   "domain": [bottom, top]},
            }
        )  # fmt: skip
        tau = "" if math.isnan(one.kendall) else f"   Kendall's τ {one.kendall:.2f}"
        up = f"{data.metric}, {one.up}<b>{tau}</b>"
        write(figure, up, x=0, y=top, down=-12, right=-48, color=INK)
        _panel(figure, one, suffix)
    legend_below(figure, area, down=48)
    return bare(figure, area)


def _panel(figure: go.Figure, one: Pair, suffix: str) -> None:
    axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
    if one.same_scale and one.x:
        ends = [min((*one.x, *one.y)), max((*one.x, *one.y))]
        figure.add_scatter(
            x=ends, y=ends, mode="lines", line={"color": MUTED, "width": 1, "dash": "dot"},
            hoverinfo="skip", showlegend=False, **axes,
        )  # fmt: skip
    named = _named_places(one)
    for sees, (colour, _, symbol) in zip((True, False), SERIES, strict=False):
        own = [place for place, subset in enumerate(one.subsets) if timed(subset) == sees]
        figure.add_scatter(
            x=[one.x[place] for place in own],
            y=[one.y[place] for place in own],
            text=[one.subsets[place] for place in own],
            mode="markers",
            marker={
                "symbol": symbol,
                "size": 8,
                "color": colour,
                "opacity": 0.75,
                "line": {"color": INK, "width": [1.2 if place in named else 0 for place in own]},
            },
            name=f"sees the target's time{TIME_MARK}" if sees else "does not see it",
            legendgroup=str(sees),
            showlegend=suffix == "" and bool(own),
            hovertemplate="%{text}<br>%{x:.4f}, %{y:.4f}<extra></extra>",
            **axes,
        )
    figure.add_scatter(
        x=[one.x[place] for place in named],
        y=[one.y[place] for place in named],
        text=[one.subsets[place] for place in named],
        mode="markers+text",
        marker=labels.MARKER,
        textposition=labels.sides(
            one.x,
            one.y,
            {place: one.subsets[place] for place in named},
            width=0.86 * (NARROWEST - 78),
            height=0.8 * PANEL_HEIGHT,
        ),
        textfont={"size": 11, "color": INK},
        hoverinfo="skip",
        showlegend=False,
        **axes,
    )


def _named_places(one: Pair) -> list[int]:
    """Return the places worth a name: all of a few, else the ends and the widest disagreements."""
    places = range(len(one.subsets))
    if len(one.subsets) <= _ALL_NAMED:
        return list(places)
    across, up = (stats.rankdata(values) for values in (one.x, one.y))
    apart = sorted(places, key=lambda place: -abs(across[place] - up[place]))[:2]
    ends = [int(np.argmax(one.x)), int(np.argmin(one.x)), int(np.argmax(one.y))]
    return list(dict.fromkeys([*ends, *apart]))


def protocol_figures(material: Material) -> list[NamedFigure]:
    """Return the agreement of protocols for each data set and problem.

    Raises:
        NotDrawn: fewer than two protocols, or three subsets, have test values.
    """
    others = tuple(name for name in PROBLEM_FACTORS if name != "protocol")
    columns = ["test_ndcg@10", "test_full_ndcg@10"]
    drawn = [
        _named("protocols", material, group, data, columns)
        for group in material.groups(("model", "heads", *others))
        if (data := protocols_data(group, factors=material.factors)) is not None
    ]
    if not drawn:
        raise NotDrawn("it takes test values under two protocols for at least three subsets")
    return drawn


def target_time_figures(material: Material) -> list[NamedFigure]:
    """Return actual against last target time for each data set.

    Raises:
        NotDrawn: the study does not sweep `target_time`, or one level has no result.
    """
    others = tuple(name for name in PROBLEM_FACTORS if name != "target_time")
    drawn = [
        _named("target-time", material, group, data, ["test_ndcg@10"])
        for group in material.groups(("model", "heads", *others))
        if (data := target_time_data(group, factors=material.factors)) is not None
    ]
    if not drawn:
        raise NotDrawn("it takes results at both target_time: actual and target_time: last")
    return drawn


def _named(
    kind: str, material: Material, group: Group, data: PairsData, columns: list[str]
) -> NamedFigure:
    rows, query = material.rows(group, *columns)
    held = (f"{name}-{level(value)}" for name, value in group.held)
    return NamedFigure(
        kind=kind,
        name=file_name(kind, group.dataset, *held),
        title=data.title,
        caption=data.notes,
        page=draw(data),
        area=area_of(data),
        rows=rows,
        query=query,
    )
