"""A database of any past version comes up to date with its data, backed up, or stays as it was."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import MetaData, create_engine, text

from analysis import frames
from model.errors import RequestError
from study.engine import address_of, known_revisions, reading, writing
from study.migrations.ours import ours
from study.schema import REVISION, VERSION_TABLE, Base
from study.upgrade import run_migrations, upgrade_store
from tests.stored import opened

PAST = Path(__file__).parent / "revisions"
"""Databases as past versions wrote them, as SQL text: the study `small` of `tests.stored`."""

REVISIONS = known_revisions()[:-1]


def clock():
    return datetime(2026, 3, 1, 12, tzinfo=UTC)


def restored(past, url, folder):
    """Make the database of a past revision at a URL."""
    file = folder / "past.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript((PAST / f"{past}.sql").read_text())
    if url.startswith("sqlite"):
        file.rename(folder / "results.db")
        return
    source, target = create_engine(f"sqlite:///{file}"), create_engine(address_of(url))
    with source.connect() as rows, target.begin() as connection:
        run_migrations(connection, past)
        metadata = MetaData()
        metadata.reflect(connection)
        tables = [table for table in metadata.sorted_tables if table.name != VERSION_TABLE]
        for table in tables:
            found = rows.execute(text(f"SELECT * FROM {table.name}")).mappings().all()
            moments = {
                c.name for c in table.c if c.name in {"started_at", "ended_at", "planned_at"}
            }
            for row in found:
                values = {
                    name: datetime.fromisoformat(value).replace(tzinfo=UTC)
                    if name in moments and value
                    else value
                    for name, value in row.items()
                }
                connection.execute(table.insert(), values)
    source.dispose()
    target.dispose()


def test_every_past_revision_has_a_database_with_data():
    assert sorted(path.stem for path in PAST.glob("*.sql")) == REVISIONS
    assert len(REVISIONS) == int(REVISION) - 1


@pytest.mark.parametrize("past", REVISIONS)
def test_a_past_database_is_brought_up_to_date_with_all_its_data(store_url, tmp_path, past):
    restored(past, store_url, tmp_path)
    for opening in (reading, writing):
        with pytest.raises(RequestError, match=rf"older revision {past}; .*meantime store upgrade"):
            opening(store_url)
    done = upgrade_store(store_url, clock=clock)
    assert (done.before, done.after) == (past, REVISION)
    engine = frames.open_reader(store_url)
    found = frames.results(engine, "small")
    assert sorted(found["validation_ndcg@10"].dropna()) == [0.2, 0.4]
    assert found["state"].value_counts().to_dict() == {
        "pending": 6,
        "complete": 2,
        "failed": 1,
        "running": 1,
    }
    assert len(frames.curves(engine, "small")) == 2 * (2 * 3 + 11) + 3
    assert len(frames.ranks(engine, "small")) == 6
    attempts = frames.attempts(engine)
    assert attempts["torch"].dropna().tolist() == ["2.13.0"] * 4
    # Up to 0003 a result alone told its data; the next two are that database, brought up to date.
    assert attempts["fingerprint"].notna().sum() == (5 if past >= "0006" else 2)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={"include_name": ours, "compare_type": True, "version_table": VERSION_TABLE},
        )
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()
    with opened(store_url) as store, store.claim():
        assert len(store.mark_lost()) == 1


@pytest.mark.parametrize("past", REVISIONS)
def test_an_upgraded_schema_is_the_one_that_is_made_anew(tmp_path, past):
    """Alembic compares no checks and no views: SQLite's own text of the schema does."""

    def schema(url):
        engine = reading(url)
        rows = "SELECT name, sql FROM sqlite_master WHERE name != 'sqlite_sequence'"
        with engine.connect() as connection:
            found = {
                row.name: sorted(part.strip(' ,"') for part in (row.sql or "").split("\n"))
                for row in connection.execute(text(rows))
            }
        engine.dispose()
        return found

    url = f"sqlite:///{tmp_path}/results.db"
    restored(past, url, tmp_path)
    upgrade_store(url, clock=clock)
    writing(f"sqlite:///{tmp_path}/new.db").dispose()
    old, new = schema(url), schema(f"sqlite:///{tmp_path}/new.db")
    assert set(old) == set(new)
    for name, lines in new.items():
        told = [
            line.replace('CREATE TABLE "', "CREATE TABLE ").replace('" (', " (")
            for line in old[name]
        ]
        assert sorted(told) == lines, name


def test_an_sqlite_file_is_copied_before_it_is_changed(tmp_path):
    url = f"sqlite:///{tmp_path}/results.db"
    restored("0001", url, tmp_path)
    done = upgrade_store(url, clock=clock)
    assert done.backup == tmp_path / "results.db.0001-20260301T120000.backup"
    with closing(sqlite3.connect(done.backup)) as copy:
        assert copy.execute("SELECT version_num FROM meantime_version").fetchall() == [("0001",)]
        assert copy.execute("SELECT count(*) FROM trial").fetchall() == [(11,)]


def test_an_upgrade_that_fails_leaves_the_database_and_the_copy(tmp_path):
    url = f"sqlite:///{tmp_path}/results.db"
    restored("0001", url, tmp_path)
    with closing(sqlite3.connect(tmp_path / "results.db")) as connection:
        connection.execute("UPDATE cell SET study = 'gone' WHERE number = 3")
        connection.commit()
    with pytest.raises(RequestError, match="got 1 that do not, in cell; the database is as it was"):
        upgrade_store(url, clock=clock)
    with closing(sqlite3.connect(tmp_path / "results.db")) as connection:
        rows = connection.execute("SELECT version_num FROM meantime_version").fetchall()
        assert rows == [("0001",)]
        assert connection.execute("SELECT count(*) FROM results").fetchall() == [(12,)]
    assert len(list(tmp_path.glob("*.backup"))) == 1


def test_a_database_that_is_up_to_date_is_left_alone(store_url, tmp_path):
    writing(store_url).dispose()
    done = upgrade_store(store_url, clock=clock)
    assert (done.before, done.after, done.backup) == (REVISION, REVISION, None)
    assert list(tmp_path.glob("*.backup")) == []


def test_a_newer_database_is_not_upgraded(store_url):
    engine = writing(store_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE meantime_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(RequestError, match="revision 9999, which a newer version wrote; install"):
        upgrade_store(store_url, clock=clock)


def test_an_upgrade_waits_for_no_launch_but_says_that_one_is_writing(store_url):
    with (
        opened(store_url) as store,
        store.claim(),
        pytest.raises(RequestError, match="another is writing"),
    ):
        upgrade_store(store_url, clock=clock)


def test_what_is_no_store_is_not_upgraded(tmp_path):
    with pytest.raises(RequestError, match="needs a database that exists"):
        upgrade_store(f"sqlite:///{tmp_path}/none.db", clock=clock)
    assert list(tmp_path.iterdir()) == []
    sqlite3.connect(tmp_path / "empty.db").close()
    (tmp_path / "empty.db").touch()
    with pytest.raises(RequestError, match="needs a results database of meantime, got none"):
        upgrade_store(f"sqlite:///{tmp_path}/empty.db", clock=clock)
