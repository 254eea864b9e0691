"""What belongs to this schema in a database that others may share, and its last touches.

Views are no part of Alembic's comparison: they are dropped before a migration, since SQLite cannot
alter a table that a view reads, and made again after it, when PostgreSQL also gets the comments of
tables and columns (SQLite keeps none).
"""

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    insert,
    text,
)
from sqlalchemy.schema import SetColumnComment, SetTableComment

from study.schema import REVISION, VERSION_TABLE, Base
from study.views import CURVES, RESULTS, VIEWS

_VERSION = Table(
    VERSION_TABLE,
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)
"""As Alembic makes it."""


def ours(name: str | None, kind: str, parents: object) -> bool:  # noqa: ARG001
    """Tell whether Alembic may compare or change it: Optuna's tables are not ours.

    The signature is Alembic's.
    """
    return kind != "table" or name in Base.metadata.tables


def create_all(connection: Connection) -> None:
    """Make the schema of `REVISION` where there is none, as all migrations together would."""
    Base.metadata.create_all(connection)
    _VERSION.create(connection)
    connection.execute(insert(_VERSION).values(version_num=REVISION))
    finish(connection)


def drop_views(connection: Connection) -> None:
    """Take the views away that a migration would stumble over."""
    for name in reversed(VIEWS):
        connection.execute(text(f"DROP VIEW IF EXISTS {name}"))


def finish(connection: Connection) -> None:
    """Make the views and set the comments."""
    for view in VIEWS.values():
        connection.execute(view)
    if connection.dialect.supports_comments:
        for table in Base.metadata.tables.values():
            connection.execute(SetTableComment(table))
        for table in (*Base.metadata.tables.values(), RESULTS, CURVES):
            for column in table.c:
                connection.execute(SetColumnComment(column))
