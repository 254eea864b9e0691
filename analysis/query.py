"""Rows of the view `results`, chosen, sorted and printed; or whatever read-only SQL returns."""

import difflib
import io
import json
import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from pyarrow.lib import ArrowException
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy import ColumnElement, Engine, select
from sqlalchemy.exc import DBAPIError

from analysis.expression import condition
from analysis.formats import TableFormat
from analysis.frames import declared_cells, read, untyped_column
from model.config import EMBEDDINGS
from model.errors import RequestError
from study.schema import RESULT_METRICS
from study.views import FACTOR_COLUMNS, RESULTS

_ORDER = ("study", "dataset", "model", "embeddings", *FACTOR_COLUMNS, "trial")
_ALWAYS_SHOWN = ("embeddings", "validation_ndcg@10", "test_ndcg@10")
_SHOWN_WHEN_VARYING = (
    "study",
    "dataset",
    "model",
    *(n for n in FACTOR_COLUMNS if n not in (*EMBEDDINGS, "embeddings", "model", "synthetic")),
    "state",
    "failure",
)
_SAID_WHEN_FIXED = {
    "study",
    "dataset",
    "hidden",
    "heads",
    "dropout",
    "weight_decay",
    "seed",
    "state",
}
_WIDEST = 40


def query(
    engine: Engine,
    *,
    study: str | None = None,
    where: str | None = None,
    sort: str | None = None,
    limit: int | None = None,
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return rows of the view `results`; everything is done by the database.

    Args:
        engine: from `analysis.frames.open_reader`.
        study: only this study's trials.
        where: an expression, see `analysis.expression`.
        sort: columns, separated by commas. A metric sorts best first, any other column smallest
            first, and a `-` before its name the other way round. Missing values come last.
        limit: at most so many rows.
        columns: which, in this order; default all.

    Raises:
        RequestError: an unknown study or column, or a mistake in the expression.
    """
    chosen = [_column(name) for name in columns] if columns is not None else list(RESULTS.c)
    statement = select(*chosen)
    if where is not None:
        statement = statement.where(condition(where, dict(RESULTS.c.items())))
    order = [_direction(name.strip()) for name in sort.split(",")] if sort is not None else []
    # Ties in the same order on every database and on every call.
    order += [RESULTS.c[name].nulls_last() for name in _ORDER]
    statement = statement.order_by(*order)
    if limit is not None:
        if limit < 1:
            raise RequestError(f"limit must be at least 1, got {limit}; leave it out for all rows")
        statement = statement.limit(limit)
    with engine.connect() as connection:
        if study is not None:
            declared_cells(connection, study)
            statement = statement.where(RESULTS.c.study == study)
        return read(connection, statement)


def sql(engine: Engine, text: str) -> pd.DataFrame:
    """Return what a SELECT returns; the connection, not the text, keeps it from writing.

    Raises:
        RequestError: what the database says of the text, or two columns of one name.
    """
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "postgresql":
                # After a statement the transaction cannot be made writable, and as a cursor's
                # query the text can neither end it nor bring a second statement.
                connection.exec_driver_sql("SELECT 1")
                connection.execution_options(stream_results=True)
            # Without parameters a driver would still read percent signs as their places.
            options = {"no_parameters": True}
            found = connection.exec_driver_sql(text, execution_options=options)
            if not found.returns_rows:
                raise RequestError(f"--sql takes a SELECT, which returns rows, got: {text}")
            names, rows = list(found.keys()), found.all()
    except DBAPIError as error:
        reason = str(error.orig).strip().splitlines()[0]
        raise RequestError(f"--sql takes one read-only SELECT: {reason}\n  {text}") from None
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise RequestError(
            f"columns need names of their own, got {', '.join(sorted(doubled))} twice; "
            "rename one with AS"
        )
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    return pd.DataFrame(dict(zip(names, map(untyped_column, columns), strict=True)))


def render(frame: pd.DataFrame, form: str, *, width: int = 80) -> str | bytes:
    """Return a frame in one of `TableFormat`: as text, or as bytes for `parquet`.

    A table shows what fits into `width` characters: of whole results rows the embeddings, two
    metrics and the columns that vary, with those that do not in a line above. The other formats
    hold every column and full precision; JSON has null for NaN and text for infinities.

    Raises:
        RequestError: an unknown format, or a column that parquet cannot hold.
    """
    match form:
        case TableFormat.table:
            return _table(frame, width)
        case TableFormat.csv:
            return frame.to_csv(index=False, lineterminator="\n")
        case TableFormat.json:
            return _json(frame)
        case TableFormat.parquet:
            return _parquet(frame)
        case TableFormat.markdown:
            return _markdown(frame)
        case _:
            raise RequestError(f"format must be one of {', '.join(TableFormat)}, got {form!r}")


def _column(name: str) -> ColumnElement[Any]:
    name = name.strip()
    if name not in RESULTS.c:
        near = difflib.get_close_matches(name, RESULTS.c.keys(), n=3)
        advice = f"did you mean {' or '.join(near)}?" if near else "see them with --format csv"
        raise RequestError(f"no column {name!r}; {advice}")
    return RESULTS.c[name]


def _direction(name: str) -> ColumnElement[Any]:
    reverse = name.startswith("-")
    column = _column(name.removeprefix("-"))
    descending = (column.name in RESULT_METRICS) != reverse
    return (column.desc() if descending else column.asc()).nulls_last()


def _parquet(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    try:
        frame.to_parquet(buffer, index=False)
    except ArrowException as error:
        # SQLite types values, not columns, so that a query can mix them.
        mixed = [
            f"{name} with {' and '.join(kinds)}"
            for name in frame.columns
            if len(kinds := sorted({type(value).__name__ for value in frame[name].dropna()})) > 1
        ]
        raise RequestError(
            f"a column of a parquet file holds one type, got {', '.join(mixed) or error}; "
            "CAST it in the SQL, or use another --format"
        ) from None
    return buffer.getvalue()


def _json(frame: pd.DataFrame) -> str:
    columns = {str(name): [_plain(value) for value in frame[name]] for name in frame.columns}
    names = list(columns)
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return json.dumps(rows, indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return a cell's value as JSON can hold it."""
    if pd.isna(value):
        return None
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    plain = value.item() if hasattr(value, "item") else value
    return str(plain) if isinstance(plain, float) and math.isinf(plain) else plain


def _markdown(frame: pd.DataFrame) -> str:
    columns = [[str(name), "---", *_shown_column(frame, name)] for name in frame.columns]
    lines = ([cell.replace("|", r"\|") for cell in row] for row in zip(*columns, strict=True))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _table(frame: pd.DataFrame, width: int) -> str:
    fixed, shown = _choice(frame)
    if not len(frame):
        return "no rows\n"
    cells = {name: _shown_column(frame, name) for name in shown}
    heads = {name: str(name).replace("_", "_\n") for name in shown}
    widths = {
        name: min(_WIDEST, max(map(len, [*heads[name].split("\n"), *cells[name]])))
        for name in shown
    }
    kept = _fitting(shown, widths, width)
    table = Table(box=None, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for name in kept:
        numeric = pd.api.types.is_numeric_dtype(frame[name].dtype)
        table.add_column(
            Text(heads[name]),
            justify="right" if numeric else "left",
            min_width=widths[name],
            overflow="fold",
        )
    for row in zip(*(cells[name] for name in kept), strict=True):
        table.add_row(*(Text(cell) for cell in row))
    console = Console(file=io.StringIO(), width=max(width, 20), color_system=None)
    if fixed:
        console.print(Text("all rows: " + ", ".join(f"{n}={v}" for n, v in fixed.items())))
    console.print(table)
    left_out = [str(name) for name in shown if name not in kept]
    if left_out:
        console.print(
            Text(f"not shown: {', '.join(left_out)} (choose with --columns, or --format csv)")
        )
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _choice(frame: pd.DataFrame) -> tuple[dict[str, str], list[str]]:
    """Return what all rows share, and the columns worth a place; a chosen frame is left alone."""
    if list(frame.columns) != RESULTS.c.keys():
        return {}, list(frame.columns)
    fixed: dict[str, str] = {}
    shown: list[str] = ["embeddings"]
    for name in _SHOWN_WHEN_VARYING:
        known = frame[name].dropna().unique()
        # NULL beside one value says no more than the embeddings do: nothing reads the factor.
        if len(known) > 1:
            shown.append(name)
        elif len(known) == 1 and name in _SAID_WHEN_FIXED:
            fixed[name] = _shown(name, known[0])
    return fixed, [*shown, "validation_ndcg@10", "test_ndcg@10", "test_recall@10", "seconds"]


def _fitting(names: Sequence[str], widths: dict[str, int], width: int) -> list[str]:
    """Return the columns that fit side by side, the indispensable ones first in line."""
    first = [name for name in names if name in _ALWAYS_SHOWN]
    kept: set[str] = set()
    used = -1
    for name in [*first, *(name for name in names if name not in first)]:
        if not kept or used + 1 + widths[name] <= width:
            kept.add(name)
            used += 1 + widths[name]
    return [name for name in names if name in kept]


def _shown_column(frame: pd.DataFrame, name: Any) -> list[str]:  # noqa: ANN401
    return [_shown(name, value) for value in frame[name]]


def _shown(name: Any, value: Any) -> str:  # noqa: ANN401
    """Return a value as a person reads it."""
    if pd.isna(value):
        return ""
    if isinstance(value, pd.Timestamp):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, float):
        if name in RESULT_METRICS:
            return f"{value:.4f}"
        return f"{value:.1f}" if name == "seconds" else f"{value:.6g}"
    return str(value)
