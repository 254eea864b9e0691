"""One contract, run against every dispatcher."""

from pathlib import Path

import numpy as np
import pytest

from model.data.prepare import load_prepared
from model.errors import RequestError
from study.definition import Resources
from study.dispatch import Dispatcher, SerialDispatcher
from study.execute import Completed, EpochEnded, Event, Failed, Started
from tests.study.small import planned

EPOCHS = 2


def dispatched(dispatcher: Dispatcher, study: str, folder: Path) -> tuple[list[str], list[Event]]:
    """Run a small study; return its trials' ids in the order of the plan, and all events."""
    what = planned(study, folder)
    trials = list(what.trials.values())
    config = trials[0].config().dataset
    events: list[Event] = []
    data = {config: load_prepared(config, folder)}
    dispatcher.dispatch(trials, data, on_event=events.append)
    return [trial.id for trial in trials], events


class TestDispatcher:
    @pytest.fixture(
        params=["serial", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.slow])]
    )
    def dispatcher(self, request) -> Dispatcher:
        if request.param == "serial":
            return SerialDispatcher(Resources())
        from study.ray_dispatch import RayDispatcher

        return RayDispatcher(Resources())

    def test_every_trial_starts_reports_each_epoch_and_completes(self, dispatcher, tmp_path):
        ids, events = dispatched(dispatcher, "four", tmp_path)
        assert len(ids) == 4
        for trial_id in ids:
            mine = [event for event in events if event.trial_id == trial_id]
            kinds = [type(event) for event in mine]
            assert kinds == [Started, *[EpochEnded] * EPOCHS, Completed]
            assert [e.report.epoch for e in mine if isinstance(e, EpochEnded)] == [1, 2]

    def test_a_failing_trial_is_reported_and_the_others_complete(self, dispatcher, tmp_path):
        ids, events = dispatched(dispatcher, "one-fails", tmp_path)
        outcomes = {e.trial_id: e for e in events if isinstance(e, Completed | Failed)}
        assert [type(outcomes[i]) for i in ids] == [Completed, Failed, Completed]
        failed = outcomes[ids[1]]
        assert failed.failure == "diverged"
        assert "Diverged" in failed.traceback

    def test_results_equal_those_of_a_plain_call(self, dispatcher, tmp_path):
        from model.train import train

        what = planned("four", tmp_path)
        _, events = dispatched(dispatcher, "four", tmp_path)
        results = {e.trial_id: e.result for e in events if isinstance(e, Completed)}
        for trial in what.trials.values():
            config = trial.config()
            alone = train(config, load_prepared(config.dataset, tmp_path), report=lambda _: None)
            assert len(results[trial.id].ranks) == len(alone.ranks) == 4
            for ours, theirs in zip(results[trial.id].ranks, alone.ranks, strict=True):
                assert (ours.split, ours.protocol) == (theirs.split, theirs.protocol)
                np.testing.assert_array_equal(ours.greater, theirs.greater)
                np.testing.assert_array_equal(ours.equal, theirs.equal)

    def test_what_the_receiver_raises_ends_the_dispatch(self, dispatcher, tmp_path):
        what = planned("four", tmp_path)
        trials = list(what.trials.values())
        config = trials[0].config().dataset

        def refuse(event: Event) -> None:
            if isinstance(event, EpochEnded):
                raise OSError("the disk is full")

        with pytest.raises(OSError, match="the disk is full"):
            dispatcher.dispatch(trials, {config: load_prepared(config, tmp_path)}, on_event=refuse)


@pytest.mark.ray
@pytest.mark.slow
def test_a_trial_larger_than_every_node_is_refused_at_once(tmp_path):
    from study.ray_dispatch import RayDispatcher

    with pytest.raises(RequestError, match="2 GPU asked for, the largest node has 0"):
        dispatched(RayDispatcher(Resources(cpus=1, gpus=2)), "four", tmp_path)


@pytest.mark.ray
def test_a_ray_client_address_is_refused_with_the_right_form():
    from study.ray_dispatch import RayDispatcher

    with pytest.raises(RequestError, match="host:port of the head node"):
        RayDispatcher(Resources(), address="ray://head:10001")
