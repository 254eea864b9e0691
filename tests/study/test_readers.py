"""Whoever looks at a running study cannot disturb it: ten readers beside a writer under load."""

import threading
import time

import pytest
from sqlalchemy import text

from analysis import frames, query
from analysis.coverage import coverage
from study.engine import BUSY_SECONDS, reading
from tests.stored import ENVIRONMENT, opened, planned, prepared, report, result

READERS, EPOCHS = 10, 12


class Reader(threading.Thread):
    """Opens the store, reads it whole, leaves a cursor open half-way, and begins again."""

    def __init__(self, url):
        super().__init__()
        self.url, self.rounds, self.error = url, 0, None
        self.began, self.stop = threading.Event(), threading.Event()

    def run(self):
        try:
            while not self.stop.is_set():
                self.read()
                self.rounds += 1
        except Exception as error:  # noqa: BLE001 - told by the test, in its own thread
            self.error = error
        finally:
            self.began.set()

    def read(self):
        engine = frames.open_reader(self.url)
        with engine.connect() as connection:
            rows = connection.execute(text("SELECT * FROM cell"))
            rows.fetchmany(3)  # a transaction that stays open over all that follows
            self.began.set()
            assert len(frames.results(engine, "small")) == 10
            coverage(engine, "small")
            query.query(engine, group_by="embeddings")
            query.sql(engine, "SELECT count(*) AS n FROM epoch_metric")
            rows.close()
        engine.dispose()


@pytest.mark.slow
def test_ten_readers_neither_block_nor_break_a_writer_under_load(store_url, tmp_path):
    what = planned("small", tmp_path)
    data, config = prepared(what, tmp_path)
    with opened(store_url) as store, store.claim():
        store.record_dataset(data, config)
        store.record_plan(what)
        readers = [Reader(store_url) for _ in range(READERS)]
        for reader in readers:
            reader.start()
        for reader in readers:
            assert reader.began.wait(timeout=240)
        longest = 0.0
        for trial in what.trials:
            attempt = store.begin_attempt(trial, ENVIRONMENT, fingerprint=data.fingerprint)
            for epoch in range(1, EPOCHS + 1):
                before = time.monotonic()
                store.record_epoch(trial, attempt, report(epoch))
                longest = max(longest, time.monotonic() - before)
            store.complete(trial, attempt, result(0.4), fingerprint=data.fingerprint)
        for reader in readers:
            reader.stop.set()
        for reader in readers:
            reader.join(timeout=240)
            assert not reader.is_alive()
        assert [reader.error for reader in readers] == [None] * READERS
        assert all(reader.rounds >= 1 for reader in readers)
        # A writer that a reader blocks waits for so long, and then fails.
        assert longest < BUSY_SECONDS
        assert set(store.states(list(what.trials)).values()) == {"complete"}
    engine = reading(store_url)
    with engine.connect() as connection:
        losses = "SELECT count(*) FROM epoch_metric WHERE metric = 'loss'"
        assert connection.scalar(text(losses)) == 10 * EPOCHS
    engine.dispose()


def test_a_transaction_that_a_reader_leaves_open_does_not_stop_a_batch(store_url, tmp_path):
    what = planned("small", tmp_path)
    with opened(store_url) as store:
        store.record_plan(what)
        engine = reading(store_url)
        with engine.connect() as connection:
            rows = connection.execute(text("SELECT id FROM trial"))
            rows.fetchone()
            with store.together():
                for trial in what.trials:
                    attempt = store.begin_attempt(trial, ENVIRONMENT)
                    store.record_epochs([(trial, attempt, report(1)), (trial, attempt, report(2))])
            # The reader's snapshot is the one from before.
            assert connection.execute(text("SELECT count(*) FROM attempt")).scalar() == 0
            rows.close()
        with engine.connect() as connection:
            assert connection.scalar(text("SELECT count(*) FROM curves")) == 20
        engine.dispose()
