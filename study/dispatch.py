"""How trials reach a processor: the contract of a dispatcher, and the one that needs no Ray."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from model.config import DatasetConfig
from model.data.prepare import PreparedData
from model.errors import RequestError
from study.definition import Resources
from study.execute import Event, device_of, execute, require_device
from study.supply import Supply, supply_of
from study.trial import Trial

Datasets = Mapping[DatasetConfig, PreparedData]


class Dispatcher(Protocol):
    """Runs trials somewhere and hands every event to the caller, in the caller's thread.

    Each trial gives `Started`, `EpochEnded` per epoch, then `Completed`, `Failed` or `Censored`;
    one whose worker dies before it starts gives `Failed` alone. A failing trial never stops the
    others. Results do not depend on the dispatcher. An exception of `on_event` and
    KeyboardInterrupt end the dispatch; nothing of it is alive afterwards.
    """

    def dispatch(
        self,
        trials: Sequence[Trial] | Supply,
        datasets: Datasets,
        *,
        on_event: Callable[[Event], None],
    ) -> None:
        """Run every trial once, in this order as far as resources allow."""
        ...


class SerialDispatcher:
    """One trial after the other in this process and thread, where a debugger can follow."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def dispatch(
        self,
        trials: Sequence[Trial] | Supply,
        datasets: Datasets,
        *,
        on_event: Callable[[Event], None],
    ) -> None:
        """Run the trials in order.

        Raises:
            RequestError: the trials ask for a GPU that this process does not see, or to be stopped
                early: that is Ray's.
        """
        require_device(device_of(self._resources))
        supply = supply_of(trials)
        while (trial := supply.take()) is not None:
            if supply.race(trial) is not None:
                raise RequestError(
                    "stop_early needs Ray, got --serial; leave --serial out, or write "
                    "stop_early: null"
                )
            data = datasets[trial.config().dataset]
            execute(trial, data, resources=self._resources, emit=on_event)
