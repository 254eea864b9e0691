"""The commands `meantime data ..`: fetch, import, list and describe data sets."""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from study.terminal import err, out

data_app = typer.Typer(help="Data sets: download, import, list, describe.", no_args_is_help=True)


@data_app.command("list")
def data_list_command() -> None:
    """List the data sets that can be fetched, and which are here."""
    from rich.table import Table  # noqa: PLC0415

    from model.data.array_cache import size  # noqa: PLC0415
    from model.data.catalogue import CATALOGUE  # noqa: PLC0415
    from model.data.sources import PREPARED, data_folder, stored  # noqa: PLC0415

    folder = data_folder(os.environ)
    here = set(stored(folder))
    table = Table("data set", "here", "what it is", box=None)
    for name in sorted({*CATALOGUE, *here}):
        known = CATALOGUE.get(name)
        table.add_row(name, "yes" if name in here else "no", known.title if known else "imported")
    out().print(table)
    out().print(f"folder: {folder}", markup=False)
    if kept := size(folder / PREPARED):
        out().print(
            f"prepared arrays: {kept / 1e6:,.1f} MB in {folder / PREPARED}, which can be deleted",
            markup=False,
        )


@data_app.command("fetch")
def data_fetch_command(
    name: Annotated[str, typer.Argument(help="A data set of the catalogue.")],
) -> None:
    """Download a data set, check it, and keep it where trials find it."""
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        TextColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as RichProgress  # noqa: PLC0415

    from model.data.sources import data_folder, fetch  # noqa: PLC0415

    console = err()

    def report(line: str) -> None:
        console.print(line, markup=False)

    with RichProgress(
        *(TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(name, total=None)
        path = fetch(
            name,
            folder=data_folder(os.environ),
            report=report,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    out().print(f"{name} is in {path}", markup=False)


class TimeUnit(StrEnum):
    """What a file's times are written in; `auto` looks at them."""

    auto = "auto"
    seconds = "seconds"
    milliseconds = "milliseconds"
    iso = "iso"


class Duplicates(StrEnum):
    """What becomes of rows that repeat a user, item and time."""

    keep = "keep"
    drop = "drop"
    refuse = "refuse"


@data_app.command("import")
def data_import_command(
    path: Annotated[Path, typer.Argument(help="A local file.")],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="The data set's name.")],
    user: Annotated[str | None, typer.Option(help="Column of user ids.")] = None,
    item: Annotated[str | None, typer.Option(help="Column of item ids.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of times.")] = None,
    rating: Annotated[str | None, typer.Option(help="Column of ratings, if any.")] = None,
    time_unit: Annotated[TimeUnit, typer.Option(help="What times are written in.")] = TimeUnit.auto,
    duplicates: Annotated[
        Duplicates, typer.Option(help="Rows that repeat a user, item and time.")
    ] = Duplicates.keep,
) -> None:
    """Read a local table as a data set: CSV, TSV, Parquet, JSON lines, MovieLens; also zip, gz.

    Columns are declared by name, or by number (from 1) where there is no header line; the usual
    names are found without. See docs/data.md.
    """
    from model.data.columns import Columns  # noqa: PLC0415
    from model.data.formats import Policy  # noqa: PLC0415
    from model.data.sources import data_folder, import_file  # noqa: PLC0415

    console = err()
    stored_at = import_file(
        path,
        name=name,
        folder=data_folder(os.environ),
        columns=Columns(user=user, item=item, time=time, rating=rating),
        policy=Policy(time_unit=time_unit.value, duplicates=duplicates.value),
        say=lambda line: console.print(line, markup=False),
    )
    out().print(f"{name} is in {stored_at}", markup=False)


class DescribeFormat(StrEnum):
    """How `data describe` prints."""

    table = "table"
    json = "json"


@data_app.command("describe")
def data_describe_command(
    name: Annotated[str, typer.Argument(help="A data set that is here, or a planted one.")],
    file: Annotated[
        Path,
        typer.Option("--file", "-f", help="Studies file whose preparation holds, if it is there."),
    ] = Path("studies.yaml"),
    output: Annotated[
        DescribeFormat, typer.Option("--format", help="How to print.")
    ] = DescribeFormat.table,
) -> None:
    """Prepare a data set and show its statistics, beside the published ones where known."""
    import json  # noqa: PLC0415

    from rich.table import Table  # noqa: PLC0415

    from model.config import DatasetConfig  # noqa: PLC0415
    from model.data.describe import describe  # noqa: PLC0415
    from model.data.description_rows import as_json, rows  # noqa: PLC0415
    from model.data.prepare import load_prepared  # noqa: PLC0415
    from model.data.sources import data_folder  # noqa: PLC0415
    from study.definition import load_studies  # noqa: PLC0415

    config = load_studies(file).datasets.get(name) if file.exists() else None
    config = config or DatasetConfig(name=name)
    found = describe(load_prepared(config, data_folder(os.environ)))
    if output is DescribeFormat.json:
        sys.stdout.write(json.dumps(as_json(found), indent=1) + "\n")
        return
    table = Table(name, "", "published", box=None)
    for row in rows(found):
        table.add_row(*row)
    out().print(table)
    out().print(f"preparation: {config.model_dump_json(exclude_none=True)}", markup=False)
    if found.small_catalogue:
        out().print(
            f"Some users have fewer than 100 items that they never had: they are ranked among "
            f"{found.fewest_negatives} negatives, all that there are."
        )
