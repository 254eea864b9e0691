"""One attempt of one trial, wherever it happens: whatever becomes of it comes back as a value."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, cast

from model.data.prepare import PreparedData
from model.errors import Diverged, RequestError
from model.results import EpochReport, TrialResult
from study.attempt_log import AttemptLog
from study.checkpoints import MOST_OF_TIME, Checkpoint, Checkpoints
from study.definition import Resources
from study.provenance import Environment, environment
from study.trial import Trial

Failure = Literal["oom", "diverged", "error", "lost", "cancelled"]
"""Why an attempt ended without a result; `lost` is a process or node that died."""

FAILURES: tuple[Failure, ...] = ("oom", "diverged", "error", "lost", "cancelled")


@dataclass(frozen=True, slots=True)
class Started:
    """A worker took the trial; `environment` is the worker's, not the driver's."""

    trial_id: str
    environment: Environment


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """One epoch of the trial was trained and validated."""

    trial_id: str
    report: EpochReport


@dataclass(frozen=True, slots=True)
class Said:
    """The training printed, logged or warned: lines for the attempt's log."""

    trial_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Completed:
    """The trial has its result."""

    trial_id: str
    result: TrialResult


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt ended without a result; `traceback` is empty where there is none to show."""

    trial_id: str
    failure: Failure
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Censored:
    """The trial was stopped after this epoch because others of its race did better."""

    trial_id: str
    epoch: int


Event = Started | EpochEnded | Said | Completed | Failed | Censored

Ended = Completed | Failed | Censored
"""What no event of the same attempt follows."""

TRAIN = "model.train:train"
"""What trains a trial: `module:function`, importable wherever workers are."""

Work = Callable[..., TrialResult]
"""Takes what `model.train.train` takes and gives what it gives."""


def imported(work: str) -> Work:
    """Return the function that `module:function` names; torch comes with it, which takes seconds.

    >>> imported("math:sqrt")(4.0)
    2.0
    """
    module, _, name = work.partition(":")
    return cast(Work, getattr(import_module(module), name))


def device_of(resources: Resources) -> str:
    """Return the torch device that a trial with these resources trains on."""
    return "cuda" if resources.gpus else "cpu"


def execute(
    trial: Trial,
    data: PreparedData,
    *,
    resources: Resources,
    emit: Callable[[Event], None],
    work: Work,
    node: str,
    checkpoints: Checkpoints | None = None,
) -> None:
    """Train the trial and emit `Started`, an `EpochEnded` each, then `Completed` or `Failed`.

    Nothing that the training raises escapes (an exception would cost a Ray worker), but an
    interrupt by the user does, and so does what `emit` raises. What the training prints becomes
    `Said`, before the event that follows it.

    Args:
        trial: what to train.
        data: what its data set was prepared into.
        resources: CPUs are threads, GPUs decide the device.
        emit: receives every event, in this thread.
        work: trains; `imported(TRAIN)` outside of tests and benchmarks.
        node: name of the machine, for the environment.
        checkpoints: where the trial is continued from and kept after its epochs.
    """
    device = device_of(resources)
    emit(Started(trial.id, environment(device=device, threads=resources.cpus, node=node)))
    undelivered: Exception | None = None
    log = AttemptLog()

    def tell(event: Event) -> None:
        nonlocal undelivered
        text = log.taken()
        try:
            with log.deaf():
                if text:
                    emit(Said(trial.id, text))
                emit(event)
        except Exception as error:
            undelivered = error
            raise

    def report(epoch: EpochReport) -> None:
        if checkpoint is not None:
            checkpoint.keep()
        tell(EpochEnded(trial.id, epoch))

    outcome: Event
    checkpoint: Checkpoint | None = None
    try:
        with log.listening():
            checkpoint = None if checkpoints is None else checkpoints.of(trial.id)
            result = work(
                trial.config(),
                data,
                report=report,
                device=device,
                threads=resources.cpus,
                checkpoint=None if checkpoint is None else checkpoint.path,
                checkpoint_share=MOST_OF_TIME,
            )
        outcome = Completed(trial.id, result)
    except Exception as error:  # the one place that records a trial's failure
        if undelivered is not None:  # the receiver failed, not the trial
            raise
        outcome = Failed(trial.id, _failure(error), _first_line(error), traceback.format_exc())
    finally:
        if checkpoint is not None:
            checkpoint.close()
    tell(outcome)


def require_device(device: str) -> None:
    """Check that this process can train on a torch device.

    Raises:
        RequestError: it cannot.
    """
    import torch  # noqa: PLC0415

    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = ""
    if kind != "cpu" and not (kind == "cuda" and torch.cuda.is_available()):
        raise RequestError(
            f"a trial trains on cpu or on a CUDA GPU that torch sees, got {device}; train on cpu "
            "(in a study: resources: {gpus: 0}), or on a machine with a GPU"
        )


def _failure(error: Exception) -> Failure:
    """Return the class of an exception that training raised."""
    import torch  # noqa: PLC0415

    # torch's CPU allocator raises a plain RuntimeError that names itself; kernels and libraries
    # below it say "out of memory" or "not enough memory".
    text = str(error).lower()
    cpu_memory = isinstance(error, RuntimeError) and any(
        sign in text for sign in ("defaultcpuallocator", "not enough memory", "out of memory")
    )
    if cpu_memory or isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return "oom"
    return "diverged" if isinstance(error, Diverged) else "error"


def _first_line(error: Exception) -> str:
    """Return the class and the first line of an error's message."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
