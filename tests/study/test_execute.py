"""Whatever becomes of an attempt is a value, and of the right class."""

import pytest

from model.data.prepare import load_prepared
from model.errors import RequestError
from study.definition import Resources
from study.dispatch import SerialDispatcher
from study.execute import (
    TRAIN,
    Completed,
    EpochEnded,
    Failed,
    Started,
    execute,
    imported,
    require_device,
)
from study.provenance import machine_name
from tests.study.small import planned


def executed(folder, *, study="four", at_epoch=lambda: None):
    """Execute a study's first trial; `at_epoch` is called when it reports an epoch."""
    trial = next(iter(planned(study, folder).trials.values()))
    events = []

    def emit(event):
        events.append(event)
        if isinstance(event, EpochEnded):
            at_epoch()

    data = load_prepared(trial.config().dataset, folder)
    execute(
        trial, data, resources=Resources(), emit=emit, work=imported(TRAIN), node=machine_name()
    )
    return events


def test_a_trial_starts_reports_and_completes(tmp_path):
    kinds = [type(event) for event in executed(tmp_path)]
    assert kinds == [Started, EpochEnded, EpochEnded, Completed]


def test_a_worker_trains_with_as_many_threads_as_it_was_given_cpus(tmp_path):
    import torch

    trial = next(iter(planned("four", tmp_path).trials.values()))
    data = load_prepared(trial.config().dataset, tmp_path)
    before = torch.get_num_threads()
    try:
        for cpus in (2, 1):
            events = []
            execute(
                trial,
                data,
                resources=Resources(cpus=cpus),
                emit=events.append,
                work=imported(TRAIN),
                node="here",
            )
            assert torch.get_num_threads() == cpus
            assert events[0].environment.threads == cpus
    finally:
        torch.set_num_threads(before)


def test_what_the_receiver_raises_is_not_the_trial_s_failure(tmp_path):
    def refuse():
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        executed(tmp_path, at_epoch=refuse)


@pytest.mark.parametrize("how", ["torch", "python"])
def test_memory_that_runs_out_is_class_oom(tmp_path, monkeypatch, how):
    import torch

    import model.train

    def too_large(*_, **__):
        if how == "python":
            raise MemoryError
        return torch.empty(10**15)  # a petabyte: the allocator's own error

    monkeypatch.setattr(model.train, "build", too_large)
    *_, last = executed(tmp_path)
    assert isinstance(last, Failed)
    assert last.failure == "oom"
    assert "Traceback" in last.traceback


@pytest.mark.parametrize("device", ["cuda", "tpu9", "meta"])
def test_a_device_that_is_not_there_is_refused(device):
    import torch

    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has a CUDA GPU")
    with pytest.raises(RequestError, match=f"got {device}; train on cpu"):
        require_device(device)


def test_a_serial_launch_on_a_missing_gpu_fails_no_trial(tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA GPU")
    trials = list(planned("four", tmp_path).trials.values())
    events = []
    with pytest.raises(RequestError, match="got cuda"):
        SerialDispatcher(Resources(gpus=0.25)).dispatch(trials, {}, on_event=events.append)
    assert events == []
