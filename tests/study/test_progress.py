"""The picture of a launch: counts, time left, best so far, as a person reads them."""

import io

from rich.console import Console

from model.results import EpochReport, MetricValue, TrialResult
from study.execute import Completed, EpochEnded, Failed, Started
from study.progress import Progress, trial_name
from tests.stored import ENVIRONMENT
from tests.study.small import planned


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def metrics(value):
    return (
        MetricValue("train", "none", "loss", 3.0),
        MetricValue("validation", "popular-100", "recall@10", 0.9),
        MetricValue("validation", "popular-100", "ndcg@10", value),
        MetricValue("test", "popular-100", "ndcg@10", 0.99),
    )


def result(value, seconds):
    return TrialResult(
        best_epoch=7,
        epochs=9,
        stopped_by="epochs",
        metrics=metrics(value),
        ranks=(),
        n_parameters=10,
        seconds=seconds,
    )


def watched(*, terminal, total=5, complete=1, slots=2):
    clock, file = Clock(), io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100, color_system=None)
    progress = Progress(
        console,
        total=total,
        complete=complete,
        label=lambda trial: f"trial {trial}",
        slots=slots,
        clock=clock,
    )
    return progress, clock, file


def test_lines_say_what_ended_with_its_validation_and_never_its_test():
    progress, _, file = watched(terminal=False)
    with progress:
        progress(Started("a", ENVIRONMENT))
        progress(EpochEnded("a", EpochReport(1, 2.0, metrics(0.2))))
        progress(Completed("a", result(0.25, 30.0)))
        progress(Started("b", ENVIRONMENT))
        progress(Failed("b", "oom", "no [memory] left"))
    assert file.getvalue().splitlines() == [
        "[2/5] trial a: validation NDCG@10 0.2500 at epoch 7 of 9, 30.0 s",
        "[2/5] trial b: oom: no [memory] left",
    ]


def test_the_time_left_is_what_pending_trials_take_on_the_free_slots():
    progress, clock, _ = watched(terminal=False, total=5, complete=1, slots=2)
    assert progress.seconds_left is None
    progress(Started("a", ENVIRONMENT))
    clock.now = 10.0
    progress(Completed("a", result(0.2, 10.0)))
    progress(Started("b", ENVIRONMENT))
    clock.now = 14.0
    # Three trials of 10 s are left, 4 s of one are over, two at a time: (30 - 4) / 2.
    assert progress.seconds_left == 13.0


def test_a_terminal_shows_counts_what_runs_and_the_best_validation_so_far():
    progress, clock, file = watched(terminal=True)
    with progress:
        progress(Started("a", ENVIRONMENT))
        progress(EpochEnded("a", EpochReport(3, 2.0, metrics(0.2))))
        progress(Started("b", ENVIRONMENT))
        progress(EpochEnded("b", EpochReport(1, 2.0, metrics(0.1))))
        clock.now = 65.0
    last = file.getvalue().split("done")[-1]
    assert "1 done" in file.getvalue()
    assert "2 running  2 pending  0 failed" in last
    assert "trial a" in last
    assert "epoch 3, validation NDCG@10 0.2000" in last
    assert "1 min 05 s" in last
    assert "best validation NDCG@10 so far: 0.2000" in last


def test_a_retried_trial_is_no_longer_failed():
    progress, _, file = watched(terminal=True)
    with progress:
        progress(Failed("a", "lost", "the worker died"))
        progress(Started("a", ENVIRONMENT))
    assert "1 running  3 pending  0 failed" in file.getvalue()


def test_a_trial_is_named_by_what_tells_it_from_the_others(tmp_path):
    plan = planned("one-fails", tmp_path)
    names = [trial_name(trial, plan) for trial in plan.trials.values()]
    assert names[0] == "tiny Pos lr=0.004 seed 0"
    assert len(set(names)) == 3
