"""A study's figures: which there are, each drawn for a page and for a file of its own."""

from collections.abc import Callable, Iterable
from pathlib import Path

from analysis import frames
from analysis.export import NamedFigure, export
from analysis.heatmap import HeatmapData, panels
from analysis.heatmap_drawing import draw


def named_figure(data: HeatmapData) -> NamedFigure:
    """Draw a panel of the subset heatmap both ways."""
    return NamedFigure(
        name=data.name,
        title=data.title,
        caption=(f"{data.coverage}.", *data.notes),
        page=draw(data, bare=True),
        whole=draw(data),
    )


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
        formats: `png`, `svg`, `pdf`, beside HTML.
        warn: told why a format is missing, where no browser draws it.

    Raises:
        RequestError: no such store or study, or the folder cannot be written.
    """
    engine = frames.open_reader(store)
    # Cells first: a trial that completes in between is still drawn as missing, never half.
    cells = frames.cells(engine, study)
    results = frames.results(engine, study)
    engine.dispose()
    drawn = [named_figure(data) for data in panels(results, cells)]
    return export(drawn, folder, formats=formats, warn=warn)
