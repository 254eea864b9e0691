"""The subset heatmap as differences from a reference subset, with marks of significance."""

import math
from typing import NamedTuple

import plotly.graph_objects as go

from analysis.colour import balanced_limits
from analysis.families import against
from analysis.gallery.board import (
    LEVEL,
    METRIC,
    SIGNIFICANT,
    Board,
    boards,
    uncertainty,
    with_users,
)
from analysis.gallery.subsets import COLUMNS, ROWS
from analysis.gallery.subsets_drawing import area_of, label_axes, outline_untimed
from analysis.hatching import hatch
from analysis.layout import NamedFigure, bare, file_name, legend_below, new_drawing
from analysis.material import Material
from analysis.style import HATCHES, TIME_MARK
from study.space import label

KIND = "differences"


class Difference(NamedTuple):
    """One subset against the reference.

    Attributes:
        subset: label.
        value: mean difference, 0 for the reference itself, NaN without a value.
        low: lower end of its interval.
        high: upper end.
        adjusted: Holm's p; NaN without a claim.
        reason: why there is no value or no claim.
        state: why there is no value, a key of `style.HATCHES`; empty where there is one.
    """

    subset: str
    value: float
    low: float
    high: float
    adjusted: float
    reason: str
    state: str = ""

    @property
    def significant(self) -> bool:
        """Whether Holm's p is below the figure's error rate."""
        return self.adjusted < SIGNIFICANT


class DifferencesData(NamedTuple):
    """All 64 places of one board.

    Attributes:
        title: a line.
        reference: label of the subset that the others are compared with.
        cells: 8 x 8, `ROWS` by `COLUMNS`.
        family: comparisons that Holm adjusts for.
        notes: the caption.
    """

    title: str
    reference: str
    cells: tuple[tuple[Difference, ...], ...]
    family: int
    notes: tuple[str, ...]


def differences_data(of: Board) -> DifferencesData:
    """Compare each subset of a board with its reference."""
    reference = of.reference
    family = against(reference, of.arms, level=LEVEL, pool=of.pool)
    found = {reference.subset: Difference(reference.subset, 0.0, 0.0, 0.0, math.nan, "reference")}
    for pair in family.pairs:
        if pair.comparison is None:
            found[pair.first] = _without(pair.first, "unmeasured", pair.reason)
            continue
        low, high, *_ = pair.comparison.interval
        found[pair.first] = Difference(
            pair.first, pair.comparison.mean, low, high, pair.adjusted, pair.reason
        )
    states = {
        str(subset): min((str(one) for one in outcomes), key=_ORDER.index)
        for subset, outcomes in of.group.cells.groupby("embeddings")["outcome"].unique().items()
    }
    cells = tuple(
        tuple(
            found.get(name) or _without(name, states.get(name, "undeclared"))
            for relative in COLUMNS
            for name in [label((*row, *relative))]
        )
        for row in ROWS
    )
    marked = sum(cell.significant for row in cells for cell in row)
    claim = (
        f"* Holm's p < {SIGNIFICANT} over the {family.size} comparisons drawn: {marked} of them."
        if family.size
        else "No difference is tested."
    )
    span = balanced_limits([cell.value for row in cells for cell in row])
    beyond = any(span.mark(cell.value) for row in cells for cell in row)
    return DifferencesData(
        title=f"Test NDCG@10 against {reference.subset} on {of.group.title}",
        reference=reference.subset,
        cells=cells,
        family=family.size,
        notes=(
            *of.notes,
            f"Mean of the paired differences from {reference.subset}, in thousandths of NDCG@10. "
            f"{claim}",
            *uncertainty(of, family=family.size, drawn=False),
            *((f"▲▼ lie beyond the colours, which span ±{1000 * span.high:.0f}.",)
              if beyond else ()),
            f"{TIME_MARK} sees the target's time; the outlined subsets do not.",
        ),
    )  # fmt: skip


_ORDER = ("failed", "running", "pending", "censored", "infeasible", "complete")
"""Outcomes of cells, the most pressing first; all-complete subsets lack a shared point."""


def _without(subset: str, state: str, reason: str = "") -> Difference:
    state = "unmeasured" if state == "complete" else state
    why = reason or HATCHES[state].label
    return Difference(subset, math.nan, math.nan, math.nan, math.nan, why, state)


def draw(data: DifferencesData) -> go.Figure:
    """Draw differences in thousandths, white at none, marks after what is significant."""
    figure = new_drawing()
    flat = [(j, i, cell) for i, row in enumerate(data.cells) for j, cell in enumerate(row)]
    span = balanced_limits([cell.value for _, _, cell in flat])
    ticks = [span.low + (span.high - span.low) * step / 4 for step in range(5)]
    figure.add_heatmap(
        z=[[None if math.isnan(cell.value) else cell.value for cell in row] for row in data.cells],
        hovertext=[[_hover(cell, data.reference) for cell in row] for row in data.cells],
        hovertemplate="%{hovertext}<extra></extra>",
        colorscale=span.plotly,
        zmin=span.low,
        zmax=span.high,
        xgap=2,
        ygap=2,
        colorbar={
            "orientation": "h", "y": 1.01, "yanchor": "bottom", "x": 0.5, "len": 1.0,
            "thickness": 10, "tickvals": ticks, "outlinewidth": 0,
            "ticktext": [f"{1000 * tick:+.0f}" if tick else "0" for tick in ticks],
            "title": {"text": f"test NDCG@10 minus that of {data.reference}, thousandths",
                      "side": "top",
                      "font": {"size": 12}},
        },
    )  # fmt: skip
    hatch(figure, [[cell.state for cell in row] for row in data.cells], {}, legend=True)
    shown = [(j, i, cell) for j, i, cell in flat if not math.isnan(cell.value)]
    figure.add_scatter(
        x=[j for j, _, _ in shown],
        y=[i for _, i, _ in shown],
        mode="text",
        text=[_text(cell, data.reference, span.mark(cell.value)) for _, _, cell in shown],
        textfont={"size": 11, "color": span.inks([cell.value for _, _, cell in shown])},
        showlegend=False,
        hoverinfo="skip",
    )
    outline_untimed(figure)
    label_axes(figure)
    area = area_of([[cell.state for cell in row] for row in data.cells])
    legend_below(figure, area, down=88)
    return bare(figure, area)


def _text(cell: Difference, reference: str, beyond: str) -> str:
    if cell.subset == reference:
        return "ref."
    star = "*" if cell.significant else ""
    under = f"<br>{beyond}" if beyond else ""
    return f"{1000 * cell.value:+.0f}{star}{under}"


def _hover(cell: Difference, reference: str) -> str:
    lines = [f"<b>{cell.subset}</b>"]
    if cell.subset == reference:
        return f"{lines[0]}<br>the reference"
    if not math.isnan(cell.value):
        lines.append(f"{cell.value:+.4f} [{cell.low:+.4f}, {cell.high:+.4f}] against {reference}")
        lines.append(
            "no claim: one seed" if math.isnan(cell.adjusted) else f"Holm's p {cell.adjusted:.3g}"
        )
    else:
        lines.append(cell.reason)
    return "<br>".join(lines)


def figures(material: Material) -> list[NamedFigure]:
    """Return a figure for each data set and problem."""
    drawn = []
    for of in boards(material):
        data = differences_data(of)
        rows, query = material.rows(of.group, METRIC)
        drawn.append(
            NamedFigure(
                kind=KIND,
                name=file_name(KIND, of.group.dataset, *(f"{k}-{v}" for k, v in of.group.held)),
                title=data.title,
                caption=data.notes,
                page=draw(data),
                area=area_of([[cell.state for cell in row] for row in data.cells]),
                rows=with_users(rows, material),
                query=query,
            )
        )
    return drawn
