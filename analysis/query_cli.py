"""The command `meantime query`: rows of the results database, chosen, grouped and printed."""

import os
import shutil
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import typer

from analysis.formats import TableFormat
from model.errors import RequestError
from study import completion
from study.cli import DEFAULT_STORE, StoreUrl
from study.terminal import err, out

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy import Engine


class View(StrEnum):
    """What a query reads."""

    results = "results"
    curves = "curves"


def query_command(
    study: Annotated[
        str | None,
        typer.Option(help="Only its trials.", autocompletion=completion.studies),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="EXPR", help='e.g. "day and not con and hidden >= 32"')
    ] = None,
    group_by: Annotated[
        str | None,
        typer.Option(
            metavar="COL,COL",
            help="One row for each combination of values.",
            autocompletion=completion.names,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="TERM,TERM",
            help="Columns; with --group-by also n and mean, std, sem, min, max, n or best of a "
            "column, such as mean(test_ndcg@10). best: of the group's trial that is best on "
            "validation.",
            autocompletion=completion.terms,
        ),
    ] = None,
    pivot: Annotated[
        tuple[str, str, str] | None,
        typer.Option(
            metavar="ROW COL VALUE",
            help="A table of one aggregate, such as embeddings hidden mean(test_ndcg@10).",
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="TERM,TERM",
            help="Metrics: best first; -TERM reverses.",
            autocompletion=completion.terms,
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many rows.")] = None,
    source: Annotated[
        View, typer.Option("--from", help="results: a row a trial; curves: a row an epoch.")
    ] = View.results,
    sql: Annotated[
        str | None, typer.Option(metavar="SELECT", help="Any read-only SQL instead of the above.")
    ] = None,
    output: Annotated[
        TableFormat, typer.Option("--format", help="How to print; csv and json: every column.")
    ] = TableFormat.table,
    path: Annotated[
        Path | None, typer.Option("--out", help="Write to this file instead of the terminal.")
    ] = None,
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Filter, group, sort and print results: a row for each trial of each study, or for each group.

    Examples: docs/queries.md; columns: docs/database.md.
    """
    from analysis.coverage import (  # noqa: PLC0415
        coverage,
        left_behind,
        left_behind_note,
        stale_note,
    )
    from analysis.frames import open_reader  # noqa: PLC0415
    from analysis.rendering import render  # noqa: PLC0415
    from analysis.status import studies_in  # noqa: PLC0415
    from model.data.sources import data_folder  # noqa: PLC0415
    from study.staleness import in_folder  # noqa: PLC0415

    choices = {
        "--study": study,
        "--where": where,
        "--group-by": group_by,
        "--columns": columns,
        "--pivot": pivot,
        "--sort": sort,
        "--limit": limit,
    }
    given = [name for name, value in choices.items() if value is not None]
    if sql is not None and given:
        raise RequestError(f"--sql is a whole query: leave {', '.join(given)} out, say it in SQL")
    excluded = [name for name in given if name not in {"--study", "--where", "--pivot"}]
    if pivot is not None and excluded:
        raise RequestError(f"--pivot says it all: leave {', '.join(excluded)} out")
    if path is None and output is TableFormat.parquet and sys.stdout.isatty():
        raise RequestError("parquet is binary and would garble the terminal; add --out FILE")
    engine = open_reader(store)
    frame = _answer(engine, sql=sql, pivot=pivot, source=source, choices=choices)
    if (
        "state" in frame
        and "running" in set(frame["state"])
        and (dead := left_behind(engine, store))
    ):
        err().print(left_behind_note(dead), markup=False)
    now = in_folder(data_folder(os.environ))
    for name in [study] if study else studies_in(engine):
        if note := stale_note(coverage(engine, name, now=now)):
            err().print(note, markup=False)
    rendered = render(frame, output.value, width=out().width)
    content = rendered if isinstance(rendered, bytes) else rendered.encode()
    if path is not None:
        from analysis.files import write_atomically  # noqa: PLC0415

        write_atomically(path, content)
        out().print(str(path), markup=False)
    elif (
        output is TableFormat.table
        and sys.stdout.isatty()
        and content.count(b"\n") >= shutil.get_terminal_size().lines
    ):
        click.echo_via_pager(content.decode())
    else:
        sys.stdout.buffer.write(content)


def _answer(
    engine: "Engine",
    *,
    sql: str | None,
    pivot: tuple[str, str, str] | None,
    source: View,
    choices: Mapping[str, object],
) -> "pd.DataFrame":
    from analysis import query  # noqa: PLC0415

    if sql is not None:
        return query.sql(engine, sql)
    asked = {name.strip("-").replace("-", "_"): value for name, value in choices.items()}
    asked.pop("pivot")
    if pivot is None:
        return query.query(engine, source=source.value, **asked)  # type: ignore[arg-type]
    row, column, value = pivot
    return query.pivot(
        engine,
        row=row,
        column=column,
        value=value,
        source=source.value,
        study=asked["study"],  # type: ignore[arg-type]
        where=asked["where"],  # type: ignore[arg-type]
    )
