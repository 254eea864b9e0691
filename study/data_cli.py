"""The commands `meantime data ..`: fetch, import and list data sets."""

import os
from pathlib import Path
from typing import Annotated

import typer

from study.terminal import err, out

data_app = typer.Typer(help="Data sets: download, import, list.", no_args_is_help=True)


@data_app.command("list")
def data_list_command() -> None:
    """List the data sets that can be fetched, and which are here."""
    from rich.table import Table  # noqa: PLC0415

    from model.data.catalogue import CATALOGUE  # noqa: PLC0415
    from model.data.sources import data_folder, stored  # noqa: PLC0415

    folder = data_folder(os.environ)
    here = set(stored(folder))
    table = Table("data set", "here", "what it is", box=None)
    for name in sorted({*CATALOGUE, *here}):
        known = CATALOGUE.get(name)
        table.add_row(name, "yes" if name in here else "no", known.title if known else "imported")
    out().print(table)
    out().print(f"folder: {folder}", markup=False)


@data_app.command("fetch")
def data_fetch_command(
    name: Annotated[str, typer.Argument(help="A data set of the catalogue.")],
) -> None:
    """Download a data set, check it, and keep it where trials find it."""
    from model.data.sources import data_folder, fetch  # noqa: PLC0415

    console = err()

    def report(line: str) -> None:
        console.print(line, markup=False)

    path = fetch(name, folder=data_folder(os.environ), report=report)
    out().print(f"{name} is in {path}", markup=False)


@data_app.command("import")
def data_import_command(
    path: Annotated[Path, typer.Argument(help="A local file.")],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="The data set's name.")],
    user: Annotated[str, typer.Option(help="Column of user ids.")] = "user",
    item: Annotated[str, typer.Option(help="Column of item ids.")] = "item",
    time: Annotated[str, typer.Option(help="Column of times, seconds UTC.")] = "timestamp",
    rating: Annotated[str | None, typer.Option(help="Column of ratings, if any.")] = None,
) -> None:
    """Read a local file as a data set: an official archive, or CSV and TSV with a header."""
    from model.data.formats import Columns  # noqa: PLC0415
    from model.data.sources import data_folder, import_file  # noqa: PLC0415

    columns = Columns(user=user, item=item, time=time, rating=rating)
    stored_at = import_file(path, name=name, folder=data_folder(os.environ), columns=columns)
    out().print(f"{name} is in {stored_at}", markup=False)
