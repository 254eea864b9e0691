"""The driver is killed or interrupted for real; the next launch ends with the same results."""

import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from tests.console import SCRIPT, environment, meantime
from tests.study.small import written

pytestmark = [pytest.mark.ray, pytest.mark.slow]

TRIALS = 4
PATIENCE_SECONDS = 120.0


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    written(folder)
    done = meantime("launch", "long", folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""  # Ray and Tune print nothing of their own
    return folder


def rows(folder: Path, statement: str) -> list[tuple]:
    connection = sqlite3.connect(f"file:{folder}/results.db?mode=ro", uri=True)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def started_and_under_way(folder: Path) -> subprocess.Popen[str]:
    """Start a launch and return once a trial is complete and another has ended an epoch."""
    written(folder)
    process = subprocess.Popen(
        [SCRIPT, "launch", "long"],
        cwd=folder,
        env=environment(folder),
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if line.startswith("[1/4]"):
            break
    # Far from its end, so that the trial is still under way when the signal comes.
    under_way = (
        "SELECT 1 FROM attempt JOIN epoch_metric ON epoch_metric.attempt = attempt.number "
        "AND epoch_metric.trial = attempt.trial WHERE attempt.state = 'running' "
        "GROUP BY attempt.trial HAVING max(epoch) < 80"
    )
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not rows(folder, under_way):
        assert time.monotonic() < give_up, "no trial got under way"
    return process


def alive(folder: Path) -> list[str]:
    """Return the processes of launches in this folder, Ray's among them."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"MEANTIME_DATA={folder}/data".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text(errors="replace"))
        except OSError:
            continue
    return found


def ranks(folder: Path) -> list[tuple]:
    found = rows(
        folder, 'SELECT trial, split, protocol, greater, equal FROM "rank" ORDER BY 1, 2, 3'
    )
    assert len(found) == TRIALS * 4
    return found


def assert_recovers(folder: Path, uninterrupted: Path, *, failure: str) -> None:
    again = meantime("launch", "long", folder=folder)
    assert again.returncode == 0, again.stderr
    completes = rows(
        folder, "SELECT trial, count(*) FROM attempt WHERE state = 'complete' GROUP BY 1"
    )
    assert len(completes) == TRIALS
    assert {count for _, count in completes} == {1}
    failures = {row[0] for row in rows(folder, "SELECT failure FROM attempt WHERE state='failed'")}
    assert failures == {failure}
    assert ranks(folder) == ranks(uninterrupted)


def test_a_killed_driver_leaves_lost_attempts_and_the_next_launch_ends_the_same(
    tmp_path, uninterrupted
):
    process = started_and_under_way(tmp_path)
    for state in ("while it runs", "after it died"):
        found = meantime(
            "query", "--where", "state = 'complete'", "--format", "csv", folder=tmp_path
        )
        assert found.returncode == 0, (state, found.stderr)
        assert 1 <= len(found.stdout.splitlines()) - 1 <= TRIALS
        process.kill()
        process.wait()
    process.stderr.close()
    give_up = time.monotonic() + 10
    while alive(tmp_path):  # they notice that the driver is gone
        assert time.monotonic() < give_up, alive(tmp_path)
    kept = list((tmp_path / "results.db.checkpoints").glob("*.checkpoint"))
    assert kept  # the next launch goes on from here
    assert_recovers(tmp_path, uninterrupted, failure="lost")
    assert not list((tmp_path / "results.db.checkpoints").iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_cleanly_within_seconds_and_the_next_launch_continues(
    tmp_path, uninterrupted, number
):
    process = started_and_under_way(tmp_path)
    process.send_signal(number)
    asked = time.monotonic()
    said = process.stderr.read()
    assert process.wait() == 130
    assert time.monotonic() - asked < 10
    process.stderr.close()
    assert alive(tmp_path) == []
    assert "continues with the trials that are left" in said
    assert "Traceback" not in said
    assert set(rows(tmp_path, "SELECT failure FROM attempt WHERE state = 'failed'")) == {
        ("cancelled",)
    }
    if number == signal.SIGINT:  # what is left to do is the same after both
        assert_recovers(tmp_path, uninterrupted, failure="cancelled")


def test_a_complete_study_starts_nothing_and_says_so(uninterrupted):
    again = meantime("launch", "long", folder=uninterrupted)
    assert again.returncode == 0
    assert "Nothing to start: 4 of 4 trials of long are complete" in again.stderr
    assert rows(uninterrupted, "SELECT count(*) FROM attempt") == [(TRIALS,)]
