"""A database is opened for writing or reading, or refused in one message with the next step."""

import hashlib
import sqlite3
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from model.errors import RequestError
from study.engine import is_claimed, reading, writing
from study.schema import REVISION
from tests.stored import ENVIRONMENT, fill, opened

START = """
import sys
from study.engine import writing
sys.stdin.readline()
writing(sys.argv[1]).dispose()
"""


def test_four_processes_that_start_at_once_create_one_schema(store_url):
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", START, store_url],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for starter in starters:
        starter.stdin.write("go\n")
        starter.stdin.flush()
    for starter in starters:
        _, errors = starter.communicate(timeout=60)
        assert (starter.returncode, errors) == (0, "")
    engine = reading(store_url)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM meantime_version")) == 1
    engine.dispose()


@pytest.mark.parametrize("opening", [reading, writing])
def test_another_version_s_schema_is_refused_and_left_alone(store_url, opening):
    engine = writing(store_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE meantime_version SET version_num = '9999'"))
    rule = rf"revision {REVISION}, and .* has revision 9999, which a newer"
    with pytest.raises(RequestError, match=rule):
        opening(store_url)
    with engine.connect() as connection:
        found = connection.scalar(text("SELECT version_num FROM meantime_version"))
    engine.dispose()
    assert found == "9999"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("results.db", "must be a database URL, got 'results.db'; give --store as sqlite:///"),
        ("mysql://here/results", "must be SQLite or PostgreSQL, got mysql://here/results"),
        ("sqlite://", "must be a plain file"),
        ("sqlite://folder/results.db", "must be a plain file, got sqlite://folder/results.db"),
        ("sqlite+aiosqlite:///results.db", "must be a plain file"),
        ("sqlite+foo:///results.db", "must be a plain file"),
        ("postgresql://u@h:port/results", "must be a database URL"),
        ("sqlite:///:memory:", "must be a plain file"),
        ("sqlite:///results.db?mode=ro", "must be a plain file"),
        ("sqlite:///{folder}/none/results.db", "folder must exist, got {folder}/none; create it"),
        ("sqlite:///{folder}", "must be a file, got the folder {folder}; add a file name"),
        ("sqlite:///{folder}/text.db/results.db", "folder must exist"),
        ("sqlite:///{folder}/text.db", "file is not a database; check the path"),
        ("sqlite:////proc/results.db", "can be opened, got sqlite:////proc/results.db"),
        ("postgresql://127.0.0.1:1/results", "can be opened, got postgresql+psycopg://127.0.0.1"),
    ],
)
def test_a_store_that_cannot_be_written_is_one_message(tmp_path, url, reason):
    (tmp_path / "text.db").write_text("not a database, but longer than the header of one\n" * 20)
    with pytest.raises(RequestError) as refused:
        writing(url.format(folder=tmp_path))
    assert reason.format(folder=tmp_path) in str(refused.value)
    assert "--store" in str(refused.value) or "file name" in str(refused.value)


def test_a_password_is_not_shown():
    with pytest.raises(RequestError) as refused:
        writing("postgresql://me:secret@127.0.0.1:1/results")
    assert "secret" not in str(refused.value)


def test_reading_what_does_not_exist_says_how_to_make_it_and_creates_nothing(tmp_path):
    with pytest.raises(RequestError, match=r"results\.db; make it with `meantime launch STUDY`"):
        reading(f"sqlite:///{tmp_path}/results.db")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_database_is_no_store_to_a_reader(tmp_path):
    sqlite3.connect(tmp_path / "empty.db").close()
    (tmp_path / "empty.db").touch()
    with pytest.raises(RequestError, match="holds no results of meantime"):
        reading(f"sqlite:///{tmp_path}/empty.db")


def test_a_folder_with_signs_that_mean_something_in_a_url_is_a_folder(tmp_path):
    folder = tmp_path / "a %20 b#c"
    folder.mkdir()
    url = f"sqlite:///{quote(str(folder))}/results.db"
    fill(url, folder)
    engine = reading(url)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM trial")) == 10
    engine.dispose()
    assert (folder / "results.db").is_file()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM attempt",
        "UPDATE trial SET state = 'pending'",
        "DROP VIEW results",
        "CREATE TABLE more (a integer)",
    ],
)
def test_a_reader_s_connection_cannot_change_anything(store_url, tmp_path, statement):
    fill(store_url, tmp_path)
    engine = reading(store_url)
    with (
        engine.connect() as connection,
        pytest.raises(DBAPIError, match=r"readonly database|read-only transaction"),
    ):
        connection.exec_driver_sql(statement)
    engine.dispose()


@pytest.mark.parametrize("statement", ["ATTACH '{other}' AS other", "VACUUM INTO '{other}'"])
def test_a_reader_of_sqlite_creates_no_other_file(tmp_path, statement):
    url = f"sqlite:///{tmp_path}/results.db"
    fill(url, tmp_path)
    other = tmp_path / "other.db"
    engine = reading(url)
    raw = engine.raw_connection()
    with pytest.raises(sqlite3.OperationalError, match="too many attached databases"):
        raw.cursor().execute(statement.format(other=other))
    raw.close()
    engine.dispose()
    assert not other.exists()


def test_a_store_in_a_read_only_folder_can_be_read(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/results.db"
    fill(url, tmp_path)
    assert not Path(f"{tmp_path}/results.db-wal").exists()
    # Root may write anywhere, so that the folder's mode alone would not show it here.
    monkeypatch.setattr("os.access", lambda *_: False)
    before = sorted(tmp_path.iterdir())
    engine = reading(url)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM trial")) == 10
        assert sorted(tmp_path.iterdir()) == before
    engine.dispose()


def test_rows_that_a_running_launch_has_not_checkpointed_are_read_too(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/results.db"
    what = fill(url, tmp_path)
    pending = list(what.trials)[5]
    with opened(url) as store:
        store.begin_attempt(pending, ENVIRONMENT)
        assert Path(f"{tmp_path}/results.db-wal").exists()
        monkeypatch.setattr("os.access", lambda *_: False)
        engine = reading(url)
        with engine.connect() as connection:
            statement = text("SELECT state FROM trial WHERE id = :id")
            assert connection.scalar(statement, {"id": pending}) == "running"
        engine.dispose()


def test_reading_leaves_the_file_as_it_was(tmp_path):
    url = f"sqlite:///{tmp_path}/results.db"
    fill(url, tmp_path)
    before = hashlib.sha256((tmp_path / "results.db").read_bytes()).hexdigest()
    engine = reading(url)
    with engine.connect() as connection:
        connection.execute(text("SELECT * FROM results")).all()
    engine.dispose()
    assert hashlib.sha256((tmp_path / "results.db").read_bytes()).hexdigest() == before


def test_the_writer_holds_the_write_lock_from_its_first_statement(tmp_path):
    """A deferred transaction that turns into a write fails at once, whatever the time-out."""
    url = f"sqlite:///{tmp_path}/results.db"
    fill(url, tmp_path)
    engine = writing(url)
    other = sqlite3.connect(tmp_path / "results.db", timeout=0)
    with engine.begin() as connection:
        connection.execute(text("SELECT 1"))
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            other.execute("BEGIN IMMEDIATE")
    other.close()
    engine.dispose()


def test_readers_see_whether_a_launch_holds_the_store_and_do_not_disturb_it(store_url):
    from study.store import Store

    with Store.open(store_url) as store:
        assert not is_claimed(store_url)
        with store.claim():
            assert is_claimed(store_url)
            store.renew_claim()  # looking took nothing away
            assert is_claimed(store_url)
        assert not is_claimed(store_url)
