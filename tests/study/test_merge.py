"""Two machines' databases become one: the complete one of each trial, nothing lost, told twice."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from model.errors import RequestError
from study.engine import reading
from study.merge import merge
from study.store import Store
from tests.stored import ENVIRONMENT, STUDIES, Clock, planned, prepared, report, result

ELSEWHERE = replace(ENVIRONMENT, cpu="another processor")


class LaterClock(Clock):
    """The clock of a machine that began an hour later."""

    def __init__(self):
        super().__init__()
        self.moment += timedelta(hours=1)


@pytest.fixture
def plan(tmp_path):
    return planned("small", tmp_path)


@pytest.fixture
def fingerprint(plan, tmp_path):
    return prepared(plan, tmp_path)[0].fingerprint


@pytest.fixture
def other_url(tmp_path):
    return f"sqlite:///{tmp_path}/other.db"


class Machine:
    """One machine's store, filled by hand."""

    def __init__(self, url, clock, where, folder, *, plan):
        self.url, self.clock, self.where, self.plan = url, clock, where, plan
        data, config = prepared(plan, folder)
        self.fingerprint = data.fingerprint
        with self.opened() as store:
            store.record_dataset(data, config)
            store.record_plan(plan)

    def opened(self):
        return Store.open(self.url, clock=self.clock)

    def complete(self, *places, value=0.4):
        with self.opened() as store:
            for place in places:
                trial = list(self.plan.trials)[place]
                attempt = store.begin_attempt(trial, self.where, fingerprint=self.fingerprint)
                store.record_epoch(trial, attempt, report(1))
                store.complete(trial, attempt, result(value), fingerprint=self.fingerprint)

    def fail(self, place, failure):
        trial = list(self.plan.trials)[place]
        with self.opened() as store:
            attempt = store.begin_attempt(trial, self.where, fingerprint=self.fingerprint)
            store.fail(trial, attempt, failure=failure, message=f"{failure} there")

    def begin(self, place):
        trial = list(self.plan.trials)[place]
        with self.opened() as store:
            return store.begin_attempt(trial, self.where, fingerprint=self.fingerprint)

    def ask(self, statement):
        engine = reading(self.url)
        with engine.connect() as connection:
            found = [tuple(row) for row in connection.execute(text(statement))]
        engine.dispose()
        return found

    def states(self):
        with self.opened() as store:
            found = store.states(list(self.plan.trials))
        return [found[trial] for trial in self.plan.trials]

    def everything(self):
        tables = ("study", "cell", "trial", "attempt", "epoch_metric", "result", "rank")
        return {name: sorted(map(repr, self.ask(f"SELECT * FROM {name}"))) for name in tables}


@pytest.fixture
def here(store_url, plan, tmp_path):
    return Machine(store_url, Clock(), ENVIRONMENT, tmp_path, plan=plan)


@pytest.fixture
def there(other_url, plan, tmp_path):
    return Machine(other_url, LaterClock(), ELSEWHERE, tmp_path, plan=plan)


def merged(here, there):
    return merge(here.url, there.url, clock=here.clock)


def test_each_trial_is_complete_if_it_is_in_one_of_the_two(here, there):
    here.complete(0, 1)
    there.complete(1, 2, 3)
    done = merged(here, there)
    assert here.states() == ["complete"] * 4 + ["pending"] * 6
    assert (done.trials, done.attempts, done.completed, done.studies) == (0, 3, 2, [])
    assert done.conflicts == []  # trial 1 has equal results in both
    assert here.ask("SELECT count(*) FROM result") == [(5,)]
    assert here.ask("SELECT count(*) FROM rank") == [(20,)]
    assert here.ask("SELECT count(*) FROM curves") == [(4,)]


def test_a_merge_repeated_changes_nothing(here, there):
    here.complete(0, 1)
    there.complete(1, 2)
    there.fail(4, "oom")
    there.begin(5)
    first = merged(here, there)
    assert first.changed
    before = here.everything()
    again = merged(here, there)
    assert not again.changed
    assert again.conflicts == first.conflicts
    assert here.everything() == before


def test_overlapping_results_that_differ_are_told_and_both_are_kept(here, there):
    here.complete(0, 1, value=0.4)
    there.complete(1, 2, value=0.5)
    [conflict] = merged(here, there).conflicts
    trial = list(here.plan.trials)[1]
    assert (conflict.kind, conflict.what) == ("result", trial)
    assert conflict.detail.startswith("validation_ndcg@5 0.36 here, 0.45 there and ")
    assert conflict.detail.endswith("kept the result here, theirs is attempt 2")
    shown = 'SELECT "validation_ndcg@10", attempts FROM results'
    assert here.ask(f"{shown} WHERE trial = '{trial}'") == [(0.4, 2)]
    kept = 'SELECT attempt, "validation_ndcg@10" FROM result'
    assert here.ask(f"{kept} WHERE trial = '{trial}' ORDER BY 1") == [(1, 0.4), (2, 0.5)]


def test_results_on_other_data_are_told_by_their_fingerprints(here, there, fingerprint):
    there.fingerprint = "f" * 64
    with there.opened() as store, store.together():
        data = ("f" * 64, "tiny", 20, 12, 160, 179, "{}")
        columns = "fingerprint, name, n_users, n_items, n_interactions, n_days, preparation"
        store._open.exec_driver_sql(f"INSERT INTO dataset ({columns}) VALUES {data}")
    here.complete(0)
    there.complete(0)
    [conflict] = merged(here, there).conflicts
    assert conflict.kind == "fingerprint"
    assert conflict.detail.startswith(f"here on data {fingerprint[:12]}, there on ffffffffffff")
    assert here.ask("SELECT count(DISTINCT fingerprint) FROM result") == [(2,)]


def test_failures_are_history_and_the_last_attempt_decides(here, there):
    here.fail(0, "oom")
    here.fail(1, "lost")
    there.fail(0, "lost")
    there.fail(1, "error")
    merged(here, there)
    assert here.states()[:2] == ["pending", "failed"]
    assert here.ask("SELECT number, failure FROM attempt ORDER BY started_at") == [
        (1, "oom"),
        (1, "lost"),
        (2, "lost"),
        (2, "error"),
    ]


def test_an_attempt_that_still_ran_elsewhere_is_lost_until_it_is_merged_again(here, there):
    number = there.begin(0)
    merged(here, there)
    assert here.states()[0] == "pending"
    assert here.ask("SELECT state, failure FROM attempt") == [("failed", "lost")]
    trial = next(iter(there.plan.trials))
    with there.opened() as store:
        store.complete(trial, number, result(0.4), fingerprint=there.fingerprint)
    done = merged(here, there)
    assert (done.attempts, done.completed) == (1, 1)
    assert here.ask("SELECT number, state, failure FROM attempt") == [(1, "complete", None)]
    assert here.ask('SELECT "validation_ndcg@10" FROM results WHERE best_epoch > 0') == [(0.4,)]


def test_trials_and_studies_that_are_new_here_come_whole(here, other_url, tmp_path):
    wider = planned("shares", tmp_path)
    there = Machine(other_url, LaterClock(), ELSEWHERE, tmp_path, plan=wider)
    there.complete(0, 1)
    done = merged(here, there)
    assert (done.studies, done.trials, done.attempts) == (["shares"], 1, 2)
    assert here.ask("SELECT count(*) FROM results WHERE study = 'shares'") == [(2,)]
    assert here.ask("SELECT DISTINCT cpu FROM environment") == [("another processor",)]


def test_a_study_declared_differently_is_kept_beside(here, other_url, tmp_path):
    narrow = planned("small", tmp_path, text=STUDIES.replace("seeds: [0, 1]", "seeds: [0]"))
    there = Machine(other_url, LaterClock(), ELSEWHERE, tmp_path, plan=narrow)
    done = merged(here, there)
    [name] = done.studies
    assert name.startswith("small~")
    assert [(c.kind, c.what) for c in done.conflicts] == [("study", "small")]
    assert here.ask("SELECT name, declared FROM study ORDER BY 1") == [("small", 18), (name, 9)]
    assert merged(here, there).studies == []


def test_a_database_is_not_merged_with_itself_nor_while_a_launch_writes(here, there):
    with pytest.raises(RequestError, match="twice; name another"):
        merge(here.url, here.url, clock=here.clock)
    with (
        here.opened() as store,
        store.claim(),
        pytest.raises(RequestError, match="another is writing"),
    ):
        merged(here, there)
