"""A study's figures: which there are, for its files and for its report alike."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from analysis import frames
from analysis.export import NamedFigure, export
from analysis.heatmap_drawing import heatmaps


def figures_of(results: pd.DataFrame, cells: pd.DataFrame) -> list[NamedFigure]:
    """Return all figures of a study, as its files and its report show them.

    Args:
        results: one row per trial of the study (the view `results`).
        cells: one row per declared cell.
    """
    return [
        *heatmaps(results, cells),
    ]


def study_figures(
    store: str,
    study: str,
    *,
    folder: Path,
    formats: Iterable[str],
    warn: Callable[[str], None],
) -> list[Path]:
    """Read a study's results and write its figures; return the files.

    Args:
        store: URL of the results database, opened read-only.
        study: name of the study.
        folder: where the files go; made if it is not there.
        formats: of `analysis.formats.FigureFormat`; HTML is always written.
        warn: told why a format is missing, where no browser draws it.

    Raises:
        RequestError: no such store or study, or the folder cannot be written.
    """
    engine = frames.open_reader(store)
    # Cells first: a trial that completes in between is still drawn as missing, never half.
    cells = frames.cells(engine, study)
    results = frames.results(engine, study)
    engine.dispose()
    return export(figures_of(results, cells), folder, formats=formats, warn=warn)
