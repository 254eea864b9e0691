"""A launch runs exactly what is not complete, and the store tells the whole story."""

import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import OperationalError

from analysis.coverage import coverage
from model.errors import RequestError
from study.definition import Resources, load_studies, study_named
from study.dispatch import SerialDispatcher
from study.engine import reading
from study.execute import Completed, EpochEnded, Event, Failed, Started
from study.launch import backlog, few_negatives, launch, prepare_datasets
from study.persistence import Persistence
from study.plan import plan
from study.store import Store
from study.supply import supply_of
from tests.stored import ENVIRONMENT, report, result
from tests.study.small import planned, written


class DyingWorkers:
    """A dispatcher whose workers die: each trial is lost so many times before it trains."""

    def __init__(self, deaths: int) -> None:
        self._deaths = deaths
        self._seen: Counter[str] = Counter()

    def dispatch(self, trials, datasets, *, on_event, batch) -> None:
        del batch
        supply = supply_of(trials)
        while (trial := supply.take()) is not None:
            self._seen[trial.id] += 1
            if self._seen[trial.id] <= self._deaths:
                on_event(Failed(trial.id, "lost", "the worker died"))
            else:
                SerialDispatcher(Resources()).dispatch([trial], datasets, on_event=on_event)


class InBatches:
    """A dispatcher that trains nothing; all events but a trial's first and last come together."""

    def dispatch(self, trials, datasets, *, on_event, batch) -> None:
        del datasets
        supply = supply_of(trials)
        while (trial := supply.take()) is not None:
            on_event(Started(trial.id, ENVIRONMENT))
            with batch():
                for epoch in range(1, 51):
                    on_event(EpochEnded(trial.id, report(epoch)))
            on_event(Completed(trial.id, result(0.2)))


def launched(name: str, folder: Path, *, dispatcher=None, watch=lambda _: None, retry=None):
    """Launch a small study on the store in `folder`; return the backlog and the outcome."""
    what = planned(name, folder)
    datasets = prepare_datasets(what, folder)
    with Store.open(f"sqlite:///{folder}/results.db") as store, store.claim():
        options = {} if retry is None else {"retry": retry}
        left = backlog(what, store, datasets=datasets, **options)
        outcome = launch(
            left.trials,
            store=store,
            dispatcher=dispatcher or SerialDispatcher(Resources()),
            datasets=datasets,
            watch=watch,
        )
    return left, outcome


def rows(folder: Path, statement: str) -> list[tuple]:
    engine = create_engine(f"sqlite:///{folder}/results.db")
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(text(statement))]
    engine.dispose()
    return found


ATTEMPTS = (
    "SELECT embeddings, attempt.state, failure, count(*) FROM attempt "
    "JOIN trial ON trial.id = attempt.trial GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
)


def test_a_catalogue_too_small_for_a_hundred_negatives_is_said_once(tmp_path):
    what = planned("four", tmp_path)
    datasets = prepare_datasets(what, tmp_path)
    # 20 items, of which a user owns 4.
    assert list(few_negatives(what, datasets)) == [
        "tiny: popular-100 ranks some users' targets among 16 items, all that they never had, "
        "not among 100."
    ]


def test_epochs_that_arrive_together_are_one_transaction_and_all_are_seen(tmp_path):
    commits, seen = [], []

    @event.listens_for(Engine, "commit")
    def count(connection):
        commits.append(connection)

    try:
        launched("four", tmp_path, dispatcher=InBatches(), watch=seen.append)
    finally:
        event.remove(Engine, "commit", count)
    losses = "SELECT count(DISTINCT epoch), count(*) FROM epoch_metric WHERE metric = 'loss'"
    assert rows(tmp_path, losses) == [(50, 4 * 50)]
    assert [type(one) for one in seen] == [Started, *[EpochEnded] * 50, Completed] * 4
    assert len(commits) < 40


class Deaf:
    """A dispatcher in which a signal's exception is lost, as in a weak reference's callback."""

    def dispatch(self, trials, datasets, *, on_event, batch) -> None:
        del datasets, batch
        supply = supply_of(trials)
        on_event(Started((trial := supply.take()).id, ENVIRONMENT))
        with suppress(KeyboardInterrupt):
            signal.raise_signal(self.number)
        on_event(EpochEnded(trial.id, report(1)))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_whose_exception_was_swallowed_interrupts_at_the_next_event(tmp_path, number):
    deaf = Deaf()
    deaf.number = number
    _, outcome = launched("four", tmp_path, dispatcher=deaf)
    assert outcome.interrupted
    assert rows(tmp_path, "SELECT state, failure FROM attempt") == [("failed", "cancelled")]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_complete_study_leaves_nothing_to_run(tmp_path):
    left, outcome = launched("four", tmp_path)
    assert (len(left.trials), left.complete, outcome.completed) == (4, 0, 4)
    again, nothing = launched("four", tmp_path)
    assert (len(again.trials), again.complete, nothing.completed) == (0, 4, 0)


def test_a_failed_trial_keeps_its_traceback_and_the_others_complete(tmp_path):
    _, outcome = launched("one-fails", tmp_path)
    assert outcome.completed == 2
    assert [failed.failure for failed in outcome.failed.values()] == ["diverged"]
    [(state, failure, traceback)] = rows(
        tmp_path, "SELECT state, failure, traceback FROM attempt WHERE state = 'failed'"
    )
    assert (state, failure) == ("failed", "diverged")
    assert "Traceback" in traceback


def test_failed_trials_run_again_and_their_history_stays(tmp_path):
    launched("one-fails", tmp_path)
    left, _ = launched("one-fails", tmp_path)
    assert len(left.trials) == 1
    assert rows(tmp_path, "SELECT count(*) FROM attempt WHERE failure = 'diverged'") == [(2,)]


def test_failed_trials_can_be_left_alone(tmp_path):
    launched("one-fails", tmp_path)
    left, outcome = launched("one-fails", tmp_path, retry=())
    assert left.trials == ()
    assert len(left.left_failed) == 1
    assert outcome.completed == 0


def test_an_interrupt_cancels_what_is_under_way_and_the_next_launch_continues(tmp_path):
    completed = []

    def interrupt(event: Event) -> None:
        if isinstance(event, Completed):
            completed.append(event.trial_id)
        if len(completed) == 2 and isinstance(event, EpochEnded):
            raise KeyboardInterrupt

    _, outcome = launched("four", tmp_path, watch=interrupt)
    assert outcome.interrupted
    assert rows(tmp_path, "SELECT state, count(*) FROM trial GROUP BY 1 ORDER BY 1") == [
        ("complete", 2),
        ("pending", 2),
    ]
    left, _ = launched("four", tmp_path)
    assert (len(left.trials), left.complete) == (2, 2)
    assert rows(tmp_path, "SELECT failure FROM attempt WHERE state = 'failed'") == [("cancelled",)]


def test_a_lost_trial_is_tried_again_in_the_same_launch(tmp_path):
    _, outcome = launched("four", tmp_path, dispatcher=DyingWorkers(deaths=1))
    assert (outcome.completed, outcome.failed) == (4, {})
    assert [row[1:] for row in rows(tmp_path, ATTEMPTS)] == [
        ("complete", None, 1),
        ("failed", "lost", 1),
    ] * 4


def test_a_trial_that_is_lost_every_time_ends_the_launch_and_stays_pending(tmp_path):
    _, outcome = launched("four", tmp_path, dispatcher=DyingWorkers(deaths=100))
    assert {failed.failure for failed in outcome.failed.values()} == {"lost"}
    assert rows(tmp_path, "SELECT DISTINCT state FROM trial") == [("pending",)]


def test_attempts_of_a_dead_launch_are_lost_and_run_again(tmp_path):
    what = planned("four", tmp_path)
    datasets = prepare_datasets(what, tmp_path)
    first = next(iter(what.trials.values()))
    with Store.open(f"sqlite:///{tmp_path}/results.db") as store, store.claim():
        backlog(what, store, datasets=datasets)
        started = []
        SerialDispatcher(Resources()).dispatch([first], datasets, on_event=started.append)
        assert isinstance(started[0], Started)
        store.begin_attempt(first.id, started[0].environment)
    left, outcome = launched("four", tmp_path)
    assert left.lost == (first.id,)
    assert outcome.completed == 4


def test_two_studies_share_a_trial(tmp_path):
    launched("four", tmp_path)
    file = tmp_path / "studies.yaml"
    file.write_text(
        file.read_text() + "  again:\n    question: Is it shared?\n    datasets: [tiny]\n"
        "    embeddings: [[pos], [con]]\n    seeds: [0]\n"
    )
    declared = load_studies(file)
    what = plan(study_named(declared, "again"), declared)
    with Store.open(f"sqlite:///{tmp_path}/results.db") as store, store.claim():
        left = backlog(what, store, datasets=prepare_datasets(what, tmp_path))
    assert (len(left.trials), left.complete) == (1, 1)


def test_what_another_studys_race_stopped_is_pending_here_and_is_trained_to_its_end(tmp_path):
    file = written(tmp_path)
    file.write_text(
        file.read_text() + "  raced:\n    question: Who is stopped?\n    datasets: [tiny]\n"
        "    embeddings: [[pos], [con]]\n    seeds: [0]\n    stop_early: {asha: {grace: 1}}\n"
    )
    declared = load_studies(file)
    whole, raced = (plan(study_named(declared, name), declared) for name in ("four", "raced"))
    shared = next(iter(whole.trials.keys() & raced.trials.keys()))
    url = f"sqlite:///{tmp_path}/results.db"
    datasets = prepare_datasets(whole, tmp_path)
    with Store.open(url) as store, store.claim():
        store.record_plan(whole)
        store.record_plan(raced)
        store.censor(shared, store.begin_attempt(shared, ENVIRONMENT), epoch=1)
        counts = {
            name: {key: n for key, n in coverage(reading(url), name).counts.items() if n}
            for name in ("four", "raced")
        }
        assert counts == {"four": {"pending": 4}, "raced": {"censored": 1, "pending": 1}}
        left = backlog(raced, store, datasets=datasets)
        assert shared not in {trial.id for trial in left.trials}
        left = backlog(whole, store, datasets=datasets)
        assert shared in {trial.id for trial in left.trials}


def test_only_one_launch_writes_a_store(tmp_path):
    url = f"sqlite:///{tmp_path}/results.db"
    with (
        Store.open(url) as store,
        store.claim(),
        Store.open(url) as other,
        pytest.raises(RequestError, match="one launch writes to a store at a time"),
        other.claim(),
    ):
        pass


class FullDisk(Store):
    """A store whose disk is full when the first result comes."""

    def complete(self, *_, **__):
        raise OperationalError("INSERT", {}, OSError("database or disk is full"))


def test_a_store_that_cannot_be_written_is_named_and_a_later_launch_goes_on(tmp_path):
    what = planned("four", tmp_path)
    datasets = prepare_datasets(what, tmp_path)
    with FullDisk.open(f"sqlite:///{tmp_path}/results.db") as store, store.claim():
        left = backlog(what, store, datasets=datasets)
        with pytest.raises(RequestError, match=r"results\.db, got: database or disk is full"):
            launch(
                left.trials,
                store=store,
                dispatcher=SerialDispatcher(Resources()),
                datasets=datasets,
                watch=lambda _: None,
                persistence=Persistence(0),
            )
    left, outcome = launched("four", tmp_path)
    assert len(left.lost) == 1
    assert outcome.completed == 4


def test_an_interrupt_while_a_result_is_written_forgets_no_attempt(tmp_path):
    class Interrupted(Store):
        def complete(self, *_, **__):
            raise KeyboardInterrupt

    what = planned("four", tmp_path)
    datasets = prepare_datasets(what, tmp_path)
    with Interrupted.open(f"sqlite:///{tmp_path}/results.db") as store, store.claim():
        left = backlog(what, store, datasets=datasets)
        outcome = launch(
            left.trials,
            store=store,
            dispatcher=SerialDispatcher(Resources()),
            datasets=datasets,
            watch=lambda _: None,
        )
    assert outcome.interrupted
    assert rows(tmp_path, "SELECT DISTINCT state FROM trial") == [("pending",)]
    assert rows(tmp_path, "SELECT failure FROM attempt") == [("cancelled",)]


def test_a_bug_in_the_dispatcher_leaves_no_attempt_running(tmp_path):
    def break_down(event: Event) -> None:
        if isinstance(event, EpochEnded):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        launched("four", tmp_path, watch=break_down)
    assert rows(tmp_path, "SELECT failure, message FROM attempt") == [
        ("lost", "the launch ended: ZeroDivisionError: ")
    ]


@pytest.mark.parametrize("away", [False, True])
def test_a_launch_that_is_refused_midway_says_first_what_there_is(away):
    from study.cli import _even_if_refused

    said = []

    def summarise():
        if away:  # the store, which may be why
            raise OperationalError("SELECT", {}, OSError("server closed the connection"))
        said.append("3 of 4 trials complete")

    with pytest.raises(RequestError, match="one trial must fit"), _even_if_refused(summarise):
        raise RequestError("one trial must fit on one node")
    assert said == ([] if away else ["3 of 4 trials complete"])
