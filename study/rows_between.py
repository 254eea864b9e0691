"""Rows on their way from one database to another, a bounded number in memory at a time."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Column, Connection, Select, Table, select
from sqlalchemy.dialects import postgresql, sqlite

from study.schema import Base

ROWS_AT_ONCE = 20_000
KEYS_AT_ONCE = 500  # in one IN (..)

TABLES: dict[str, Table] = {table.name: table for table in Base.metadata.sorted_tables}
"""Every table by name, those that others refer to first."""

Row = dict[str, Any]
Key = TypeVar("Key")


def rows(connection: Connection, statement: Select[*tuple[Any, ...]]) -> Iterator[list[Row]]:
    """Yield a statement's rows in lists of at most `ROWS_AT_ONCE`."""
    found = connection.execute(statement.execution_options(yield_per=ROWS_AT_ONCE))
    for some in found.mappings().partitions(ROWS_AT_ONCE):
        yield [dict(row) for row in some]


def rows_where(
    connection: Connection, table: Table, column: Column[Any], keys: Iterable[Any]
) -> Iterator[list[Row]]:
    """Yield the rows of a table whose column holds one of the keys."""
    for some in batches(keys):
        yield from rows(connection, select(table).where(column.in_(some)))


def batches(keys: Iterable[Key]) -> Iterator[Sequence[Key]]:
    """Yield the keys in lists that fit into one statement."""
    left = iter(keys)
    while some := list(islice(left, KEYS_AT_ONCE)):
        yield some


def insert_new(connection: Connection, table: Table, found: Sequence[Row]) -> None:
    """Insert rows; one whose key is there already is left as it is."""
    if found:
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        connection.execute(dialect.insert(table).on_conflict_do_nothing(), list(found))
