"""How trials reach a processor: the contract of a dispatcher, and the one that needs no Ray."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from model.config import DatasetConfig
from model.data.prepare import PreparedData
from model.errors import RequestError
from study.checkpoints import Checkpoints
from study.definition import Resources
from study.execute import TRAIN, Event, device_of, execute, imported, require_device
from study.provenance import machine_name
from study.supply import Supply, supply_of
from study.trial import Trial

Datasets = Mapping[DatasetConfig, PreparedData]

Batch = Callable[[], AbstractContextManager[object]]
"""Gives what is entered around events that arrived together."""


class Dispatcher(Protocol):
    """Runs trials somewhere and hands every event to the caller, in the caller's thread.

    Each trial gives `Started`, `EpochEnded` per epoch (and `Said` where the training printed),
    then `Completed`, `Failed` or `Censored`; one whose worker dies before it starts gives `Failed`
    alone. A failing trial never stops the others. Results do not depend on the dispatcher. An
    exception of `on_event` and KeyboardInterrupt end the dispatch; nothing of it is alive
    afterwards.
    """

    def dispatch(
        self,
        trials: Sequence[Trial] | Supply,
        datasets: Datasets,
        *,
        on_event: Callable[[Event], None],
        batch: Batch = nullcontext,
    ) -> None:
        """Run every trial, in this order as far as resources allow.

        `batch` is entered around events that arrived together.

        It returns when no trial is under way and the supply has none.
        """
        ...


class SerialDispatcher:
    """One trial after the other in this process and thread, where a debugger can follow.

    Args:
        resources: CPUs are threads, GPUs decide the device.
        checkpoints: where interrupted trainings are kept; None keeps nothing.
        work: what trains, see `study.execute`.
    """

    def __init__(
        self,
        resources: Resources,
        *,
        checkpoints: Checkpoints | None = None,
        work: str = TRAIN,
    ) -> None:
        self._resources, self._checkpoints, self._work = resources, checkpoints, work

    def dispatch(
        self,
        trials: Sequence[Trial] | Supply,
        datasets: Datasets,
        *,
        on_event: Callable[[Event], None],
        batch: Batch = nullcontext,
    ) -> None:
        """Run the trials in order; each event comes on its own.

        Raises:
            RequestError: this machine has not the CPUs or the GPU that a trial asks for, or the
                trials are to be stopped early: that is Ray's.
        """
        del batch
        _require_processors(self._resources)
        require_device(device_of(self._resources))
        work = imported(self._work)
        supply = supply_of(trials)
        while (trial := supply.take()) is not None:
            if supply.race(trial) is not None:
                raise RequestError(
                    "stop_early needs Ray, got --serial; leave --serial out, or write "
                    "stop_early: null"
                )
            execute(
                trial,
                datasets[trial.config().dataset],
                resources=self._resources,
                emit=on_event,
                checkpoints=self._checkpoints,
                work=work,
                node=machine_name(),
            )


def _require_processors(resources: Resources) -> None:
    here = os.cpu_count() or 1
    if resources.cpus > here:
        raise RequestError(
            f"one trial must fit on this machine: {resources.cpus} CPU asked for, it has {here}; "
            "lower `resources` of the study"
        )
