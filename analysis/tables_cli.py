"""The command `meantime tables`: a study's tables for a paper, as text."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from analysis.formats import ModeChoice, SheetFormat
from study.cli import DEFAULT_STORE, StoreUrl, StudyName
from study.terminal import out


class SheetKind(StrEnum):
    """Which table `tables` prints."""

    main = "main"
    models = "models"
    hyperparameters = "hyperparameters"
    significance = "significance"
    matrix = "matrix"
    power = "power"
    opinions = "opinions"


class ProtocolChoice(StrEnum):
    """Which candidates compete with the target."""

    popular = "popular-100"
    full = "full"


def tables_command(
    study: StudyName,
    kind: Annotated[SheetKind, typer.Option("--kind", help="Which table.")] = SheetKind.main,
    output: Annotated[
        SheetFormat, typer.Option("--format", help="How to print.")
    ] = SheetFormat.markdown,
    power: Annotated[bool, typer.Option("--power", help="The same as --kind power.")] = False,
    metric: Annotated[
        str, typer.Option(help="Of the comparisons, e.g. recall@10 or mrr; always on test.")
    ] = "ndcg@10",
    protocol: Annotated[
        ProtocolChoice, typer.Option("--protocol", help="Candidates of the test metrics.")
    ] = ProtocolChoice.popular,
    mode: Annotated[
        ModeChoice, typer.Option("--mode", help="One point for all, each tuned, or grid means.")
    ] = ModeChoice.tuned,
    reference: Annotated[
        str | None, typer.Option(metavar="SUBSET", help="Compare each subset with this one.")
    ] = None,
    pool_seeds: Annotated[
        bool, typer.Option("--pool-seeds", help="One seeds' error for all arms (an assumption).")
    ] = False,
    path: Annotated[
        Path | None, typer.Option("--out", help="Write to this file instead of the terminal.")
    ] = None,
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Print a study's tables: the paper's, models, best hyperparameters, significance, power."""
    from analysis.printed import Comparing, study_sheets  # noqa: PLC0415
    from analysis.sheet import write_sheet  # noqa: PLC0415

    sheets = study_sheets(
        store,
        study,
        kind=(SheetKind.power if power else kind).value,
        comparing=Comparing(metric, protocol.value, mode.value, reference, pool_seeds),
    )
    text = "\n".join(write_sheet(sheet, output) for sheet in sheets)
    if path is None:
        sys.stdout.write(text)
        return
    from analysis.files import write_atomically  # noqa: PLC0415

    write_atomically(path, text.encode())
    out().print(str(path), markup=False)
