"""A database that is away, a disk that is full: for real, and the results are those without."""

import os
import shutil
import subprocess

import pytest
from sqlalchemy import create_engine, text

from model.errors import RequestError
from study.definition import Resources
from study.dispatch import SerialDispatcher
from study.engine import address_of
from study.execute import EpochEnded
from study.launch import backlog, launch, prepare_datasets
from study.persistence import Persistence
from study.store import Store
from tests.study.small import planned

RANKS = 'SELECT trial, split, protocol, greater, equal FROM "rank" ORDER BY 1, 2, 3'


def launched(folder, url, *, watch=lambda _: None, persistence=None):
    what = planned("four", folder)
    datasets = prepare_datasets(what, folder)
    with Store.open(url) as store, store.claim():
        left = backlog(what, store, datasets=datasets)
        outcome = launch(
            left.trials,
            store=store,
            dispatcher=SerialDispatcher(Resources()),
            datasets=datasets,
            watch=watch,
            persistence=persistence,
        )
    return left, outcome


def ranks(url):
    engine = create_engine(address_of(url))
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(text(RANKS))]
    engine.dispose()
    assert len(found) == 4 * 4
    return [(*row[:3], bytes(row[3]), bytes(row[4])) for row in found]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The ranks of a launch that nothing happens to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    url = f"sqlite:///{folder}/results.db"
    launched(folder, url)
    return ranks(url)


class Clock:
    """Time passes in pauses; in each of them something may happen."""

    def __init__(self, happens):
        self.now, self._happens, self._pauses = 0.0, happens, 0

    def __call__(self):
        return self.now

    def pause(self, seconds):
        self.now += seconds
        self._pauses += 1
        self._happens(self._pauses)


def once(action):
    """Return a watch that acts after the first epoch."""
    acted = []

    def watch(event):
        if isinstance(event, EpochEnded) and not acted:
            acted.append(event)
            action()

    return watch


@pytest.mark.postgres
def test_a_server_that_is_away_for_a_minute_costs_nothing(
    tmp_path, postgres_database, postgres_server, undisturbed
):
    import psycopg

    name = postgres_database.rsplit("/", 1)[1]

    def administer(*statements):
        with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def go_away():
        administer(
            f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
        )

    def come_back(pauses):
        if pauses == 8:  # 0.5 + 1 + 2 + 4 + 8 + 10 + 10 + 10 seconds
            administer(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

    clock, said = Clock(come_back), []
    persistence = Persistence(60, say=said.append, clock=clock, pause=clock.pause)
    _, outcome = launched(tmp_path, postgres_database, watch=once(go_away), persistence=persistence)
    assert (outcome.completed, outcome.failed) == (4, {})
    assert clock.now == 45.5
    assert len(said) == 2
    assert ranks(postgres_database) == undisturbed


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, of four megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place):
    with (place / "filler").open("wb", buffering=0) as file:
        while shutil.disk_usage(place).free:
            file.write(b"\0" * 4096)


def test_a_disk_that_is_full_for_a_while_costs_nothing(tmp_path, small_disk, undisturbed):
    url = f"sqlite:///{small_disk}/results.db"

    def clear(pauses):
        if pauses == 3:
            (small_disk / "filler").unlink()

    clock = Clock(clear)
    _, outcome = launched(
        tmp_path,
        url,
        watch=once(lambda: fill(small_disk)),
        persistence=Persistence(60, clock=clock, pause=clock.pause),
    )
    assert (outcome.completed, outcome.failed) == (4, {})
    assert clock.now == 0.5 + 1 + 2
    assert ranks(url) == undisturbed


def test_a_disk_that_stays_full_ends_the_launch_and_the_next_one_ends_the_same(
    tmp_path, small_disk, undisturbed
):
    url = f"sqlite:///{small_disk}/results.db"
    clock = Clock(lambda _: None)
    with pytest.raises(RequestError, match=r"disk/results\.db, got: .*full; free space"):
        launched(
            tmp_path,
            url,
            watch=once(lambda: fill(small_disk)),
            persistence=Persistence(60, clock=clock, pause=clock.pause),
        )
    assert clock.now >= 60
    (small_disk / "filler").unlink()
    left, outcome = launched(tmp_path, url)
    assert (len(left.trials), outcome.completed) == (4, 4)
    assert ranks(url) == undisturbed
