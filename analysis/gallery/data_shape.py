"""What a study's data are like: how long histories are, when events happened, how far apart.

Counted from the prepared data, where they are on this machine: a store keeps their fingerprint.
"""

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from analysis.layout import Area, NamedFigure, bare, file_name, new_drawing, write
from analysis.material import Material, NotDrawn
from analysis.style import INK, SERIES
from model.data.describe import Description, Histogram
from model.errors import RequestError

KIND = "data"
_AREA = Area(height=190, left=52, right=12, above=28, below=62)
_BETWEEN = 0.08

_DURATIONS = {
    1: "1 s",
    10: "10 s",
    100: "2 min",
    1_000: "17 min",
    10_000: "3 h",
    100_000: "28 h",
    1_000_000: "12 d",
    10_000_000: "4 mo",
    100_000_000: "3 y",
    1_000_000_000: "32 y",
}
"""Powers of ten of a second, as people say them."""


def notes(found: Description) -> tuple[str, ...]:
    """Return the caption: sizes, and what the times can tell a model."""
    gaps = int(found.gaps.counts.sum()) + found.zero_gaps
    return (
        f"{found.users:,} users, {found.items:,} items, {found.interactions:,} events after "
        f"filtering ({found.fingerprint[:16]}), the held-out ones included; "
        f"{found.mean_length:.1f} events a user.",
        f"Events lie in {len(found.activity.counts)} equal stretches of time. Gaps are between a "
        f"user's consecutive events; {found.zero_gaps / max(gaps, 1):.1%} of {gaps:,} are 0, the "
        f"first bar. {found.equal_times:.1%} of events share their time with another of the user.",
        f"{found.targets_at_last_time:.1%} of test targets carry the time of the event before, "
        f"{found.unseen_test_days:.1%} lie on a day that no training event has.",
    )


def draw(found: Description) -> go.Figure:
    """Draw three histograms side by side."""
    figure = new_drawing()
    width = (1 - 2 * _BETWEEN) / 3
    lengths = [(f"{low:.0f}–{high - 1:.0f}", count) for low, high, count in _bins(found.lengths)]
    gaps = [("0", found.zero_gaps)]
    gaps += [
        (_DURATIONS.get(round(low), f"{low:.0e} s"), count) for low, _, count in _bins(found.gaps)
    ]
    days = pd.to_datetime(found.activity.edges, unit="s", utc=True)
    _bars(figure, "users, by events", lengths, place=0, width=width)
    _bars(figure, "gaps, from", gaps, place=2, width=width)
    figure.add_scatter(
        x=[*days.strftime("%Y-%m-%d %H:%M")],
        y=[*found.activity.counts, found.activity.counts[-1]],
        mode="lines",
        line={"shape": "hv", "color": SERIES[0][0], "width": 1.5},
        fill="tozeroy",
        fillcolor="rgba(31,78,156,0.25)",
        hovertemplate="from %{x}: %{y:,} events<extra></extra>",
        showlegend=False,
        xaxis="x2",
        yaxis="y2",
    )
    start = width + _BETWEEN
    figure.update_layout(
        xaxis2={
            "domain": [start, start + width], "anchor": "y2", "type": "date", "nticks": 4,
            "tickfont": {"size": 10}, "tickangle": -45,
        },
        yaxis2={
            "domain": [0, 1], "anchor": "x2", "rangemode": "tozero", "tickformat": "~s",
            "nticks": 5, "tickfont": {"size": 10}, "showgrid": True,
        },
    )  # fmt: skip
    write(figure, "events, by time", x=start, y=1, down=-14, color=INK, size=11)
    return bare(figure, _AREA)


def _bins(histogram: Histogram) -> list[tuple[float, float, int]]:
    """Return from, to and count of each bin."""
    edges = histogram.edges.tolist()
    return list(zip(edges[:-1], edges[1:], histogram.counts.tolist(), strict=True))


def _bars(
    figure: go.Figure, title: str, bars: Sequence[tuple[str, int]], *, place: int, width: float
) -> None:
    suffix = "" if place == 0 else str(place + 1)
    start = place * (width + _BETWEEN)
    figure.add_bar(
        x=[name for name, _ in bars],
        y=[count for _, count in bars],
        width=0.86,
        marker={"color": SERIES[0][0]},
        hovertemplate="%{x}: %{y:,}<extra></extra>",
        showlegend=False,
        xaxis=f"x{suffix}",
        yaxis=f"y{suffix}",
    )
    figure.update_layout(
        {
            f"xaxis{suffix}": {
                "domain": [start, start + width], "anchor": f"y{suffix}", "type": "category",
                "tickangle": -45, "tickfont": {"size": 10}, "ticks": "",
            },
            f"yaxis{suffix}": {
                "domain": [0, 1], "anchor": f"x{suffix}", "tickformat": "~s", "nticks": 5,
                "tickfont": {"size": 10}, "showgrid": True,
            },
        }
    )  # fmt: skip
    write(figure, title, x=start, y=1, down=-14, color=INK, size=11)


def _rows(found: Description) -> pd.DataFrame:
    """Return every bar as `histogram, low, high, count`."""
    parts = {"events of a user": found.lengths, "time": found.activity, "gap": found.gaps}
    made = [
        (name, low, high, count)
        for name, histogram in parts.items()
        for low, high, count in _bins(histogram)
    ]
    made.append(("gap", 0.0, 0.0, found.zero_gaps))
    rows = pd.DataFrame(made, columns=["histogram", "low", "high", "count"])
    return rows.assign(fingerprint=found.fingerprint)


def figures(material: Material) -> list[NamedFigure]:
    """Return a figure for each data set that results were computed on.

    Raises:
        NotDrawn: none of them is on this machine.
    """
    drawn, reasons = [], []
    used = material.results[["dataset", "fingerprint"]].dropna().drop_duplicates()
    for name, fingerprint in sorted(used.itertuples(index=False)):
        try:
            found = material.description(str(fingerprint))
        except RequestError as error:
            reasons.append(str(error))
            continue
        drawn.append(
            NamedFigure(
                kind=KIND,
                name=file_name(KIND, str(name)),
                title=f"The data of {name}: lengths, times, gaps",
                caption=notes(found),
                page=draw(found),
                area=_AREA,
                rows=_rows(found),
                query=(
                    f"SELECT preparation FROM dataset WHERE fingerprint = '{fingerprint}'; "
                    "counted from the prepared data"
                ),
            )
        )
    if not drawn:
        raise NotDrawn("; ".join(dict.fromkeys(reasons)) or "no result yet names its data")
    return drawn
