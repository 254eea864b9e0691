"""The store's contract, on SQLite and on PostgreSQL: late, double and stray reports do no harm."""

import math
import signal
import subprocess
import sys
from datetime import UTC, datetime

import numpy as np
import pytest
from sqlalchemy import create_engine, event, text

from model.errors import RequestError
from model.results import EpochReport, MetricValue
from study.engine import reading
from study.packing import unpack
from study.store import Store
from tests.stored import ENVIRONMENT, STUDIES, opened, planned, prepared, report, result


@pytest.fixture
def plan(tmp_path):
    return planned("small", tmp_path)


@pytest.fixture
def store(store_url, plan, tmp_path):
    with opened(store_url) as store, store.claim():
        store.record_dataset(*prepared(plan, tmp_path))
        store.record_plan(plan)
        yield store


@pytest.fixture
def fingerprint(plan, tmp_path):
    return prepared(plan, tmp_path)[0].fingerprint


@pytest.fixture
def trial(plan):
    return next(iter(plan.trials))


@pytest.fixture
def ask(store_url):
    """Run a SELECT on a connection of its own."""

    def run(statement):
        engine = reading(store_url)
        with engine.connect() as connection:
            rows = [tuple(row) for row in connection.execute(text(statement))]
        engine.dispose()
        return rows

    return run


def test_every_new_trial_is_pending_and_every_cell_is_there(store, plan, ask):
    assert len(plan.trials) == 10
    assert store.states(list(plan.trials)) == dict.fromkeys(plan.trials, "pending")
    assert ask("SELECT state, count(*) FROM cell GROUP BY 1 ORDER BY 1") == [
        ("duplicate", 4),
        ("feasible", 10),
        ("infeasible", 4),
    ]
    assert ask("SELECT declared, question FROM study") == [(18, "Does order matter?")]


def test_planning_again_keeps_what_was_trained(store, plan, trial, fingerprint, ask):
    attempt = store.begin_attempt(trial, ENVIRONMENT)
    store.complete(trial, attempt, result(0.4), fingerprint=fingerprint)
    store.record_plan(plan)
    assert store.states([trial]) == {trial: "complete"}
    assert ask("SELECT count(*) FROM cell") == [(18,)]


def test_a_trial_that_no_study_asks_for_any_more_stays_only_if_it_was_begun(
    store, plan, trial, tmp_path, ask
):
    store.begin_attempt(trial, ENVIRONMENT)
    narrow = planned(
        "small", tmp_path, text=STUDIES.replace("[none, [pos], [pos, log]]", "[[pos]]")
    )
    assert plan.trials[trial].label == "none"
    store.record_plan(narrow)
    assert set(store.states(list(plan.trials))) == {trial, *narrow.trials}
    assert ask(f"SELECT study, state FROM results WHERE trial = '{trial}'") == [(None, "running")]


def test_two_studies_share_one_trial_and_both_show_it(store, tmp_path, plan, ask):
    other = planned("shares", tmp_path)
    store.record_plan(other)
    assert len(set(plan.trials) & set(other.trials)) == 1
    assert ask("SELECT count(*) FROM trial") == [(11,)]
    [(shared,)] = ask("SELECT trial FROM results GROUP BY trial HAVING count(*) = 2")
    assert ask(f"SELECT study FROM results WHERE trial = '{shared}' ORDER BY 1") == [
        ("shares",),
        ("small",),
    ]


def test_states_leaves_out_trials_that_the_store_does_not_know(store, trial):
    many = [f"{number:016x}" for number in range(25_000)]
    assert store.states([*many, trial]) == {trial: "pending"}
    assert store.states([]) == {}


def test_a_trial_is_begun_by_one_attempt_only(store, trial, ask):
    assert store.begin_attempt(trial, ENVIRONMENT) == 1
    with pytest.raises(RuntimeError, match="only a pending trial"):
        store.begin_attempt(trial, ENVIRONMENT)
    assert ask("SELECT number, state FROM attempt") == [(1, "running")]


def test_a_completed_trial_has_its_result_in_the_view(store, trial, fingerprint, ask):
    attempt = store.begin_attempt(trial, ENVIRONMENT)
    assert store.complete(trial, attempt, result(0.4), fingerprint=fingerprint)
    columns = (
        'study, state, failure, best_epoch, epochs_trained, stopped_by, "validation_ndcg@10", '
        '"test_ndcg@10", "test_full_recall@10", "test_mrr", n_parameters, seconds, attempts, '
        'device, "commit", fingerprint'
    )
    [row] = ask(f"SELECT {columns} FROM results WHERE trial = '{trial}'")
    assert row == (
        *("small", "complete", None, 2, 3, "patience", 0.4),
        *(0.4 * 0.5, 0.4 * 0.5 * 1.5, None, 1234, 2.5, 1),
        *("cpu", "0" * 40, fingerprint),
    )


def test_the_final_metrics_stand_at_the_best_epoch_beside_those_reported_before(
    store, trial, fingerprint, ask
):
    attempt = store.begin_attempt(trial, ENVIRONMENT)
    store.record_epoch(trial, attempt, report(2, ndcg=0.4))
    store.complete(trial, attempt, result(0.4, best_epoch=2), fingerprint=fingerprint)
    assert ask(
        "SELECT split, protocol, count(*) FROM epoch_metric GROUP BY 1, 2 ORDER BY 1, 2"
    ) == [
        ("test", "full", 3),
        ("test", "popular-100", 3),
        ("train", "none", 2),
        ("validation", "full", 3),
        ("validation", "popular-100", 3),
    ]


def test_ranks_come_back_as_they_were(store, trial, fingerprint, ask):
    attempt = store.begin_attempt(trial, ENVIRONMENT)
    store.complete(trial, attempt, result(0.4, users=3), fingerprint=fingerprint)
    stored = ask("SELECT split, protocol, n_users, greater, equal FROM rank")
    assert len(stored) == 4
    for _, _, users, greater, equal in stored:
        assert users == 3
        assert unpack(greater).tolist() == [0, 1, 2]
        assert unpack(equal).tolist() == [7, 7, 7]


def test_a_result_that_comes_twice_counts_once(store, trial, fingerprint, ask):
    attempt = store.begin_attempt(trial, ENVIRONMENT)
    assert store.complete(trial, attempt, result(0.4), fingerprint=fingerprint)
    assert not store.complete(trial, attempt, result(0.9), fingerprint=fingerprint)
    assert ask('SELECT "validation_ndcg@10" FROM result') == [(0.4,)]


def test_a_late_result_of_an_attempt_given_up_as_lost_counts_once(store, trial, fingerprint, ask):
    first = store.begin_attempt(trial, ENVIRONMENT)
    assert store.mark_lost() == [trial]
    second = store.begin_attempt(trial, ENVIRONMENT)
    assert (first, second) == (1, 2)
    assert store.complete(trial, first, result(0.4), fingerprint=fingerprint)
    assert not store.complete(trial, second, result(0.3), fingerprint=fingerprint)
    assert ask('SELECT state, attempts, "validation_ndcg@10" FROM results WHERE attempts > 0') == [
        ("complete", 2, 0.4)
    ]
    assert ask("SELECT number, state, failure FROM attempt ORDER BY 1") == [
        (1, "complete", None),
        (2, "complete", None),
    ]


@pytest.mark.parametrize(
    ("failure", "state"),
    [
        ("oom", "failed"),
        ("diverged", "failed"),
        ("error", "failed"),
        ("lost", "pending"),
        ("cancelled", "pending"),
    ],
)
def test_only_a_failure_of_the_trial_itself_makes_it_failed(store, trial, failure, state, ask):
    attempt = store.begin_attempt(trial, ENVIRONMENT)
    store.fail(trial, attempt, failure=failure, message="why", traceback="where")
    assert store.states([trial]) == {trial: state}
    assert ask("SELECT state, failure, message, traceback FROM attempt") == [
        ("failed", failure, "why", "where")
    ]
    shown = failure if state == "failed" else None
    assert ask(f"SELECT failure FROM results WHERE trial = '{trial}'") == [(shown,)]


def test_a_failure_after_the_end_of_an_attempt_changes_nothing(store, trial, fingerprint, ask):
    attempt = store.begin_attempt(trial, ENVIRONMENT)
    store.complete(trial, attempt, result(0.4), fingerprint=fingerprint)
    store.fail(trial, attempt, failure="lost", message="the worker left")
    assert store.states([trial]) == {trial: "complete"}
    assert ask("SELECT state, failure FROM attempt") == [("complete", None)]


def test_a_late_failure_leaves_the_attempt_that_came_after_alone(store, trial, ask):
    first = store.begin_attempt(trial, ENVIRONMENT)
    store.fail(trial, first, failure="lost", message="silent")
    store.begin_attempt(trial, ENVIRONMENT)
    store.fail(trial, first, failure="error", message="late")
    assert store.states([trial]) == {trial: "running"}
    assert ask("SELECT number, failure, message FROM attempt ORDER BY 1") == [
        (1, "lost", "silent"),
        (2, None, None),
    ]


def test_resetting_failed_trials_keeps_their_tracebacks(store, plan, ask):
    first, second, third, _ = list(plan.trials)[:4]
    for trial, failure in ((first, "oom"), (second, "error"), (third, "oom")):
        attempt = store.begin_attempt(trial, ENVIRONMENT)
        store.fail(trial, attempt, failure=failure, message="", traceback=f"of {trial}")
    assert store.reset_failed([first, second], classes=["oom"]) == [first]
    assert store.states([first, second, third]) == {
        first: "pending",
        second: "failed",
        third: "failed",
    }
    assert store.reset_failed([first, second], classes=[]) == []
    assert ask(f"SELECT traceback FROM attempt WHERE trial = '{first}'") == [(f"of {first}",)]


def test_a_trial_stopped_early_is_censored_without_a_result_until_it_is_wanted_whole(
    store, trial, ask
):
    attempt = store.begin_attempt(trial, ENVIRONMENT)
    store.record_epoch(trial, attempt, report(1))
    store.censor(trial, attempt, epoch=1)
    assert store.states([trial]) == {trial: "censored"}
    assert ask("SELECT state, message FROM attempt") == [
        ("censored", "stopped early after epoch 1")
    ]
    assert ask("SELECT count(*) FROM result") == [(0,)]
    assert store.uncensor([trial]) == [trial]
    assert store.begin_attempt(trial, ENVIRONMENT) == attempt + 1


def test_only_a_running_attempt_can_be_stopped_early(store, trial, fingerprint):
    attempt = store.begin_attempt(trial, ENVIRONMENT)
    store.complete(trial, attempt, result(0.5), fingerprint=fingerprint)
    store.censor(trial, attempt, epoch=2)
    assert store.states([trial]) == {trial: "complete"}
    assert store.uncensor([trial]) == []


def test_only_the_launch_that_holds_the_store_may_declare_attempts_lost(store_url):
    with opened(store_url) as store, pytest.raises(RuntimeError, match="claimed"):
        store.mark_lost()


def test_a_result_on_other_data_is_stale_and_is_not_erased(store, plan, fingerprint, ask):
    first, second = list(plan.trials)[:2]
    attempt = store.begin_attempt(first, ENVIRONMENT)
    store.complete(first, attempt, result(0.4), fingerprint=fingerprint)
    tiny = plan.trials[first].config().dataset
    other = tiny.model_copy(update={"name": "other"})
    filtered = tiny.model_copy(update={"min_interactions": 9})
    rated = tiny.model_copy(update={"min_rating": 3.5})
    assert store.stale({tiny: fingerprint}) == []
    assert store.stale(dict.fromkeys((other, filtered, rated), "f" * 64)) == []
    assert store.stale({tiny: "f" * 64, other: "f" * 64}) == [first]
    assert store.states([first, second]) == {first: "pending", second: "pending"}
    assert ask("SELECT count(*) FROM result") == [(1,)]
    assert ask(f"SELECT \"test_ndcg@10\", fingerprint FROM results WHERE trial = '{first}'") == [
        (None, None)
    ]


def test_data_that_changed_make_the_results_of_every_study_stale(store, plan, fingerprint):
    first, second = list(plan.trials)[:2]
    for trial in (first, second):
        attempt = store.begin_attempt(trial, ENVIRONMENT)
        store.complete(trial, attempt, result(0.4), fingerprint=fingerprint)
    tiny = plan.trials[first].config().dataset
    # A study that asks for neither trial is launched on the new data.
    assert sorted(store.stale({tiny: "f" * 64})) == sorted([first, second])
    assert store.states([first, second]) == {first: "pending", second: "pending"}


def test_a_stale_trial_can_be_trained_again(store, plan, trial, fingerprint, ask):
    attempt = store.begin_attempt(trial, ENVIRONMENT)
    store.complete(trial, attempt, result(0.4), fingerprint=fingerprint)
    store.stale({plan.trials[trial].config().dataset: "f" * 64})
    again = store.begin_attempt(trial, ENVIRONMENT)
    assert store.complete(trial, again, result(0.6), fingerprint=fingerprint)
    assert ask(f"SELECT \"validation_ndcg@10\" FROM results WHERE trial = '{trial}'") == [(0.6,)]
    assert ask("SELECT count(*) FROM rank") == [(8,)]


def test_nan_and_infinity_survive(store, trial, ask):
    attempt = store.begin_attempt(trial, ENVIRONMENT)
    values = {"a": math.nan, "b": math.inf, "c": -math.inf, "d": 0.1}
    metrics = tuple(MetricValue("train", "none", name, v) for name, v in values.items())
    store.record_epoch(trial, attempt, EpochReport(1, 0.5, metrics))
    assert ask("SELECT metric, value FROM epoch_metric WHERE metric < 'e' ORDER BY 1") == [
        ("a", None),
        ("b", math.inf),
        ("c", -math.inf),
        ("d", 0.1),
    ]


def test_an_epoch_reported_twice_counts_once(store, trial, ask):
    attempt = store.begin_attempt(trial, ENVIRONMENT)
    store.record_epoch(trial, attempt, report(1, loss=1.0))
    store.record_epoch(trial, attempt, report(1, loss=9.0))
    assert ask("SELECT metric, value FROM epoch_metric ORDER BY 1") == [
        ("loss", 1.0),
        ("ndcg@10", 0.25),
        ("seconds", 0.5),
    ]


def test_what_is_recorded_together_is_seen_at_once_or_not_at_all(store, plan, fingerprint, ask):
    first, second = list(plan.trials)[:2]
    with store.together():
        one = store.begin_attempt(first, ENVIRONMENT, fingerprint=fingerprint)
        store.record_epochs([(first, one, report(1)), (first, one, report(2))])
        assert ask("SELECT count(*) FROM attempt") == [(0,)]
        store.complete(first, one, result(0.4), fingerprint=fingerprint)
    assert ask("SELECT count(*) FROM curves") == [(2,)]
    with pytest.raises(ZeroDivisionError), store.together():  # noqa: PT012 - both are one batch
        store.begin_attempt(second, ENVIRONMENT)
        store.record_epoch(second, 1 // 0, report(1))
    assert store.states([first, second]) == {first: "complete", second: "pending"}
    assert store.begin_attempt(second, ENVIRONMENT) == 1


def test_epochs_that_are_recorded_together_are_one_statement(store, plan, fingerprint, ask):
    first, second = list(plan.trials)[:2]
    numbers = [
        store.begin_attempt(t, ENVIRONMENT, fingerprint=fingerprint) for t in (first, second)
    ]
    sent = []
    event.listen(store.engine, "before_cursor_execute", lambda *seen: sent.append(seen[2]))
    with store.together():
        for epoch in (1, 2):
            for trial, attempt in zip((first, second), numbers, strict=True):
                store.record_epoch(trial, attempt, report(epoch))
        assert sent == ["BEGIN IMMEDIATE"][: len(sent)]
        store.complete(first, numbers[0], result(0.9), fingerprint=fingerprint)
        store.record_epoch(second, numbers[1], report(3))
    inserts = [each for each in sent if each.startswith("INSERT INTO epoch_metric")]
    # Two epochs of both, what completed the first, the third epoch of the second.
    assert len(inserts) == 3
    # An epoch was recorded before the result: its own number stays.
    said = 'SELECT trial, epoch, "validation_ndcg@10" FROM curves ORDER BY trial, epoch'
    at = [(first, 1), (first, 2), (second, 1), (second, 2), (second, 3)]
    assert ask(said) == [(*place, 0.25) for place in sorted(at)]
    with pytest.raises(ZeroDivisionError), store.together():  # noqa: PT012 - both are one batch
        store.record_epoch(second, numbers[1], report(4))
        store.record_epoch(second, 1 // 0, report(5))
    store.record_epoch(second, numbers[1], report(6))
    found = ask("SELECT DISTINCT epoch FROM curves ORDER BY epoch")
    assert found == [(1,), (2,), (3,), (6,)]


def test_numbers_of_numpy_are_stored_as_numbers(store, trial, ask):
    attempt = store.begin_attempt(trial, ENVIRONMENT)
    metric = MetricValue("train", "none", "loss", np.float32(0.25))
    store.record_epoch(trial, attempt, EpochReport(np.int64(3), np.float64(0.5), (metric,)))
    assert ask("SELECT sum(epoch), sum(value) FROM epoch_metric") == [(6, 0.75)]


def test_an_attempt_says_where_it_ran_on_which_code_and_data(store, trial, fingerprint, ask):
    store.begin_attempt(trial, ENVIRONMENT, fingerprint=fingerprint)
    [row] = ask(
        'SELECT "commit", dirty, python, torch, ray, cpu, gpus, device, threads, fingerprint '
        "FROM attempt JOIN environment ON environment.id = attempt.environment"
    )
    assert row == (
        *("0" * 40, False, "3.11.7", "2.13.0", "2.60.0"),
        *("a processor", "", "cpu", 1, fingerprint),
    )


def test_equal_environments_are_stored_once(store, plan, ask):
    for trial in list(plan.trials)[:3]:
        store.begin_attempt(trial, ENVIRONMENT)
    assert ask('SELECT "commit", cpu, gpus, threads FROM environment') == [
        ("0" * 40, "a processor", "", 1)
    ]


def test_a_result_of_unknown_data_is_refused_and_leaves_nothing_behind(store, trial, ask):
    from sqlalchemy.exc import IntegrityError

    attempt = store.begin_attempt(trial, ENVIRONMENT)
    with pytest.raises(IntegrityError):
        store.complete(trial, attempt, result(0.4), fingerprint="unknown")
    assert store.states([trial]) == {trial: "running"}
    assert ask("SELECT state FROM attempt") == [("running",)]
    assert ask("SELECT count(*) FROM result") == [(0,)]


def test_times_are_utc_whatever_the_clock_says(store, trial, store_url):
    from analysis.frames import attempts

    store.begin_attempt(trial, ENVIRONMENT)
    engine = reading(store_url)
    started = attempts(engine)["started_at"].iloc[0]
    engine.dispose()
    # The test clock's first look, 12:00:01 UTC, was the plan's; it tells 17:30:02 at +05:30.
    assert started == datetime(2026, 3, 1, 12, 0, 2, tzinfo=UTC)
    assert started.utcoffset().total_seconds() == 0


def test_a_clock_without_a_time_zone_is_refused(store_url, plan):
    from sqlalchemy.exc import StatementError

    naive = datetime(2026, 3, 1, 12)  # noqa: DTZ001
    with (
        Store.open(store_url, clock=lambda: naive) as store,
        pytest.raises(StatementError, match="time zone"),
    ):
        store.record_plan(plan)


def test_a_second_launch_is_told_that_another_one_writes(store_url):
    with opened(store_url) as one, opened(store_url) as other:
        with one.claim(), pytest.raises(RequestError, match="another is writing"), other.claim():
            pass
        with other.claim():
            pass


HOLD = """
import sys
from study.store import Store
with Store.open(sys.argv[1]) as store, store.claim():
    print("claimed", flush=True)
    sys.stdin.read()
"""


def test_a_killed_launch_holds_the_store_no_longer(store_url):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, store_url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder, opened(store_url) as store:
        assert holder.stdout.readline() == "claimed\n"
        with pytest.raises(RequestError, match="another is writing"), store.claim():
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        if store_url.startswith("postgresql"):
            # The server notices the closed socket by itself, a moment later.
            engine = create_engine(store_url.replace("postgresql:", "postgresql+psycopg:"))
            with engine.connect() as connection:
                held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                while connection.scalar(text(held)):
                    connection.rollback()
            engine.dispose()
        with store.claim():
            pass


def test_a_reader_in_the_middle_of_a_query_does_not_stop_the_writer(store, trial, store_url):
    engine = reading(store_url)
    count = text("SELECT count(*) FROM attempt")
    with engine.connect() as connection:
        connection.execute(count)
        rows = connection.execute(text("SELECT id FROM trial"))
        rows.fetchone()
        assert store.begin_attempt(trial, ENVIRONMENT) == 1
        rows.close()
    with engine.connect() as connection:
        assert connection.scalar(count) == 1
    engine.dispose()
