"""A study's figures: which there are, for its files and for its report alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.export import Exported, export
from analysis.formats import FigureSize
from analysis.gallery import (
    contributions,
    cost,
    curves,
    data_shape,
    differences,
    grid,
    orders,
    pairs,
    ranking,
    shares,
    subsets_drawing,
    time_unit,
    user_groups,
)
from analysis.layout import NamedFigure
from analysis.material import Material, NotDrawn, read_material
from analysis.modes import Mode
from analysis.stamp import Finding, compare, source
from model.errors import RequestError

KINDS: dict[str, Callable[[Material], list[NamedFigure]]] = {
    "subsets": subsets_drawing.figures,
    "differences": differences.figures,
    "ranking": ranking.figures,
    "contributions": contributions.bar_figures,
    "interactions": contributions.pair_figures,
    "user-groups": user_groups.figures,
    "curves": curves.figures,
    "importance": shares.figures,
    "grid": grid.figures,
    "cost": cost.figures,
    "protocols": pairs.protocol_figures,
    "target-time": pairs.target_time_figures,
    "time-unit": time_unit.figures,
    "orders": orders.figures,
    "data": data_shape.figures,
}
"""Every kind of figure, in the order of the report; docs/figures.md describes each."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A study's figures, and the kinds that its rows do not support.

    Attributes:
        figures: in the order of `KINDS`.
        not_drawn: kind -> what the study lacks.
    """

    figures: tuple[NamedFigure, ...]
    not_drawn: Mapping[str, str]


def draw_all(material: Material, only: Sequence[str] = ()) -> Drawn:
    """Draw what a study's rows support.

    Args:
        material: the study's rows.
        only: kinds to draw; all where it is empty.

    Raises:
        RequestError: an unknown kind, a kind asked for that the rows do not support, or results of
            several preparations of a data set.
    """
    unknown = [name for name in only if name not in KINDS]
    if unknown:
        raise RequestError(
            f"a figure is one of {', '.join(KINDS)}, got {', '.join(unknown)}; use these"
        )
    figures: list[NamedFigure] = []
    not_drawn: dict[str, str] = {}
    for kind, draw in KINDS.items():
        if only and kind not in only:
            continue
        try:
            figures += draw(material)
        except NotDrawn as reason:
            not_drawn[kind] = str(reason)
    if only and not_drawn:
        reasons = "; ".join(f"{kind}: {reason}" for kind, reason in not_drawn.items())
        raise RequestError(
            f"a figure needs rows that support it, {material.study} lacks them: {reasons}"
        )
    return Drawn(tuple(figures), not_drawn)


def study_figures(
    store: str,
    study: str,
    *,
    folder: Path,
    data_folder: Path,
    formats: Sequence[str] = (),
    only: Sequence[str] = (),
    size: FigureSize = FigureSize.whole,
    strict: bool = False,
    mode: Mode = "tuned",
    pool_seeds: bool = False,
) -> tuple[Exported, Mapping[str, str]]:
    """Read a study's results and write its figures; return the files and what was not drawn.

    Args:
        store: URL of the results database, opened read-only.
        study: name of the study.
        folder: where the files go; made if it is not there.
        data_folder: where data sets are stored, for what is known of their users.
        formats: of `analysis.formats.FigureFormat`; HTML is always written.
        only: kinds to draw; all that the rows support where it is empty.
        size: of static files.
        mode: how subsets are made comparable over the grid.
        pool_seeds: estimate the seeds' error over all arms of a figure, not each pair's own.
        strict: refuse to draw while a cell that could have a result has none.

    Raises:
        RequestError: no such store or study, the folder cannot be written, or a gap under `strict`.
    """
    material = read_material(
        store, study, data_folder=data_folder, mode=mode, pool_seeds=pool_seeds
    )
    if strict:
        _refuse_gaps(material)
    drawn = draw_all(material, only)
    exported = export(
        drawn.figures, folder, source=source(study, material.store), formats=formats, size=size
    )
    return exported, drawn.not_drawn


def check_figures(store: str, study: str, *, folder: Path, data_folder: Path) -> list[Finding]:
    """Say of each figure in a folder whether the store would draw the same one now.

    Raises:
        RequestError: no such store or study, or no figures of it in the folder.
    """
    material = read_material(store, study, data_folder=data_folder)
    return compare(folder, draw_all(material).figures, study)


def _refuse_gaps(material: Material) -> None:
    counts = material.cells["class"].value_counts()
    gaps = {name: int(counts[name]) for name in GAPS if name in counts}
    if gaps:
        told = ", ".join(f"{count} {name}" for name, count in gaps.items())
        raise RequestError(
            f"--strict draws a study without gaps, {material.study} has {told} of "
            f"{len(material.cells)} cells; launch it to the end, or draw without --strict"
        )


GAPS = ("running", "pending", "failed", "censored")
"""Classes of cells that could have a result and have none to compare."""
