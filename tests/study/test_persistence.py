"""A store that is away for a while costs nothing; one that stays away ends the launch cleanly."""

import pytest
from sqlalchemy.exc import DataError, OperationalError

from model.errors import RequestError
from study.persistence import Persistence, unwritable
from study.store import Store


class Clock:
    """Time passes in pauses alone."""

    def __init__(self):
        self.now, self.pauses = 0.0, []

    def __call__(self):
        return self.now

    def pause(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


def down(times):
    """Return a write that fails so often before it succeeds, and the list of its successes."""
    left, done = [times], []

    def write():
        if left[0]:
            left[0] -= 1
            raise OperationalError("INSERT", {}, OSError("server closed the connection"))
        done.append(True)

    return write, done


@pytest.fixture
def store(tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/results.db") as opened, opened.claim():
        yield opened


def test_a_write_is_tried_at_growing_intervals_until_it_succeeds(store):
    clock, said = Clock(), []
    write, done = down(7)
    Persistence(180, say=said.append, clock=clock, pause=clock.pause).write(write, store=store)
    assert done == [True]
    assert clock.pauses == [0.5, 1, 2, 4, 8, 10, 10]
    assert len(said) == 2
    assert "cannot be written: server closed the connection; trying for 180 s" in said[0]
    assert "written again" in said[1]


def test_after_the_declared_time_the_launch_is_told(store):
    clock = Clock()
    write, done = down(1000)
    with pytest.raises(OperationalError) as caught:
        Persistence(60, clock=clock, pause=clock.pause).write(write, store=store)
    assert done == []
    assert 60 <= clock.now < 70
    assert "results.db, got: server closed the connection; free space" in str(
        unwritable(store, caught.value)
    )


def test_what_waiting_cannot_mend_is_not_waited_for(store):
    clock = Clock()

    def wrong():
        raise DataError("INSERT", {}, ValueError("out of range"))

    with pytest.raises(DataError):
        Persistence(60, clock=clock, pause=clock.pause).write(wrong, store=store)
    assert clock.pauses == []


@pytest.mark.postgres
def test_a_server_that_starts_anew_gives_the_claim_back_unless_another_launch_has_it(
    postgres_database,
):
    import psycopg

    def disconnect():
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )

    with Store.open(postgres_database) as store, store.claim():
        disconnect()
        store.renew_claim()
        with (
            Store.open(postgres_database) as other,
            pytest.raises(RequestError, match="one launch"),
            other.claim(),
        ):
            pass
        disconnect()
        with (
            Store.open(postgres_database) as faster,
            faster.claim(),
            pytest.raises(RequestError, match="one launch writes to a store at a time"),
        ):
            store.renew_claim()
