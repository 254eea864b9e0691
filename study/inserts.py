"""Many rows in one statement; a row whose key is there already stays as it is.

SQLite is quickest at a statement that is repeated for each row. PostgreSQL takes a round and a
look at the foreign key for each repetition: it gets one array a column instead, twice as fast.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import DeclarativeBase

from study.rows import Row


def add(connection: Connection, table: type[DeclarativeBase], rows: Sequence[Row]) -> None:
    """Insert rows that all have the same columns; the others are NULL.

    Args:
        connection: in the writer's transaction.
        table: the rows' table.
        rows: column -> value.
    """
    if not rows:  # SQLAlchemy would insert one row of defaults
        return
    if connection.dialect.name == "sqlite":
        connection.execute(sqlite.insert(table).on_conflict_do_nothing(), list(rows))
        return
    names = list(rows[0])
    columns = [table.__table__.c[name] for name in names]
    arrays: list[Any] = [
        bindparam(column.name, type_=postgresql.ARRAY(column.type)) for column in columns
    ]
    source = func.unnest(*arrays).table_valued(*names).render_derived()
    statement = postgresql.insert(table).from_select(names, select(source))
    connection.execute(
        statement.on_conflict_do_nothing(), {name: [row[name] for row in rows] for name in names}
    )
