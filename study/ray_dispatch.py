"""Trials on Ray Tune: this machine or an existing cluster; the only file that knows Ray.

Workers are reused and report plain values; only the driver writes. Each prepared data set is put
into Ray's object store once, and trials read it there without a copy.
"""

import logging
import os
import pickle
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

# Ray reads these when it is imported. Values given by the user win.
_QUIET_RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "1e9",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    # Ray's memory monitor would end the whole launch, not one trial.
    "RAY_memory_monitor_refresh_ms": "0",
}
for _name, _value in _QUIET_RAY.items():
    os.environ.setdefault(_name, _value)

import ray
from ray import tune
from ray.tune.experiment import Trial as RayTrial
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, TrialScheduler
from ray.tune.search import ConcurrencyLimiter, Searcher

from model.config import DatasetConfig
from model.data.prepare import PreparedData
from model.errors import RequestError
from model.results import selected
from study.definition import Resources
from study.dispatch import Datasets
from study.execute import (
    Censored,
    Completed,
    EpochEnded,
    Event,
    Failed,
    execute,
)
from study.supply import Race, Supply, supply_of
from study.trial import Trial

ANSWER_SECONDS = 5.0
"""Longest wait for a cluster's head node to take a connection."""

OBJECT_STORE_BYTES = 512 * 2**20
"""Object store of a local Ray: it holds the prepared data sets (ml-1m: 20 MB) and reports."""


class RayDispatcher:
    """Runs trials through Ray Tune with reused workers.

    Args:
        resources: what each trial occupies.
        address: `host:port` or `auto` of an existing cluster; None starts Ray on this machine.
        max_concurrent: at most so many trials at once; None fills the machine or cluster.
    """

    def __init__(
        self,
        resources: Resources,
        *,
        address: str | None = None,
        max_concurrent: int | None = None,
    ) -> None:
        if address is not None and address.startswith("ray://"):
            raise RequestError(
                f"--address takes an existing cluster as host:port or auto, got {address}; a "
                "ray:// client would move this driver, the only writer of the store, onto the "
                "cluster: give host:port of the head node (its GCS port, 6379 by default)"
            )
        self._resources = resources
        self._address = address
        self._max_concurrent = max_concurrent

    def dispatch(
        self,
        trials: Sequence[Trial] | Supply,
        datasets: Datasets,
        *,
        on_event: Callable[[Event], None],
    ) -> None:
        """Run every trial once; the first Ctrl-C ends the dispatch within seconds."""
        with (
            _interrupts() as interrupt,
            _connected(self._address),
            tempfile.TemporaryDirectory(
                prefix="meantime-ray-", ignore_cleanup_errors=True
            ) as folder,
        ):
            interrupt.arm()  # Ray has put its own handler in place
            interrupt.check()
            slots = _slots(self._resources)
            supply = supply_of(trials)
            at_once = min(slots, supply.most, self._max_concurrent or slots)
            races = _Races(supply)
            receiver = _Receiver(races, on_event=on_event, interrupt=interrupt)
            searcher = ConcurrencyLimiter(_Supplied(supply, receiver), max_concurrent=at_once)
            references = {config: ray.put(data) for config, data in datasets.items()}
            trainable = tune.with_parameters(
                _train_in_worker, datasets=references, resources=self._resources
            )
            demand = {"cpu": self._resources.cpus, "gpu": self._resources.gpus}
            tuner = tune.Tuner(
                tune.with_resources(trainable, demand),
                tune_config=tune.TuneConfig(
                    search_alg=searcher, scheduler=races, num_samples=-1, reuse_actors=True
                ),
                run_config=tune.RunConfig(
                    name="launch", storage_path=folder, verbose=0, callbacks=[receiver]
                ),
            )
            try:
                tuner.fit()
            except ray.exceptions.RayError as error:
                raise receiver.undelivered or RequestError(
                    f"the Ray cluster must answer until the last trial ends, got "
                    f"{type(error).__name__}: {_first_line(error)}; check `ray status`, then "
                    "launch again: finished trials are not trained again"
                ) from error
            except tune.TuneError:
                if receiver.undelivered is not None:
                    raise receiver.undelivered from None
                raise
            interrupt.check()
            receiver.close()


def _train_in_worker(
    config: dict[str, Any],
    *,
    datasets: Mapping[DatasetConfig, ray.ObjectRef[PreparedData]],
    resources: Resources,
) -> None:
    """Execute one trial in a Ray worker; every event travels as one report."""
    trial: Trial = config["trial"]
    data: PreparedData = ray.get(datasets[trial.config().dataset])
    execute(trial, data, resources=resources, emit=lambda event: tune.report({"event": event}))


class _Supplied(Searcher):
    """Suggests what the supply hands out, and tells the receiver to expect it."""

    def __init__(self, supply: Supply, receiver: "_Receiver") -> None:
        super().__init__(metric="training_iteration", mode="max")
        self._supply = supply
        self._receiver = receiver

    def suggest(self, trial_id: str) -> Any:
        trial = self._supply.take()
        if trial is not None:
            self._receiver.expect(trial)
            return {"trial": trial}
        return Searcher.FINISHED if self._supply.finished else None  # None: ask again later

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """The supply learns from events."""

    # Tune saves searchers to resume them; ours resumes from the results database.
    def save(self, checkpoint_path: str) -> None:
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        raise NotImplementedError("a launch resumes from the results database")

    def __getstate__(self) -> dict[str, Any]:
        return {}


class _Races(FIFOScheduler):
    """Stops trials by Ray's asynchronous successive halving, one of its schedulers a race.

    Tune's own scheduler would compare all trials of a launch with each other, and its brackets
    are drawn from numpy's global generator.
    """

    def __init__(self, supply: Supply) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._supply = supply
        self._rules: dict[str, AsyncHyperBandScheduler] = {}
        self.stopped: set[str] = set()

    def on_trial_result(self, tune_controller: Any, trial: RayTrial, result: dict[str, Any]) -> str:
        event = result.get("event")
        if not isinstance(event, EpochEnded):
            return TrialScheduler.CONTINUE
        race = self._supply.race(trial.config["trial"])
        value = selected(event.report.metrics)
        # At the last epoch nothing is left to save, and the trial is about to give its result.
        if race is None or value is None or event.report.epoch >= race.last:
            return TrialScheduler.CONTINUE
        decision = _compared(self._rule(race), event.trial_id, event.report.epoch, value)
        if decision == TrialScheduler.STOP:
            self.stopped.add(event.trial_id)
        return decision

    def _rule(self, race: Race) -> AsyncHyperBandScheduler:
        """Return the race's scheduler; a new one sees what ran in earlier launches first."""
        if race.name not in self._rules:
            rule = AsyncHyperBandScheduler(
                time_attr="epoch",
                metric="value",
                mode="max",
                grace_period=race.first,
                reduction_factor=race.reduction,
                max_t=max(race.last, race.first),
            )
            for trial_id, course in self._supply.run_before(race).items():
                for epoch, value in course:
                    if epoch < race.last:
                        _compared(rule, trial_id, epoch, value)
            self._rules[race.name] = rule
        return self._rules[race.name]

    # Tune pickles its schedulers with its state; the live object is the one that is used.
    def __getstate__(self) -> dict[str, Any]:
        return {}


class _Runner:
    """What Ray's rule reads of a trial: an id, ours, so that a second attempt counts once."""

    def __init__(self, trial_id: str) -> None:
        self.trial_id = trial_id


def _compared(rule: Any, trial_id: str, epoch: int, value: float) -> str:
    """Enter one epoch of a trial into a race and return Ray's decision."""
    runner = _Runner(trial_id)
    rule.on_trial_add(None, runner)
    return str(rule.on_trial_result(None, runner, {"epoch": epoch, "value": value}))


class _Receiver(TrialProgressCallback):
    """Hands what workers report to the driver, and turns a dead worker into `Failed`.

    It is of this class so that Tune does not add one of its own, which prints every result.
    """

    def __init__(
        self,
        races: _Races,
        *,
        on_event: Callable[[Event], None],
        interrupt: "_Interrupt",
    ) -> None:
        super().__init__()
        self._open: set[str] = set()
        self._races = races
        self._on_event = on_event
        self._interrupt = interrupt
        self.undelivered: Exception | None = None

    def expect(self, trial: Trial) -> None:
        """Keep the trial open until its end is reported."""
        self._open.add(trial.id)

    def on_trial_result(
        self,
        iteration: int,
        trials: list[RayTrial],
        trial: RayTrial,
        result: dict[str, Any],
        **_: Any,
    ) -> None:
        # Tune keeps the last report of every trial in memory and on disk: take the heavy part out.
        event: Event | None = result.pop("event", None)
        result.pop("config", None)
        if event is not None:
            self._deliver(event)
        if isinstance(event, EpochEnded) and event.trial_id in self._races.stopped:
            self._deliver(Censored(event.trial_id, event.report.epoch))

    def on_trial_error(
        self, iteration: int, trials: list[RayTrial], trial: RayTrial, **_: Any
    ) -> None:
        declared: Trial = trial.config["trial"]
        error = _error_of(trial)
        if isinstance(error, ray.exceptions.RayActorError):
            failed = Failed(declared.id, "lost", "the process or node that trained it died")
        else:
            message = f"Ray: {type(error).__name__}: {_first_line(error)}"
            failed = Failed(declared.id, "error", message, str(error))
        self._deliver(failed)

    def on_trial_complete(
        self, iteration: int, trials: list[RayTrial], trial: RayTrial, **_: Any
    ) -> None:
        """Everything was said in `on_trial_result`; Tune would print it again."""

    def on_step_end(self, iteration: int, trials: list[RayTrial], **_: Any) -> None:
        self._interrupt.check()  # an Exception would make Tune wait for its workers

    def close(self) -> None:
        """Report trials that Tune ended without a word, so that none is forgotten."""
        for trial_id in sorted(self._open):
            self._deliver(Failed(trial_id, "lost", "Ray ended the trial without a report"))

    def _deliver(self, event: Event) -> None:
        if isinstance(event, (Completed, Failed, Censored)):
            if event.trial_id not in self._open:
                return
            self._open.discard(event.trial_id)
        try:
            self._on_event(event)
        except Exception as error:
            self.undelivered = error
            raise

    # Tune pickles its callbacks with its state; the live object is the one that is used.
    def __getstate__(self) -> dict[str, Any]:
        return {}


def _error_of(trial: RayTrial) -> Exception | None:
    """Return what ended a Ray trial; Tune keeps it in a file when the callback is called."""
    path = trial.pickled_error_file
    if path is None or not Path(path).exists():
        return None
    try:
        error: Exception = pickle.loads(Path(path).read_bytes())
    except (pickle.PickleError, ImportError, AttributeError, TypeError) as unreadable:
        return unreadable  # of a class that only the worker knows
    return error


def _first_line(error: Exception | None) -> str:
    return next(iter(str(error).strip().splitlines()), "")


class _Interrupt:
    """Whether Ctrl-C came; it is raised where the dispatch can end cleanly, the second at once."""

    def __init__(self) -> None:
        self._received = False

    def receive(self, _signal: int, _frame: FrameType | None) -> None:
        again, self._received = self._received, True
        if again:
            raise KeyboardInterrupt

    def arm(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                signal.signal(number, self.receive)

    def check(self) -> None:
        if self._received:
            raise KeyboardInterrupt


@contextmanager
def _interrupts() -> Iterator[_Interrupt]:
    """Catch SIGINT and SIGTERM while trials run, where this thread may."""
    interrupt = _Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    interrupt.arm()
    try:
        yield interrupt
    finally:
        for number, action in before.items():
            signal.signal(number, action)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def _connected(address: str | None) -> Iterator[None]:
    """Start Ray on this machine, or join the cluster at `address`; leave it at the end."""
    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    try:
        try:
            if address is None:
                # "local": a plain init would hang on the address of a cluster that was killed.
                ray.init(
                    address="local",
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    object_store_memory=OBJECT_STORE_BYTES,
                )
            else:
                _require_answer(address)
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            where = "on this machine" if address is None else f"at {address}"
            raise RequestError(
                f"Ray must answer {where}, got: {_first_line(error)}; check `ray status`"
            ) from error
        yield
    finally:
        ray.shutdown()


def _require_answer(address: str) -> None:
    """Try the head node's port first: Ray itself would try for minutes, deaf to Ctrl-C.

    Raises:
        ConnectionError: nothing answers there.
        ValueError: the address is neither `auto` nor host:port.
    """
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"an address is host:port or auto, not {address}")
    try:
        with socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS):
            pass
    except OSError as error:
        raise ConnectionError(str(error)) from error


def _slots(resources: Resources) -> int:
    """Return how many trials the cluster holds at once, node by node.

    Raises:
        RequestError: no node is large enough for one trial; Tune would wait for ever.
    """
    demand = {"CPU": float(resources.cpus), "GPU": resources.gpus}
    needed = {name: amount for name, amount in demand.items() if amount > 0}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    slots = sum(
        int(min(node.get(name, 0.0) / amount + 1e-9 for name, amount in needed.items()))
        for node in nodes
    )
    if slots == 0:
        most = {name: max(node.get(name, 0.0) for node in nodes) for name in needed}
        lacking = ", ".join(
            f"{amount:g} {name} asked for, the largest node has {most[name]:g}"
            for name, amount in needed.items()
            if most[name] < amount
        )
        raise RequestError(
            f"one trial must fit on one node: {lacking or 'no node has all of it'}; lower "
            "`resources` of the study or add a node"
        )
    return slots
