"""How the results database is reached: one engine that may write and one that cannot.

The writer's transactions take the write lock when they begin, so that they never fail half-way;
the reader's connection is read-only by itself, whatever SQL runs on it. Both check the schema's
revision; only the writer creates it, once, however many processes start at the same time.
"""

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from model.errors import RequestError
from study.schema import REVISION, VERSION_TABLE

BUSY_SECONDS = 30
"""How long a connection waits for another one's lock before it gives up."""

_GLANCE_SECONDS = 0.5
"""A reader that looks whether the store is claimed holds the lock for less than this."""

SETUP_KEY, _LAUNCH_KEY = 0x6D65616E_0001, 0x6D65616E_0002  # PostgreSQL's advisory locks
_ADVICE = "give --store as sqlite:///results.db or postgresql://user@host/name"


def writing(url: str) -> Engine:
    """Return an engine that may write, with the schema created where there was none.

    Raises:
        RequestError: the URL, the path or the server does not work, or the schema is another.
    """
    address = address_of(url)
    with refused(address):
        path = sqlite_path(address)
        if path is None:
            engine = create_engine(address, pool_size=2, max_overflow=2)
            with closed_if_refused(engine), engine.begin() as connection:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": SETUP_KEY})
                _create_or_check(connection, address)
            return engine
        _check_place(path)
        with FileLock(f"{path}.setup.lock", timeout=BUSY_SECONDS):
            _set_up_sqlite(address)
        return sqlite_writer(address, foreign_keys=True)


def reading(url: str) -> Engine:
    """Return an engine whose connections can change nothing and block no writer.

    Raises:
        RequestError: there is no such database, or its schema is another.
    """
    address = address_of(url)
    with refused(address):
        path = sqlite_path(address)
        if path is None:
            # Default and per-transaction: a user's SQL can undo one of them, not both.
            engine = create_engine(
                address,
                pool_size=2,
                max_overflow=2,
                connect_args={"options": "-c default_transaction_read_only=on"},
                execution_options={"postgresql_readonly": True},
                isolation_level="REPEATABLE READ",  # one snapshot, as SQLite's readers have it
            )
        else:
            if not path.is_file():
                raise RequestError(
                    f"results are read from a database that exists, got {path}; "
                    "make it with `meantime launch STUDY` or name another with --store"
                )
            engine = _sqlite_reader(path)
        with closed_if_refused(engine), engine.connect() as connection:
            found = revision(connection)
            if found is None:
                raise RequestError(
                    f"{address} holds no results of meantime; "
                    "fill it with `meantime launch STUDY` or name another with --store"
                )
            require_revision(found, address)
    return engine


@contextmanager
def exclusive(engine: Engine) -> Iterator[Callable[[], None]]:
    """Hold the launch lock of a writer's database; the operating system frees it at a crash.

    Yields:
        What takes the lock again where a server has lost it by starting anew.

    Raises:
        RequestError: another process holds it.
    """
    path = sqlite_path(engine.url)
    if path is not None:
        lock = FileLock(f"{path}.lock")
        try:
            lock.acquire(timeout=_GLANCE_SECONDS)
        except Timeout:
            raise _busy(engine) from None
        try:
            yield lambda: None
        finally:
            lock.release()
        return
    with closing(_ServerLock(engine)) as held:
        held.renew()
        yield held.renew


class _ServerLock:
    """An advisory lock, which lives as long as the connection that took it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None

    def renew(self) -> None:
        """Take the lock, if the connection that held it is gone or there is none yet."""
        try:
            if self._connection is not None:
                self._connection.execute(text("SELECT 1"))
                return
        except SQLAlchemyError:
            self.close()
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            key = {"key": _LAUNCH_KEY}
            if not connection.execute(text("SELECT pg_try_advisory_lock(:key)"), key).scalar_one():
                raise _busy(self._engine)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def close(self) -> None:
        """Let the lock go, also where the server is not there any more."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # Without a server there is nothing to unlock, and the connection is of no use.
            with suppress(SQLAlchemyError):
                connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LAUNCH_KEY})
            with suppress(SQLAlchemyError):
                connection.close()


def _busy(engine: Engine) -> RequestError:
    return RequestError(
        f"one launch writes to a store at a time, and another is writing to {engine.url}; "
        "wait for it, stop it, or name another store with --store"
    )


def is_claimed(url: str) -> bool:
    """Say whether a launch is writing to this store now; reads only.

    Attempts that read `running` in a store that nobody has claimed belong to a launch that died.
    """
    address = address_of(url)
    path = sqlite_path(address)
    if path is not None:
        return _is_locked(Path(f"{path}.lock"))
    with refused(address):
        engine = create_engine(address)
        try:
            with engine.connect() as connection:
                return bool(connection.execute(_HELD, {"key": _LAUNCH_KEY}).scalar_one())
        finally:
            engine.dispose()


_HELD = text(
    "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database "
    "WHERE locktype = 'advisory' AND granted AND datname = current_database() "
    "AND (classid::bigint << 32) | objid::bigint = :key"
)


def _is_locked(path: Path) -> bool:
    try:
        file = path.open("rb")
    except OSError:  # no launch has ever been here
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def revision(connection: Connection) -> str | None:
    """Return the schema's revision in this database, or None if it has no schema of ours."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return None if found is None else str(found)


def _create_or_check(connection: Connection, address: URL) -> None:
    found = revision(connection)
    if found is None:
        from study.migrations.ours import create_all  # noqa: PLC0415 - readers make no tables

        create_all(connection)
    else:
        require_revision(found, address)


def require_revision(found: str, address: URL) -> None:
    """Refuse another schema: an older one can be upgraded, a newer one needs a newer version."""
    if found == REVISION:
        return
    known = f"this version of meantime works with schema revision {REVISION}"
    if found in known_revisions():
        raise RequestError(
            f"{known}, and {address} has the older revision {found}; bring it up to date with "
            f"`meantime store upgrade --store {address}`, which keeps a backup of an SQLite file"
        )
    raise RequestError(
        f"{known}, and {address} has revision {found}, which a newer version wrote; install that "
        "version, or name another store with --store"
    )


def known_revisions() -> list[str]:
    """Return the revisions that this version can upgrade from, the present one last."""
    folder = Path(__file__).parent / "migrations" / "versions"
    return sorted(path.name[:4] for path in folder.glob("[0-9]*.py"))


def address_of(url: str) -> URL:
    """Return the address with its driver.

    Raises:
        RequestError: it is no address of a store.
    """
    try:
        address = make_url(url)
    except (ArgumentError, ValueError):  # a port that is no number is a ValueError
        raise RequestError(f"the store must be a database URL, got {url!r}; {_ADVICE}") from None
    if address.get_backend_name() == "postgresql":
        return address.set(drivername="postgresql+psycopg")
    if address.get_backend_name() != "sqlite":
        raise RequestError(f"the store must be SQLite or PostgreSQL, got {address}; {_ADVICE}")
    elsewhere = address.host or address.username or address.port or address.query
    # `sqlite://folder/results.db` would quietly open ./results.db: two slashes name a host.
    if address.database in {None, "", ":memory:"} or elsewhere or address.drivername != "sqlite":
        raise RequestError(f"an SQLite store must be a plain file, got {address}; {_ADVICE}")
    return address


def sqlite_path(address: URL) -> Path | None:
    """Return the absolute path of an SQLite store; None for PostgreSQL."""
    if address.get_backend_name() != "sqlite":
        return None
    return Path(str(address.database)).absolute()


@contextmanager
def refused(address: URL) -> Iterator[None]:
    """Turn what a driver, the file system or a missing driver says into a refused request."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise RequestError(
            f"PostgreSQL needs the package psycopg, and it is not installed ({address}); "
            'install with pip install "meantime-study[postgres]"'
        ) from None
    except (DBAPIError, sqlite3.Error, OSError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        reason = str(cause).strip().splitlines()[0]
        raise RequestError(
            f"the store must be a database that can be opened, got {address}: {reason}; "
            "check the path or the server, or name another with --store"
        ) from error


@contextmanager
def closed_if_refused(engine: Engine) -> Iterator[None]:
    """Leave no connection of an engine that nobody will have."""
    try:
        yield
    except BaseException:
        engine.dispose()
        raise


def _check_place(path: Path) -> None:
    """Refuse early, in words, what SQLite would call `unable to open database file`."""
    if not path.parent.is_dir():
        raise RequestError(
            f"the store's folder must exist, got {path.parent}; create it or change --store"
        )
    if path.is_dir():
        raise RequestError(f"the store must be a file, got the folder {path}; add a file name")
    with path.open("ab"):  # a lock beside a file that cannot be made would be tried for ever
        pass


def _set_up_sqlite(address: URL) -> None:
    # Rebuilding a table with foreign keys on would delete what refers to it.
    engine = sqlite_writer(address, foreign_keys=False)
    try:
        raw = engine.raw_connection()
        # Readers do not block a writer in this mode. Switching races on a new file: once, here.
        raw.cursor().execute("PRAGMA journal_mode = WAL")
        raw.close()
        with engine.begin() as connection:
            _create_or_check(connection, address)
    finally:
        engine.dispose()


def sqlite_writer(address: URL, *, foreign_keys: bool) -> Engine:
    """Return an engine whose transactions hold the write lock from their first statement on."""
    engine = create_engine(
        address, connect_args={"timeout": BUSY_SECONDS}, pool_size=2, max_overflow=2
    )

    @event.listens_for(engine, "connect")
    def configure(dbapi: Any, _: object) -> None:  # noqa: ANN401
        dbapi.isolation_level = None  # else Python begins transactions, too late and deferred
        dbapi.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        # Safe against a crash of the process; a power cut may lose the last transactions.
        dbapi.execute("PRAGMA synchronous = NORMAL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _sqlite_reader(path: Path) -> Engine:
    # Reading beside a writer needs the files -wal and -shm. In a folder where they cannot be made
    # nobody writes either; with a -wal file there, `immutable` would miss its rows.
    alone = not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists()
    uri = f"{path.as_uri()}?{'immutable=1' if alone else 'mode=ro'}"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        # ATTACH and VACUUM INTO would create and write other files.
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        return connection

    engine = create_engine(
        "sqlite://", creator=connect, poolclass=QueuePool, pool_size=2, max_overflow=2
    )

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")  # one snapshot for all that a transaction reads

    return engine
