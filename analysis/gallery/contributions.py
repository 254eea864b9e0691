"""What each embedding contributes: Shapley bars with relatives beside them, and interactions."""

import math
from functools import lru_cache
from typing import NamedTuple

import plotly.graph_objects as go

from analysis.captions import own_protocol
from analysis.colour import balanced_limits
from analysis.gallery.board import (
    LEVEL,
    METRIC,
    SIGNIFICANT,
    Board,
    boards,
    uncertainty,
    with_users,
)
from analysis.gallery.means import marked
from analysis.hatching import hatch
from analysis.layout import Area, NamedFigure, bare, file_name, legend_below, new_drawing, write
from analysis.material import Material, NotDrawn
from analysis.shapley import Attribution, Contribution, attribution, game
from analysis.style import INK, MUTED, PAPER, SERIES, TIME_MARK
from model.config import TIMED_EMBEDDINGS
from model.errors import RequestError

_BARS = Area(height=330, left=62, right=12, above=28, below=140, spare=52)
_PAIRS_AREA = Area(height=300, left=62, right=12, above=70, below=30)

_BESIDE = (
    ("main effect", "mean over all subsets (Banzhaf)"),
    ("leave one out", "left out of all six"),
    ("add one in", "alone, against none"),
)


NOT_IDENTIFIED = (
    "a Shapley value needs all 64 subsets, none included, at the same hyperparameters (heads: 6)"
)


class ContributionsData(NamedTuple):
    """The contributions of one board.

    Attributes:
        title: a line, for the bars.
        pairs_title: a line, for the interactions.
        protocol: under which candidates, by name.
        found: every kind for every embedding, and each pair's interaction.
        notes: the caption of the bars.
        pairs_notes: the caption of the interactions.
    """

    title: str
    pairs_title: str
    protocol: str
    found: Attribution
    notes: tuple[str, ...]
    pairs_notes: tuple[str, ...]


def contributions_data(of: Board) -> ContributionsData | None:
    """Return the contributions on a board, or None where no Shapley value is identified.

    Raises:
        RequestError: the subsets share no complete seed.
    """
    found = attribution(game(of.arms), level=LEVEL, pool=of.pool)
    if all(math.isnan(one.value) for one in found.of("shapley")):
        return None
    title = of.group.title
    total = (
        f"Shapley values add up to the gain of all six over none, {found.total:+.4f}."
        if not math.isnan(found.total)
        else ""
    )
    seeds = f"{len(found.seeds)} seed{'s' if len(found.seeds) > 1 else ''} and {found.users} users"
    missing = [one for one in found.contributions if one.missing]
    unknown = (
        f"Not identified for want of subsets: {len(missing)} of {len(found.contributions)} "
        "quantities.",
    ) if missing else ()  # fmt: skip
    return ContributionsData(
        title=f"What each embedding adds to test NDCG@10 on {title}",
        pairs_title=f"Which embeddings help or replace each other on {title}",
        protocol=own_protocol("popular-100", of.group.cells),
        found=found,
        notes=(
            *of.notes,
            f"Bars: Shapley value, the mean gain of a subset from adding the embedding, over all "
            f"orders of adding them, with {LEVEL:.0%} intervals, on {seeds} shared by all subsets. "
            f"Pale: does not see the target's time. {total}",
            "Markers beside a bar, without intervals: other answers to the same question.",
            *_verdict(found.of("shapley")),
            found.null_player,
            *unknown,
            *uncertainty(of, family=_claims(found.of("shapley"))),
            f"{TIME_MARK} sees the target's time, which is an input of the problem.",
        ),
        pairs_notes=(
            *of.notes,
            "Shapley interaction index in thousandths of NDCG@10: above zero two embeddings give "
            "more together than one by one, below zero one replaces the other. "
            f"{_marks(found.of('interaction'))}",
            *_beyond(found.of("interaction")),
            *unknown,
            *uncertainty(of, family=_claims(found.of("interaction")), drawn=False),
        ),
    )


def _marks(found: tuple[Contribution, ...]) -> str:
    if not _claims(found):
        return "No interaction is tested."
    told = sum(one.adjusted < SIGNIFICANT for one in found)
    return f"* Holm's p < {SIGNIFICANT} over the {_claims(found)} pairs drawn: {told} of them."


def _beyond(found: tuple[Contribution, ...]) -> tuple[str, ...]:
    span = balanced_limits([one.value for one in found])
    if not any(span.mark(one.value) for one in found):
        return ()
    return (f"▲▼ lie beyond the colours, which span ±{1000 * span.high:.1f}.",)


def _claims(found: tuple[Contribution, ...]) -> int:
    return sum(not math.isnan(one.adjusted) for one in found)


def _verdict(found: tuple[Contribution, ...]) -> tuple[str, ...]:
    """Name the embeddings whose contribution differs from zero."""
    if not _claims(found):
        return ()
    named = [one.members[0].capitalize() for one in found if one.adjusted < SIGNIFICANT]
    return (
        f"Different from zero (* Holm's p < {SIGNIFICANT} over {_claims(found)} embeddings): "
        f"{', '.join(named) or 'none'}.",
    )


@lru_cache(maxsize=1)
def identified(material: Material) -> tuple[tuple[Board, ContributionsData], ...]:
    """Return the boards whose Shapley values are identified, with them; once for all figures.

    Raises:
        NotDrawn: there is none.
    """
    found, reasons = [], {}
    for of in boards(material):
        try:
            data = contributions_data(of)
        except RequestError as error:
            reasons[of.group.title] = str(error)
            continue
        if data is not None:
            found.append((of, data))
        else:
            reasons[of.group.title] = NOT_IDENTIFIED
    if not found:
        told = [f"{title}: {why}" for title, why in reasons.items() if why != NOT_IDENTIFIED]
        raise NotDrawn("; ".join([NOT_IDENTIFIED, *told]))
    left_out = tuple(f"Not identified for {title}: {why}." for title, why in reasons.items())
    return tuple(
        (of, data._replace(notes=data.notes + left_out, pairs_notes=data.pairs_notes + left_out))
        for of, data in found
    )


def draw_bars(data: ContributionsData) -> go.Figure:
    """Draw a bar for each embedding, markers of the other kinds beside it."""
    figure = new_drawing()
    players = data.found.players
    values = data.found.of("shapley")
    ends = [_ends(one) for one in values]
    figure.add_bar(
        x=[place - 0.16 for place in range(len(players))],
        y=[None if math.isnan(one.value) else one.value for one in values],
        width=0.42,
        name="Shapley value",
        marker={
            "color": [
                "#7f9fce" if name in TIMED_EMBEDDINGS else "#c5d3e8" for name in players
            ],
            "line": {"color": SERIES[0][0], "width": 1},
        },
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [high - one.value for (_, high), one in zip(ends, values, strict=True)],
            "arrayminus": [one.value - low for (low, _), one in zip(ends, values, strict=True)],
            "color": INK,
            "thickness": 1.4,
            "width": 5,
        },
        hovertext=[_hover(one) for one in values],
        hovertemplate="%{hovertext}<extra></extra>",
    )  # fmt: skip
    for step, ((kind, name), (colour, _, symbol)) in enumerate(
        zip(_BESIDE, SERIES[1:], strict=False)
    ):
        found = data.found.of(kind)  # type: ignore[arg-type]
        figure.add_scatter(
            x=[place + 0.16 + 0.13 * step for place in range(len(players))],
            y=[None if math.isnan(one.value) else one.value for one in found],
            mode="markers",
            name=name,
            marker={
                "symbol": symbol,
                "size": 8,
                "color": colour,
                "line": {"color": PAPER, "width": 1},
            },
            hovertext=[_hover(one) for one in found],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    figure.add_shape(
        type="line", xref="paper", x0=0, x1=1, y0=0, y1=0, line={"color": MUTED, "width": 1}
    )
    figure.update_layout(
        xaxis={
            "tickvals": list(range(len(players))),
            "ticktext": [
                marked(one.members[0])
                + ("<br>control" if one.members == ("con",) else "")
                + ("<br>*" if one.adjusted < SIGNIFICANT else "")
                for one in values
            ],
            "range": [-0.6, len(players) - 0.4],
            "ticks": "",
        },
        yaxis={"showgrid": True},
    )
    write(figure, f"gain in test NDCG@10, {data.protocol}", x=0, y=1, down=-12, right=-48)
    legend_below(figure, _BARS, down=52)
    return bare(figure, _BARS)


def _ends(one: Contribution) -> tuple[float, float]:
    if one.comparison is None:
        return one.value, one.value
    return one.comparison.interval.low, one.comparison.interval.high


def _hover(one: Contribution) -> str:
    lines = [f"<b>{' and '.join(name.capitalize() for name in one.members)}</b>, {one.kind}"]
    if one.comparison is not None:
        low, high = _ends(one)
        lines.append(f"{one.value:+.4f} [{low:+.4f}, {high:+.4f}]")
        if not math.isnan(one.adjusted):
            lines.append(f"Holm's p {one.adjusted:.3g}")
    if one.reason:
        lines.append(one.reason)
    return "<br>".join(lines)


def draw_pairs(data: ContributionsData) -> go.Figure:
    """Draw the interactions below the diagonal."""
    figure = new_drawing()
    players = data.found.players
    n = len(players)
    by_pair = {one.members: one for one in data.found.of("interaction")}
    found = [
        [by_pair.get((players[column], players[row])) for column in range(n - 1)]
        for row in range(1, n)
    ]
    values = [[math.nan if one is None else one.value for one in row] for row in found]
    span = balanced_limits([value for row in values for value in row])
    ticks = [span.low + (span.high - span.low) * step / 4 for step in range(5)]
    figure.add_heatmap(
        z=[[None if math.isnan(value) else value for value in row] for row in values],
        hovertext=[["" if one is None else _hover(one) for one in row] for row in found],
        hovertemplate="%{hovertext}<extra></extra>",
        hoverongaps=False,
        colorscale=span.plotly,
        zmin=span.low,
        zmax=span.high,
        xgap=2,
        ygap=2,
        colorbar={
            "orientation": "h", "y": 1, "yanchor": "bottom", "ypad": 8, "x": 0.5, "len": 1.0,
            "thickness": 10, "tickvals": ticks, "outlinewidth": 0,
            "ticktext": [f"{1000 * tick:+.1f}" if tick else "0" for tick in ticks],
            "title": {"text": "interaction, thousandths of test NDCG@10", "side": "top",
                      "font": {"size": 12}},
        },
    )  # fmt: skip
    hatch(
        figure,
        [
            ["unmeasured" if one is not None and math.isnan(one.value) else "" for one in row]
            for row in found
        ],
        {},
    )
    shown = [
        (column, row, one)
        for row, line in enumerate(found)
        for column, one in enumerate(line)
        if one is not None and not math.isnan(one.value)
    ]
    figure.add_scatter(
        x=[column for column, _, _ in shown],
        y=[row for _, row, _ in shown],
        mode="text",
        text=[
            f"{span.mark(one.value)}{1000 * one.value:+.1f}"
            f"{'*' if one.adjusted < SIGNIFICANT else ''}"
            for _, _, one in shown
        ],
        textfont={"color": span.inks([one.value for _, _, one in shown])},
        hoverinfo="skip",
        showlegend=False,
    )
    axis = {"ticks": "", "showline": False}
    figure.update_layout(
        xaxis={
            **axis,
            "tickvals": list(range(n - 1)),
            "ticktext": [marked(name) for name in players[:-1]],
            "range": [-0.5, n - 1.5],
        },
        yaxis={
            **axis,
            "tickvals": list(range(n - 1)),
            "ticktext": [marked(name) for name in players[1:]],
            "range": [n - 1.5, -0.5],
        },
    )
    return bare(figure, _PAIRS_AREA)


def bar_figures(material: Material) -> list[NamedFigure]:
    """Return the bars of each data set and problem.

    Raises:
        NotDrawn: no Shapley value is identified.
    """
    return _figures(material, "contributions")


def pair_figures(material: Material) -> list[NamedFigure]:
    """Return the interactions of each data set and problem.

    Raises:
        NotDrawn: no interaction is identified.
    """
    return _figures(material, "interactions")


def _figures(material: Material, kind: str) -> list[NamedFigure]:
    drawn = []
    for of, data in identified(material):
        bars = kind == "contributions"
        rows, query = material.rows(of.group, METRIC)
        drawn.append(
            NamedFigure(
                kind=kind,
                name=file_name(kind, of.group.dataset, *(f"{k}-{v}" for k, v in of.group.held)),
                title=data.title if bars else data.pairs_title,
                caption=data.notes if bars else data.pairs_notes,
                page=draw_bars(data) if bars else draw_pairs(data),
                area=_BARS if bars else _PAIRS_AREA,
                rows=with_users(rows, material),
                query=query,
            )
        )
    return drawn
