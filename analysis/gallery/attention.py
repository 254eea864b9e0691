"""Where the heads of one trained trial look: by time, by events back, and in one history.

Each head has a panel, each block a row of them. All show weights of attention; what the network
makes of what it sees is not in them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.layout import Area, NamedFigure, bare, file_name, new_drawing, write
from analysis.style import INK, RULE, SEQUENTIAL, SERIES, TIME_MARK
from model.config import TIMED_EMBEDDINGS

if TYPE_CHECKING:
    from model.attention_maps import AttentionMaps, Shares

KIND = "attention"
ACROSS = 6
"""Most panels in a row; more heads go on below."""

_BAR, _SQUARE, _BETWEEN, _TITLE = 15, 104, 10, 22
_TOP_SHARE = 0.98
"""Quantile of weights at which the map's colours end."""


class About(NamedTuple):
    """The trial that the maps are of.

    Attributes:
        trial: its id.
        dataset: name of its data set.
        subset: label of its embeddings.
        best_epoch: whose weights they are.
        target_time: `actual` or `last`.
        sameness: a sentence: whether the weights are those behind the store's numbers.
        commit: that trained it; None if unknown.
    """

    trial: str
    dataset: str
    subset: str
    best_epoch: int
    target_time: str
    sameness: str
    commit: str | None


class _Panel(NamedTuple):
    """Where the panel of a head stands; `suffix` is that of its axes."""

    block: int
    head: int
    title: str
    suffix: str
    across: int
    x: tuple[float, float]
    y: tuple[float, float]


def figures(maps: "AttentionMaps", about: About) -> list[NamedFigure]:
    """Return the three figures of a trial."""
    target = (
        f"The position that asks is the {maps.split} target's: masked, at the target's "
        + ("actual time" if about.target_time == "actual" else "last known time")
        + f"; mean over {maps.n_users:,} users. "
        "Bars: share of its attention. Strokes: what equal weights would give."
    )
    common = (
        f"One trial of {about.subset} on {about.dataset} ({about.trial}), at its best epoch by "
        f"validation, {about.best_epoch}. {about.sameness}",
        f"One training shows what these heads do, not what heads in general do; {TIME_MARK} sees "
        "the target's time.",
    )
    length = len(maps.history.gaps)
    history = (
        f"User {maps.history.user}, {length - 1} events and the masked target (last row and column "
        "of each panel): rows ask, columns are asked, oldest first; each row sums to 1. In the "
        "last block only the last row is ever used. Colours end at the weight that 98% stay below.",
    )
    on = f"{about.subset} on {about.dataset}"
    return [
        _named(
            maps,
            about,
            "gaps",
            title=f"How far back in time each head of {on} looks",
            caption=(target, *common),
            drawn=_bars(maps, maps.by_gap, "time to the target"),
            rows=_share_rows(maps, maps.by_gap),
        ),
        _named(
            maps,
            about,
            "steps",
            title=f"How many events back each head of {on} looks",
            caption=(target, *common),
            drawn=_bars(maps, maps.by_step, "events to the target"),
            rows=_share_rows(maps, maps.by_step),
        ),
        _named(
            maps,
            about,
            "history",
            title=f"One history in the eyes of each head of {on}",
            caption=(*history, *common),
            drawn=_squares(maps),
            rows=_history_rows(maps),
        ),
    ]


def _named(
    maps: "AttentionMaps",
    about: About,
    part: str,
    *,
    title: str,
    caption: tuple[str, ...],
    drawn: tuple[go.Figure, Area],
    rows: pd.DataFrame,
) -> NamedFigure:
    figure, area = drawn
    return NamedFigure(
        kind=KIND,
        name=file_name(KIND, about.dataset, about.trial, part),
        title=title,
        caption=caption,
        page=figure,
        area=area,
        rows=rows.assign(commit=about.commit),
        query=(
            f"SELECT effective FROM trial WHERE id = '{about.trial}'; trained again, "
            f"weights of epoch {about.best_epoch}, inputs of {maps.split}"
        ),
    )


def head_title(owner: str) -> str:
    """Name a head by what it sees.

    >>> head_title("log"), head_title("content.0")
    ('Log†', 'content')
    """
    name = owner.partition(".")[0]
    if name == "content":
        return name
    return name.capitalize() + (TIME_MARK if name in TIMED_EMBEDDINGS else "")


def _panels(maps: "AttentionMaps", *, each: int, height: int) -> Iterator[_Panel]:
    """Place the panels in rows of at most `ACROSS`; `each` pixels high of `height` in all."""
    blocks, heads = maps.by_gap.attention.shape[:2]
    columns = min(heads, ACROSS)
    width = 1 / columns
    row = 0
    for block in range(blocks):
        for head, owner in enumerate(maps.heads):
            across = head % columns
            if head and not across:
                row += 1
            top = 1 - (row * (each + _TITLE + _BETWEEN) + _TITLE) / height
            number = block * heads + head
            yield _Panel(
                block,
                head,
                head_title(owner),
                "" if number == 0 else str(number + 1),
                across,
                (across * width, (across + 0.9) * width),
                (max(top - each / height, 0.0), top),
            )
        row += 1


def _height(maps: "AttentionMaps", each: int) -> int:
    blocks, heads = maps.by_gap.attention.shape[:2]
    rows = blocks * -(-heads // ACROSS)
    return int(rows) * (each + _TITLE + _BETWEEN) - _BETWEEN


def _bars(maps: "AttentionMaps", shares: "Shares", what: str) -> tuple[go.Figure, Area]:
    """Draw a panel of bars for each head, categories downwards."""
    each = _BAR * len(shares.names)
    area = Area(height=_height(maps, each), left=106, right=10, above=4, below=48)
    figure = new_drawing()
    places = list(range(len(shares.names)))
    most = max(float(shares.attention.max()), float(shares.uniform.max()))
    tick = max(t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if t <= most or t == 0.01)
    for panel in _panels(maps, each=each, height=area.height):
        axes = {"xaxis": f"x{panel.suffix}", "yaxis": f"y{panel.suffix}"}
        values = shares.attention[panel.block, panel.head]
        figure.add_bar(
            y=places,
            x=values,
            orientation="h",
            width=0.72,
            marker={"color": SERIES[0][0]},
            hovertext=[
                f"{name}: {value:.1%} of the attention, {even:.1%} if all weights were equal"
                for name, value, even in zip(shares.names, values, shares.uniform, strict=True)
            ],
            hovertemplate="%{hovertext}<extra></extra>",
            showlegend=False,
            **axes,
        )
        figure.add_scatter(
            y=places,
            x=shares.uniform,
            mode="markers",
            marker={
                "symbol": "line-ns",
                "size": 8,
                "line": {"color": SERIES[1][0], "width": 2.5},
            },
            hoverinfo="skip",
            showlegend=False,
            **axes,
        )
        figure.update_layout(
            {
                f"xaxis{panel.suffix}": {
                    "domain": list(panel.x),
                    "anchor": f"y{panel.suffix}",
                    "range": [0, most * 1.04],
                    "tickvals": [0, tick],
                    "ticktext": ["", f"{tick:.0%}"],
                    "tickfont": {"size": 10},
                    "showticklabels": panel.y[0] < 1e-6,
                },
                f"yaxis{panel.suffix}": {
                    "domain": list(panel.y),
                    "anchor": f"x{panel.suffix}",
                    "range": [len(places) - 0.5, -0.5],
                    "tickvals": places,
                    "ticktext": list(shares.names),
                    "showticklabels": panel.across == 0,
                    "ticks": "",
                    "tickfont": {"size": 11},
                },
            }
        )
        _title(figure, panel, left=area.left)
    write(
        figure, f"share of attention, by {what}", x=0.5, y=0, down=36, xanchor="center", color=INK
    )
    return bare(figure, area), area


def _squares(maps: "AttentionMaps") -> tuple[go.Figure, Area]:
    """Draw a square of weights for each head."""
    area = Area(height=_height(maps, _SQUARE), left=52, right=10, above=58, below=44)
    figure = new_drawing()
    weights = maps.history.weights
    length = weights.shape[-1]
    most = float(np.quantile(weights, _TOP_SHARE))
    steps = list(range(1 - length, 1))
    for panel in _panels(maps, each=_SQUARE, height=area.height):
        shown = weights[panel.block, panel.head]
        figure.add_heatmap(
            z=shown.astype(np.float32),
            x=steps,
            y=steps,
            colorscale=[[i / (len(SEQUENTIAL) - 1), c] for i, c in enumerate(SEQUENTIAL)],
            zmin=0,
            zmax=most,
            showscale=panel.suffix == "",
            colorbar={
                "orientation": "h", "x": 0.5, "y": 1, "yanchor": "bottom", "ypad": 6,
                "thickness": 10, "len": 0.6, "outlinewidth": 0, "nticks": 5,
                "title": {"text": "weight", "side": "top", "font": {"size": 11}},
            },
            hovertemplate="from %{y} to %{x}: %{z:.3f}<extra></extra>",
            xaxis=f"x{panel.suffix}",
            yaxis=f"y{panel.suffix}",
        )  # fmt: skip
        first, last = panel.across == 0, panel.head == len(maps.heads) - 1
        ends = {"tickvals": [steps[0], 0], "ticktext": [f"−{length - 1}", "0"], "linecolor": RULE}
        figure.update_layout(
            {
                f"xaxis{panel.suffix}": {
                    **ends,
                    "ticktext": [f"−{length - 1}", "0" if last else ""],
                    "domain": list(panel.x),
                    "anchor": f"y{panel.suffix}",
                    "showticklabels": panel.y[0] < 1e-6,
                },
                f"yaxis{panel.suffix}": {
                    **ends,
                    "domain": list(panel.y),
                    "anchor": f"x{panel.suffix}",
                    "range": [0.5, steps[0] - 0.5],
                    "showticklabels": first,
                },
            }
        )
        _title(figure, panel, left=area.left)
    write(
        figure, "event that is asked, counted back from the target", x=0.5, y=0, down=32,
        xanchor="center", color=INK,
    )  # fmt: skip
    return bare(figure, area), area


def _title(figure: go.Figure, panel: _Panel, *, left: int) -> None:
    """Name the head above its panel, and the block beside the first of its row."""
    write(figure, panel.title, x=panel.x[0], y=panel.y[1], down=-10, size=11, color=INK)
    if panel.across == 0:
        write(
            figure, f"block {panel.block + 1}", x=0, y=sum(panel.y) / 2, right=10 - left,
            xanchor="center", textangle=-90, size=11, color=INK,
        )  # fmt: skip


def _share_rows(maps: "AttentionMaps", shares: "Shares") -> pd.DataFrame:
    """Return the bars as `block, head, category, attention, uniform`."""
    return pd.DataFrame(
        [
            (block + 1, owner, name, value, even)
            for block, of_block in enumerate(shares.attention)
            for owner, of_head in zip(maps.heads, of_block, strict=True)
            for name, value, even in zip(shares.names, of_head, shares.uniform, strict=True)
        ],
        columns=["block", "head", "category", "attention", "uniform"],
    )


def _history_rows(maps: "AttentionMaps") -> pd.DataFrame:
    """Return the squares as `block, head, asks, asked, weight`, positions from the target."""
    weights = maps.history.weights
    blocks, heads, length = weights.shape[:3]
    block, head, asks, asked = np.indices(weights.shape).reshape(4, -1)
    assert (blocks, heads) == maps.by_gap.attention.shape[:2]
    return pd.DataFrame(
        {
            "block": block + 1,
            "head": np.array(maps.heads)[head],
            "asks": asks - length + 1,
            "asked": asked - length + 1,
            "weight": weights.ravel(),
        }
    )
