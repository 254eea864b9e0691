"""Bringing a results database of an older version up to date: backup first, all or nothing."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from filelock import FileLock
from sqlalchemy import Connection, create_engine, text

from model.errors import RequestError
from study.engine import (
    BUSY_SECONDS,
    SETUP_KEY,
    address_of,
    exclusive,
    known_revisions,
    refused,
    require_revision,
    revision,
    sqlite_path,
    sqlite_writer,
)
from study.schema import REVISION


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What an upgrade did.

    Attributes:
        before: revision that the database had.
        after: revision that it has.
        backup: copy of the file as it was; None where nothing changed and for PostgreSQL.
    """

    before: str
    after: str
    backup: Path | None


def upgrade_store(url: str, *, clock: Callable[[], datetime]) -> Upgraded:
    """Migrate a database to this version's schema; a database that has it is left alone.

    Nothing is changed unless everything succeeds. An SQLite file is copied beside itself first;
    PostgreSQL undoes a failed upgrade by itself, and `pg_dump` makes copies.

    Args:
        url: address of the database.
        clock: names the copy; aware.

    Raises:
        RequestError: no database of ours, a newer one, one that a launch is writing to, or no
            room for the copy.
    """
    address = address_of(url)
    path = sqlite_path(address)
    with refused(address):
        if path is None:
            engine = create_engine(address)
        elif path.is_file():
            # Rebuilding a table with foreign keys on would delete what refers to it.
            engine = sqlite_writer(address, foreign_keys=False)
        else:
            raise RequestError(
                f"an upgrade needs a database that exists, got {path}; name it with --store"
            )
        try:
            with exclusive(engine):
                if path is None:
                    with engine.begin() as connection:
                        key = {"key": SETUP_KEY}
                        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), key)
                        before = _require_upgradable(connection, url)
                        if before != REVISION:
                            run_migrations(connection)
                    return Upgraded(before, REVISION, None)
                with FileLock(f"{path}.setup.lock", timeout=BUSY_SECONDS):
                    with engine.connect() as connection:
                        before = _require_upgradable(connection, url)
                    if before == REVISION:
                        return Upgraded(before, before, None)
                    backup = _copied(path, f"{before}-{clock():%Y%m%dT%H%M%S}")
                    with engine.begin() as connection:
                        run_migrations(connection)
                        _require_references(connection)
                    return Upgraded(before, REVISION, backup)
        finally:
            engine.dispose()


def run_migrations(connection: Connection, to: str = "head") -> None:
    """Bring the schema to a revision inside the connection's transaction.

    Short of the last one there are no views: they are this version's.
    """
    from alembic import command  # noqa: PLC0415 - finished stores need no Alembic
    from alembic.config import Config  # noqa: PLC0415

    from study.migrations.ours import finish  # noqa: PLC0415

    config = Config()
    # Alembic's configuration interpolates percent signs, and a folder's name may hold one.
    folder = str(Path(__file__).with_name("migrations")).replace("%", "%%")
    config.set_main_option("script_location", folder)
    config.attributes["connection"] = connection
    command.upgrade(config, to)
    if to == "head":
        finish(connection)


def _require_upgradable(connection: Connection, url: str) -> str:
    found = revision(connection)
    if found is None:
        raise RequestError(
            f"an upgrade needs a results database of meantime, got none at {address_of(url)}; "
            "name it with --store, or make one with `meantime launch STUDY`"
        )
    if found not in known_revisions():
        require_revision(found, address_of(url))
    return found


def _copied(path: Path, label: str) -> Path:
    """Copy a database beside itself, whole and consistent, whatever its -wal file still holds."""
    backup = path.with_name(f"{path.name}.{label}.backup")
    number = 1
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.{label}-{number}.backup")
    unfinished = backup.with_name(f"{backup.name}.part")
    try:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(unfinished)) as copy:
            source.backup(copy)
        unfinished.rename(backup)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return backup


def _require_references(connection: Connection) -> None:
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    if broken:
        tables = ", ".join(sorted({row[0] for row in broken}))
        raise RequestError(
            f"rows must refer to rows that exist, got {len(broken)} that do not, in {tables}; "
            "the database is as it was: look with `PRAGMA foreign_key_check`"
        )
