"""Learning curves: validation NDCG@10 and training loss by epoch, with bands over seeds.

Each subset is shown at its best hyperparameter point by validation. A line ends where the first of
its seeds ended, since a mean over those that went on would jump. With many subsets a few are
named, and the others are grey.
"""

import hashlib
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from analysis.captions import candidates
from analysis.gallery.means import coverage, varied
from analysis.layout import Area, NamedFigure, bare, file_name, legend_below, new_drawing, write
from analysis.material import Material, NotDrawn
from analysis.style import PAPER, SERIES
from analysis.tables import PROBLEM_FACTORS, SELECTION, Group, level
from model.config import EMBEDDINGS
from study.space import label

KIND = "curves"
PANELS = (("ndcg@10", "validation NDCG@10"), ("loss", "training loss"))
_AREA = Area(height=470, left=58, below=182, spare=96)


class Curve(NamedTuple):
    """One subset and metric: values by epoch, from 1; mean, lowest and highest seed.

    Attributes:
        subset: label.
        point: the hyperparameter levels, as text; empty without a grid.
        n_seeds: seeds behind it.
        mean: shape (epochs,).
        low: the lowest seed, shape (epochs,).
        high: the highest seed, shape (epochs,).
        best_epoch: mean over seeds of the epoch chosen by validation.
    """

    subset: str
    point: str
    n_seeds: int
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    best_epoch: float


class CurvesData(NamedTuple):
    """What the figure of one group shows.

    Attributes:
        title: data set and held levels.
        curves: by metric, best subset by validation first.
        named: labels drawn in colour, best first.
        notes: the caption.
    """

    title: str
    curves: dict[str, tuple[Curve, ...]]
    named: tuple[str, ...]
    notes: tuple[str, ...]


def curves_data(group: Group, curves: pd.DataFrame, *, factors: Sequence[str]) -> CurvesData | None:
    """Return the curves of a group, or None where no complete trial has any.

    Args:
        group: measured cells.
        curves: `trial, epoch, metric, value`, a row a number.
        factors: those that the study sweeps.
    """
    cells = group.cells[group.cells["counted"]]
    grid = varied(cells, factors)
    keys = ["embeddings", *grid]
    if cells.empty:
        return None
    arms = cells.groupby(keys, dropna=False, sort=False).agg(
        validation=(SELECTION, "mean"), best_epoch=("best_epoch", "mean"), trials=("trial", tuple)
    )
    best = arms.reset_index().sort_values("validation", ascending=False, kind="stable")
    best = best.drop_duplicates("embeddings")
    chosen = {trial: row for row, trials in enumerate(best["trials"]) for trial in trials}
    kept = curves[curves["trial"].map(chosen.__contains__)]
    if kept.empty:
        return None
    row_of = kept["trial"].map(chosen)
    points = [
        ", ".join(
            f"{name.replace('_', ' ')} {level(value)}"
            for name, value in zip(grid, values, strict=True)
        )
        for values in best[grid].itertuples(index=False)
    ]
    drawn: dict[str, tuple[Curve, ...]] = {}
    for metric, _ in PANELS:
        of_metric = kept[kept["metric"] == metric]
        rows = dict(iter(of_metric.groupby(row_of, sort=True)))
        drawn[metric] = tuple(
            _curve(
                rows[row],
                subset=str(best["embeddings"].iloc[row]),
                point=points[row],
                best_epoch=float(best["best_epoch"].iloc[row]),
            )
            for row in range(len(best))
            if row in rows
        )
    order = [curve.subset for curve in drawn[PANELS[0][0]] or drawn[PANELS[1][0]]]
    seeds = sorted({curve.n_seeds for curves in drawn.values() for curve in curves})
    band = (
        f"Lines are means over {seeds[-1]} seeds, bands reach from the lowest to the highest seed "
        "(no confidence interval); a line ends where its first seed ended."
        if seeds[-1] > 1
        else "One seed: no band, and nothing is known of the spread between seeds."
    )
    where = (
        "Each subset at the hyperparameter point that is best for it by validation (mode: tuned)."
        if grid
        else "Every subset at the same hyperparameters (mode: same)."
    )
    return CurvesData(
        title=group.title,
        curves=drawn,
        named=_named(order),
        notes=(
            coverage(group.cells, int(group.cells["counted"].sum())),
            f"Above: validation NDCG@10, {candidates('popular-100', group.cells)}; the same users "
            "choose the epoch. Below: training loss.",
            where,
            band,
            "The marker is the mean over seeds of the best epoch by validation; test is read at "
            "each seed's own.",
            *(("Grey: the other subsets.",) if len(order) > len(_named(order)) else ()),
        ),
    )


def _curve(rows: pd.DataFrame, *, subset: str, point: str, best_epoch: float) -> Curve:
    table = rows.pivot(index="epoch", columns="trial", values="value").dropna()
    values = table.to_numpy(dtype=np.float64)
    return Curve(
        subset=subset,
        point=point,
        n_seeds=values.shape[1],
        mean=values.mean(axis=1),
        low=values.min(axis=1),
        high=values.max(axis=1),
        best_epoch=best_epoch,
    )


def _named(order: list[str]) -> tuple[str, ...]:
    """Choose at most as many subsets as there are line styles: best, `none`, all six, singles."""
    if len(order) <= len(SERIES):
        return tuple(order)
    singles = [subset for subset in order if "+" not in subset and subset != "none"]
    wanted = [order[0], label(EMBEDDINGS), "none", *singles[:2], order[-1], *order]
    kept = list(dict.fromkeys(subset for subset in wanted if subset in order))[: len(SERIES)]
    return tuple(subset for subset in order if subset in kept)


def draw(data: CurvesData) -> go.Figure:
    """Draw validation above, training loss below."""
    figure = new_drawing()
    gap = 44 / _AREA.height
    last = max(len(curve.mean) for curves in data.curves.values() for curve in curves)
    domains = ([0.42 + gap, 1.0], [0.0, 0.42])
    for place, ((metric, title), domain) in enumerate(zip(PANELS, domains, strict=True)):
        suffix = "" if place == 0 else "2"
        curves = data.curves[metric]
        others = [curve for curve in curves if curve.subset not in data.named]
        _grey(figure, others, suffix)
        for curve in curves:
            if curve.subset in data.named:
                _coloured(figure, curve, SERIES[data.named.index(curve.subset)], suffix)
        figure.update_layout(
            {
                f"yaxis{suffix}": {"domain": domain, "showgrid": True, "anchor": f"x{suffix}"},
                f"xaxis{suffix}": {"anchor": f"y{suffix}", "range": [0.5, last + 0.5]},
            }
        )
        write(figure, title, x=0, y=domain[1], down=-10, right=-44)
    figure.update_xaxes(title_text="epoch", selector={"anchor": "y2"})
    legend_below(figure, _AREA, down=46)
    return bare(figure, _AREA)


def _grey(figure: go.Figure, curves: list[Curve], suffix: str) -> None:
    """Draw all unnamed subsets as one trace, broken between them."""
    if not curves:
        return
    x = np.concatenate([[*range(1, len(c.mean) + 1), np.nan] for c in curves])
    y = np.concatenate([[*c.mean, np.nan] for c in curves])
    names = itertools.chain.from_iterable([c.subset] * (len(c.mean) + 1) for c in curves)
    figure.add_scatter(
        x=x.astype(np.float32),
        y=y.astype(np.float32),
        text=list(names),
        mode="lines",
        line={"color": "#c9ced4", "width": 1},
        xaxis=f"x{suffix}",
        yaxis=f"y{suffix}",
        showlegend=False,
        hovertemplate="%{text}<br>epoch %{x}: %{y:.4f}<extra></extra>",
    )


def _coloured(figure: go.Figure, curve: Curve, series: tuple[str, str, str], suffix: str) -> None:
    colour, dash, marker = series
    epochs = np.arange(1, len(curve.mean) + 1)
    axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}", "legendgroup": curve.subset}
    if curve.n_seeds > 1:
        figure.add_scatter(
            x=np.concatenate([epochs, epochs[::-1]]).astype(np.float32),
            y=np.concatenate([curve.high, curve.low[::-1]]).astype(np.float32),
            mode="lines",
            line={"width": 0},
            fill="toself",
            fillcolor=colour,
            opacity=0.16,
            hoverinfo="skip",
            showlegend=False,
            **axes,
        )
    about = f", {curve.point}" if curve.point else ""
    figure.add_scatter(
        x=epochs.astype(np.float32),
        y=curve.mean.astype(np.float32),
        mode="lines",
        name=curve.subset,
        line={"color": colour, "dash": dash, "width": 2},
        showlegend=suffix == "",
        hovertemplate=f"{curve.subset}{about}<br>epoch %{{x}}: %{{y:.4f}}<extra></extra>",
        **axes,
    )
    at = round(curve.best_epoch)
    if 1 <= at <= len(curve.mean):
        figure.add_scatter(
            x=[at],
            y=[float(curve.mean[at - 1])],
            mode="markers",
            marker={
                "symbol": marker,
                "size": 8,
                "color": colour,
                "line": {"color": PAPER, "width": 1},
            },
            hoverinfo="skip",
            showlegend=False,
            **axes,
        )


def _digests(group: Group, curves: pd.DataFrame) -> "pd.Series[str]":
    """Return a hash of each trial's epochs, so that a figure's rows stay one a cell."""
    own = curves[curves["trial"].isin(group.cells["trial"])]
    digests = {
        trial: hashlib.sha256(
            part["epoch"].to_numpy(np.int64).tobytes()
            + part["value"].to_numpy(np.float64).tobytes()
            + " ".join(part["metric"]).encode()
        ).hexdigest()[:16]
        for trial, part in own.groupby("trial", sort=False)
    }
    return group.cells["trial"].map(digests)


def figures(material: Material) -> list[NamedFigure]:
    """Return a figure for each data set and problem.

    Raises:
        NotDrawn: no complete trial has an epoch in the store.
    """
    drawn = []
    for group in material.groups(("model", "heads", *PROBLEM_FACTORS)):
        data = curves_data(group, material.curves, factors=material.factors)
        if data is None:
            continue
        rows, query = material.rows(group, SELECTION, "best_epoch")
        drawn.append(
            NamedFigure(
                kind=KIND,
                name=file_name(KIND, group.dataset, *(f"{k}-{v}" for k, v in group.held)),
                title=f"Learning curves on {data.title}",
                caption=data.notes,
                page=draw(data),
                area=_AREA,
                rows=rows.assign(epochs_sha256=_digests(group, material.curves)),
                query=f"{query}; epochs: SELECT * FROM epoch_metric WHERE trial IN (..)",
            )
        )
    if not drawn:
        raise NotDrawn("no complete trial has epochs in the store")
    return drawn
