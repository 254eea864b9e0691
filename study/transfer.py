"""A results database as files that outlive it: self-describing Parquet in a folder, or SQLite.

Every table is one Parquet file, the view `results` one more for readers without SQL; README.md and
schema.json say what each column holds. NaN is null, infinities are kept, times are UTC.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Integer,
    LargeBinary,
    Table,
    Text,
    func,
    select,
)

from model.errors import RequestError
from study import engine as database
from study.column_types import Utc
from study.merge import Merged, merge
from study.rows_between import TABLES, insert_new, rows
from study.schema import REVISION
from study.views import RESULTS

SQLITE_SUFFIXES = (".db", ".sqlite", ".sqlite3")


def export(url: str, to: Path) -> Path:
    """Write a database to a new folder of Parquet files, or to one SQLite file.

    Args:
        url: address of the database; only read, in one snapshot.
        to: ends in one of `SQLITE_SUFFIXES` for SQLite; what is there is never overwritten.

    Raises:
        RequestError: no such database, or `to` is there already or cannot be written.
    """
    if to.exists() and not (to.is_dir() and not any(to.iterdir())):
        raise RequestError(f"an export never overwrites, got {to}, which exists; name another")
    if not to.absolute().parent.is_dir():
        raise RequestError(f"the export's folder must exist, got {to.absolute().parent}; make it")
    engine = database.reading(url)
    try:
        with engine.connect() as connection, _whole(to) as unfinished:
            if to.suffix in SQLITE_SUFFIXES:
                _copy_to_sqlite(connection, unfinished)
            else:
                _write_folder(connection, unfinished)
    except OSError as error:
        raise RequestError(
            f"an export must be written whole, got {error.strerror or error} at {to}; free space "
            "or name another place"
        ) from error
    finally:
        engine.dispose()
    return to


def import_folder(url: str, folder: Path, *, clock: Callable[[], datetime]) -> Merged:
    """Bring an exported folder into a database, by the rules of `study.merge`.

    Raises:
        RequestError: the folder is no export of this schema's revision, or is not whole.
    """
    description = folder / "schema.json"
    if not description.is_file():
        raise RequestError(
            f"an import reads a folder that `meantime store export` wrote, got {folder} "
            "without schema.json"
        )
    found = json.loads(description.read_text(encoding="utf-8")).get("revision")
    if found != REVISION:
        raise RequestError(
            f"this version of meantime imports schema revision {REVISION}, got {found} in "
            f"{folder}; export it as SQLite with the version that wrote it, then upgrade that"
        )
    with tempfile.TemporaryDirectory() as scratch:
        file = f"sqlite:///{scratch}/import.db"
        target = database.writing(file)
        try:
            with target.begin() as connection:
                for name, table in TABLES.items():
                    for some in _read_rows(folder / f"{name}.parquet", table):
                        insert_new(connection, table, some)
        finally:
            target.dispose()
        return merge(url, file, clock=clock)


def described(table: Table) -> dict[str, Any]:
    """Return the JSON Schema of a table's rows."""
    return {
        "type": "object",
        "description": table.comment or "",
        "properties": {column.name: _json_kind(column) for column in table.c},
        "required": [column.name for column in table.c if not column.nullable],
    }


@contextmanager
def _whole(to: Path) -> Iterator[Path]:
    """Give a place to write to, which becomes `to` when everything is there."""
    scratch = Path(tempfile.mkdtemp(prefix=f".{to.name}-", dir=to.absolute().parent))
    unfinished = scratch / to.name
    try:
        yield unfinished
        if to.is_dir():
            to.rmdir()  # empty, or `export` had refused it
        unfinished.rename(to)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _copy_to_sqlite(connection: Connection, path: Path) -> None:
    copy = database.writing(f"sqlite:///{path}")
    try:
        with copy.begin() as target:
            for table in TABLES.values():
                for some in rows(connection, select(table)):
                    insert_new(target, table, some)
    finally:
        copy.dispose()


def _write_folder(connection: Connection, folder: Path) -> None:
    folder.mkdir()
    counts: dict[str, int] = {}
    for table in (*TABLES.values(), RESULTS):
        with pq.ParquetWriter(folder / f"{table.name}.parquet", _arrow_schema(table)) as writer:
            order = list(table.primary_key) or [table.c.study, table.c.trial]
            for some in rows(connection, select(table).order_by(*order)):
                writer.write_table(pa.Table.from_pylist(some, schema=_arrow_schema(table)))
        counts[table.name] = connection.scalar(select(func.count()).select_from(table)) or 0
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Results database of meantime",
        "revision": REVISION,
        "$defs": {table.name: described(table) for table in (*TABLES.values(), RESULTS)},
    }
    text = json.dumps(schema, indent=1) + "\n"
    (folder / "schema.json").write_text(text, encoding="utf-8")
    (folder / "README.md").write_text(_readme(counts), encoding="utf-8")


def _readme(counts: dict[str, int]) -> str:
    lines = [
        "# Results of meantime",
        "",
        f"A results database, schema revision {REVISION}: one Parquet file a table, and the flat",
        "view `results`. schema.json (JSON Schema) says what each column holds. Times are UTC,",
        "durations seconds, null a factor that a trial does not read, or NaN where a metric was",
        "reported. `rank.greater` and `rank.equal` are zlib-compressed little-endian int32 arrays.",
        "",
        "`meantime store import FOLDER` brings it into a database again.",
        "",
        "```python",
        "import pandas as pd",
        'results = pd.read_parquet("results.parquet")',
        "```",
        "",
        "| file | rows | one row is |",
        "|---|---|---|",
    ]
    for name, count in counts.items():
        meaning = TABLES[name].comment if name in TABLES else "One study's trial, flat."
        lines.append(f"| {name}.parquet | {count:,} | {meaning} |")
    return "\n".join(lines) + "\n"


def _arrow_schema(table: Table) -> pa.Schema:
    return pa.schema([pa.field(column.name, _arrow_kind(column)) for column in table.c])


def _arrow_kind(column: Column[Any]) -> pa.DataType:
    match column.type:
        case Boolean():
            return pa.bool_()
        case Integer():
            return pa.int64()
        case Text():
            return pa.string()
        case Utc():
            return pa.timestamp("us", tz="UTC")
        case LargeBinary():
            return pa.binary()
        case _:
            return pa.float64()


def _json_kind(column: Column[Any]) -> dict[str, Any]:
    match column.type:
        case Boolean():
            kind: dict[str, Any] = {"type": "boolean"}
        case Integer():
            kind = {"type": "integer"}
        case Text():
            kind = {"type": "string"}
        case Utc():
            kind = {"type": "string", "format": "date-time"}
        case LargeBinary():
            kind = {"type": "string", "contentEncoding": "base64"}
        case _:
            kind = {"type": "number"}
    if column.nullable:
        kind["type"] = [kind["type"], "null"]
    return {**kind, "description": column.comment or ""}


def _read_rows(path: Path, table: Table) -> Iterator[list[dict[str, Any]]]:
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise RequestError(
            f"an export has a file for every table, got {path}: {error}; copy the folder again"
        ) from None
    with file:
        if file.schema_arrow.names != [column.name for column in table.c]:
            raise RequestError(
                f"{path} must have the columns of the table {table.name}; export it again"
            )
        for batch in file.iter_batches(batch_size=20_000):
            yield batch.to_pylist()
