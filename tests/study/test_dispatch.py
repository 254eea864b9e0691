"""One contract, run against every dispatcher."""

from pathlib import Path

import numpy as np
import pytest

from model.data.prepare import load_prepared
from model.errors import RequestError
from study.definition import Resources
from study.dispatch import Dispatcher, SerialDispatcher
from study.execute import Censored, Completed, EpochEnded, Event, Failed, Started
from study.supply import Declared, Race
from tests.study.small import planned

EPOCHS = 2


def ready(study: str, folder: Path):
    """Return a small study's trials and its prepared data."""
    trials = list(planned(study, folder).trials.values())
    config = trials[0].config().dataset
    return trials, {config: load_prepared(config, folder)}


def dispatcher_named(name: str) -> Dispatcher:
    if name == "serial":
        return SerialDispatcher(Resources())
    from study.cluster import RayDispatcher

    return RayDispatcher(Resources())


@pytest.fixture(
    scope="module",
    params=["serial", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.slow])],
)
def dispatcher(request) -> Dispatcher:
    return dispatcher_named(request.param)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("dispatch")


@pytest.fixture(scope="module")
def events(dispatcher, folder) -> list[Event]:
    """What one dispatch of seven trials, the sixth of which fails, reports."""
    trials, data = ready("four", folder)
    more, _ = ready("one-fails", folder)
    found: list[Event] = []
    dispatcher.dispatch([*trials, *more], data, on_event=found.append)
    return found


class TestDispatcher:
    def test_every_trial_starts_reports_each_epoch_and_completes(self, events, folder):
        trials, _ = ready("four", folder)
        assert len(trials) == 4
        for trial in trials:
            mine = [event for event in events if event.trial_id == trial.id]
            kinds = [type(event) for event in mine]
            assert kinds == [Started, *[EpochEnded] * EPOCHS, Completed]
            assert [e.report.epoch for e in mine if isinstance(e, EpochEnded)] == [1, 2]

    def test_a_failing_trial_is_reported_and_the_others_complete(self, events, folder):
        trials, _ = ready("one-fails", folder)
        outcomes = {e.trial_id: e for e in events if isinstance(e, Completed | Failed)}
        assert [type(outcomes[t.id]) for t in trials] == [Completed, Failed, Completed]
        failed = outcomes[trials[1].id]
        assert failed.failure == "diverged"
        assert "Diverged" in failed.traceback

    def test_results_equal_those_of_a_plain_call(self, events, folder):
        from model.train import train

        results = {e.trial_id: e.result for e in events if isinstance(e, Completed)}
        trials, _ = ready("four", folder)
        for trial in trials:
            config = trial.config()
            alone = train(config, load_prepared(config.dataset, folder), report=lambda _: None)
            assert len(results[trial.id].ranks) == len(alone.ranks) == 4
            for ours, theirs in zip(results[trial.id].ranks, alone.ranks, strict=True):
                assert (ours.split, ours.protocol) == (theirs.split, theirs.protocol)
                np.testing.assert_array_equal(ours.greater, theirs.greater)
                np.testing.assert_array_equal(ours.equal, theirs.equal)

    def test_what_the_receiver_raises_ends_the_dispatch(self, dispatcher, folder):
        trials, data = ready("four", folder)

        def refuse(event: Event) -> None:
            if isinstance(event, EpochEnded):
                raise OSError("the disk is full")

        with pytest.raises(OSError, match="the disk is full"):
            dispatcher.dispatch(trials, data, on_event=refuse)


@pytest.mark.ray
@pytest.mark.slow
def test_a_trial_larger_than_every_node_is_refused_at_once(tmp_path):
    from study.cluster import RayDispatcher

    with pytest.raises(RequestError, match="2 GPU asked for, the largest node has 0"):
        RayDispatcher(Resources(cpus=1, gpus=2)).dispatch(*ready("four", tmp_path), on_event=print)


@pytest.mark.ray
def test_a_ray_client_address_is_refused_with_the_right_form():
    from study.cluster import RayDispatcher

    with pytest.raises(RequestError, match="host:port of the head node"):
        RayDispatcher(Resources(), address="ray://head:10001")


@pytest.mark.ray
@pytest.mark.parametrize("address", ["127.0.0.1:9", "nowhere", "nowhere:port"])
def test_a_cluster_that_does_not_answer_is_refused_at_once(tmp_path, address):
    from study.cluster import RayDispatcher

    with pytest.raises(RequestError, match=f"Ray must answer at {address}, got"):
        RayDispatcher(Resources(), address=address).dispatch(
            *ready("four", tmp_path), on_event=print
        )


class Racing(Declared):
    """Four epochs each; after the second only those above the median so far go on."""

    def __init__(self, trials, before) -> None:
        super().__init__(trials)
        self._before = before

    def race(self, trial):
        return Race(trial.dataset, first=2, reduction=2, last=4)

    def run_before(self, race):
        assert race.name == "tiny"
        return self._before


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize(("rival", "survivors"), [(1.0, 0), (0.0, 1)])
def test_a_trial_is_stopped_where_those_before_it_did_better(tmp_path, rival, survivors):
    from study.cluster import RayDispatcher

    (trial, *_), data = ready("race", tmp_path)
    events: list[Event] = []
    # One that ran in an earlier launch: the median of two values is between them.
    supply = Racing([trial], {"0" * 16: ((1, rival), (2, rival))})
    RayDispatcher(Resources()).dispatch(supply, data, on_event=events.append)
    assert sum(isinstance(event, Completed) for event in events) == survivors
    assert [e for e in events if isinstance(e, Censored)] == (
        [] if survivors else [Censored(trial.id, 2)]
    )
    assert sum(isinstance(event, EpochEnded) for event in events) == (4 if survivors else 2)


def test_early_stopping_without_ray_is_refused(tmp_path):
    trials, data = ready("race", tmp_path)
    with pytest.raises(RequestError, match="stop_early needs Ray, got --serial"):
        SerialDispatcher(Resources()).dispatch(Racing(trials, {}), data, on_event=print)


@pytest.mark.ray
def test_a_report_is_written_out_in_a_word():
    # Tune formats every report for its log: 400 users' ranks took 14 ms a trial.
    from study.ray_dispatch import Told

    assert repr(Told([EpochEnded("0" * 16, None)])) == str(Told([None])) == "<1 events>"
