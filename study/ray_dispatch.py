"""Ray Tune in a process of its own: takes orders, reports events; the only file that knows Ray.

`study.cluster` starts it and talks to it over a line of pickled pairs. Workers are reused and
report plain values. Each prepared data set is put into Ray's object store once, and trials read it
there without a copy.
"""

import logging
import os
import pickle
import shutil
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
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
    # The searcher below decides how many trials wait; Tune would let a single one.
    "TUNE_MAX_PENDING_TRIALS_PG": "100000",
    # Ray would let its workers wait for every other program of the machine (niceness 15).
    "RAY_worker_niceness": "0",
    # Ray's memory monitor would end all trials, not one.
    "RAY_memory_monitor_refresh_ms": "0",
}
for _name, _value in _QUIET_RAY.items():
    os.environ.setdefault(_name, _value)

import ray
from ray import tune
from ray.tune.execution.placement_groups import PlacementGroupFactory
from ray.tune.experiment import Trial as RayTrial
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from model.config import DatasetConfig
from model.data.prepare import PreparedData
from model.errors import RequestError
from model.results import selected
from study.checkpoints import Checkpoints
from study.cluster import Order, Setup
from study.definition import Resources
from study.execute import (
    Censored,
    Ended,
    EpochEnded,
    Event,
    Failed,
    Started,
    device_of,
    execute,
    imported,
)
from study.memory_kills import memory_kills
from study.needs import Kind
from study.nodes import Nodes
from study.provenance import gpu_bytes, machine_name
from study.trial import Trial

OBJECT_STORE_BYTES = 512 * 2**20
"""Object store of a local Ray: it holds the prepared data sets (ml-1m: 20 MB) and reports."""

ANSWER_SECONDS = 5.0
"""Longest wait for a cluster's head node to take a connection."""

LOOK_SECONDS = 2.0
"""So often the cluster's nodes are counted: they come and go."""

REPORT_SECONDS = 0.1
"""Events that come faster travel together: a report costs Tune some 10 ms."""


def main() -> None:
    """Do what the launch says until it says stop, or is gone."""
    number = int(sys.argv[1])
    os.set_inheritable(number, False)
    # A terminal's Ctrl-C does not come here, SIGTERM of a whole service may: the launch decides.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    line = _Line(Connection(number))
    _, setup = line.receive()
    try:
        _tune(line, setup)
    except KeyboardInterrupt:
        pass
    except RequestError as error:
        line.send("refused", str(error))
    except (ray.exceptions.RayError, tune.TuneError) as error:
        cause = error.__cause__ or error
        line.send("broke", f"{type(cause).__name__}: {_first_line(cause)}")
    finally:
        with suppress(BaseException):
            ray.shutdown()
        shutil.rmtree(setup.folder, ignore_errors=True)


def _tune(line: "_Line", setup: Setup) -> None:
    _connect(setup)
    nodes = Nodes(setup.resources, setup.needs, listed=ray.nodes, gpu_bytes=_gpu_bytes)
    nodes.require_room()
    references = {config: ray.put(data) for config, data in setup.datasets.items()}
    if nodes.memory_decides():
        nodes.correct(_rehearse(line, setup, references))
    races = _Races()
    orders = _Orders(line, nodes, races, at_most=setup.max_concurrent)
    trainable = tune.with_parameters(
        _train_in_worker,
        datasets=references,
        resources=setup.resources,
        checkpoints=setup.checkpoints,
        work=setup.work,
    )
    tune.Tuner(
        tune.with_resources(trainable, lambda config: PlacementGroupFactory([config["demand"]])),
        tune_config=tune.TuneConfig(
            search_alg=orders, scheduler=races, num_samples=-1, reuse_actors=True
        ),
        run_config=tune.RunConfig(
            name="launch",
            storage_path=setup.folder,
            verbose=0,
            callbacks=[_Receiver(line, orders, races)],
        ),
    ).fit()


def _rehearse(
    line: "_Line", setup: Setup, references: Mapping[DatasetConfig, "ray.ObjectRef[PreparedData]"]
) -> dict[Kind, int]:
    """Let the largest trial of each kind make a step, alone on a device, and say what it took."""
    measured: dict[Kind, int] = {}
    device = device_of(setup.resources)
    alone = _step_bytes.options(
        num_cpus=setup.resources.cpus, num_gpus=1 if device == "cuda" else 0
    )
    for kind, trial in setup.rehearsed.items():
        what = f"memory of {' on '.join(kind)} ({trial.id}, the largest): "
        data = references[trial.config().dataset]
        try:
            found = ray.get(alone.remote(trial, data, device, setup.resources.cpus))
        except ray.exceptions.RayError as error:
            line.send(
                "said", f"{what}no step could be measured ({_first_line(error.__cause__ or error)})"
            )
            continue
        if found is not None:
            measured[kind] = found
            need = setup.needs[trial.id]
            line.send(
                "said",
                f"{what}{found / 2**20:,.0f} MiB measured in one step, "
                f"{(need.bytes - need.around) / 2**20:,.0f} predicted",
            )
    return measured


@ray.remote(max_calls=1, max_retries=0)
def _step_bytes(trial: Trial, data: PreparedData, device: str, threads: int) -> int | None:
    """Measure in a process that has not trained before and will not again."""
    from model.rehearsal import peak_bytes  # noqa: PLC0415 - it brings torch

    return peak_bytes(trial.config(), data, device=device, threads=threads)


def _train_in_worker(
    config: dict[str, Any],
    *,
    datasets: Mapping[DatasetConfig, "ray.ObjectRef[PreparedData]"],
    resources: Resources,
    checkpoints: Checkpoints | None,
    work: str,
) -> None:
    """Execute one trial in a Ray worker; its events travel as Tune's reports."""
    order: Order = config["order"]
    waiting: list[Event] = []
    reported = -REPORT_SECONDS

    def emit(event: Event) -> None:
        nonlocal reported
        waiting.append(event)
        now = time.monotonic()
        # In a race each epoch is a decision.
        at_once = order.race is not None or isinstance(event, Started | Ended)
        if at_once or now - reported >= REPORT_SECONDS:
            tune.report({"events": Told(waiting)})
            waiting.clear()
            reported = now

    execute(
        order.trial,
        ray.get(datasets[order.trial.config().dataset]),
        resources=resources,
        emit=emit,
        checkpoints=checkpoints,
        work=imported(work),
        node=_node_name(),
    )


class Told(list[Event]):
    """Events of one report; Tune formats every report twice for a log that nobody reads.

    Written out, the counts of every user would take longer than everything else about a trial.
    """

    def __repr__(self) -> str:
        return f"<{len(self)} events>"


@cache
def _node_name() -> str:
    """Return the name of the Ray node that this worker runs on: the machine's, unless given."""
    own = ray.get_runtime_context().get_node_id()
    for node in ray.nodes():  # type: ignore[no-untyped-call]
        if node["NodeID"] == own and node["NodeName"] != node["NodeManagerAddress"]:
            return str(node["NodeName"])
    return machine_name()


class _Line:
    """Pairs of a kind and a value, to and from the launch."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, kind: str, value: object) -> None:
        try:
            self._connection.send_bytes(pickle.dumps((kind, value), protocol=5))
        except OSError:
            raise KeyboardInterrupt from None  # the launch is gone

    def receive(self) -> tuple[str, Any]:
        try:
            kind, value = pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise KeyboardInterrupt from None
        return kind, value

    def ready(self) -> bool:
        """Whether something is there to be received, the end included."""
        return self._connection.poll()


class _Orders(Searcher):
    """Suggests exactly the trials that were ordered, in order, as many at once as there is room."""

    def __init__(self, line: _Line, nodes: Nodes, races: "_Races", *, at_most: int | None) -> None:
        super().__init__(metric="training_iteration", mode="max")
        self._line, self._nodes, self._races, self._at_most = line, nodes, races, at_most
        self._waiting: deque[Order] = deque()
        self._said: int | None = None
        self._looked_at = -LOOK_SECONDS
        self.under_way: dict[str, Order] = {}
        """By Tune's id of the trial."""

    def look(self) -> None:
        """Take in what the launch says, and tell it when the number of places changes.

        Raises:
            KeyboardInterrupt: it says stop, or is gone; an Exception would make Tune wait.
            RequestError: no node is large enough for a trial any more.
        """
        while self._line.ready():
            kind, value = self._line.receive()
            if kind == "stop":
                raise KeyboardInterrupt
            for order in value:
                self._races.enter(order)
                self._waiting.append(order)
        now = time.monotonic()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            places = self._nodes.places()
            if places == 0:
                self._nodes.require_room()
            places = min(places, self._at_most or places)
            if places != self._said:
                self._said = places
                self._line.send("slots", places)

    def suggest(self, trial_id: str) -> Any:
        self.look()
        if not self._waiting or len(self.under_way) >= (self._said or 0):
            return None
        order = self._waiting.popleft()
        self.under_way[trial_id] = order
        return {"order": order, "demand": self._nodes.demand(order.trial.id, alone=order.alone)}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        self.under_way.pop(trial_id, None)

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

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._rules: dict[str, AsyncHyperBandScheduler] = {}
        self.stopped: set[str] = set()

    def on_trial_result(self, tune_controller: Any, trial: RayTrial, result: dict[str, Any]) -> str:
        race = trial.config["order"].race
        for event in result.get("events", ()) if race is not None else ():
            value = selected(event.report.metrics) if isinstance(event, EpochEnded) else None
            # At the last epoch nothing is left to save, and the trial is about to give its result.
            if value is None or event.report.epoch >= race.last:
                continue
            rule = self._rules[race.name]
            decision = _compared(rule, event.trial_id, event.report.epoch, value)
            if decision == TrialScheduler.STOP:
                self.stopped.add(trial.trial_id)
                return decision
        return str(TrialScheduler.CONTINUE)

    def choose_trial_to_run(self, tune_controller: Any) -> RayTrial | None:
        """Return a trial that waits; Tune's own rule looks through all that ever ran."""
        live = tune_controller.get_live_trials()
        return next((trial for trial in live if trial.status == RayTrial.PENDING), None)

    def enter(self, order: Order) -> None:
        """Make the race's rule known, before its first trial starts; it sees what ran earlier."""
        race = order.race
        if race is None or race.name in self._rules:
            return
        rule = AsyncHyperBandScheduler(
            time_attr="epoch",
            metric="value",
            mode="max",
            grace_period=race.first,
            reduction_factor=race.reduction,
            max_t=max(race.last, race.first),
        )
        for trial_id, course in order.before.items():
            for epoch, value in course:
                if epoch < race.last:
                    _compared(rule, trial_id, epoch, value)
        self._rules[race.name] = rule

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
    """Passes on what workers report, and turns a dead worker into `Failed`.

    It is of this class so that Tune does not add one of its own, which prints every result.
    """

    def __init__(self, line: _Line, orders: _Orders, races: _Races) -> None:
        super().__init__()
        self._line, self._orders, self._races = line, orders, races
        self._kills = memory_kills()
        self._ended: set[str] = set()

    def on_trial_result(
        self,
        iteration: int,
        trials: list[RayTrial],
        trial: RayTrial,
        result: dict[str, Any],
        **_: Any,
    ) -> None:
        # Tune keeps the last report of every trial in memory and on disk: take the heavy part out.
        events: list[Event] | None = result.pop("events", None)
        result.pop("config", None)
        if not events:
            return
        if trial.trial_id in self._races.stopped:
            events += [
                Censored(event.trial_id, event.report.epoch)
                for event in events
                if isinstance(event, EpochEnded)
            ]
        if isinstance(events[-1], Ended):
            self._ended.add(trial.trial_id)
        self._line.send("events", events)

    def on_trial_error(
        self, iteration: int, trials: list[RayTrial], trial: RayTrial, **_: Any
    ) -> None:
        declared = trial.config["order"].trial
        self._last_word(trial, self._failed(declared.id, _error_of(trial)))

    def _failed(self, trial_id: str, error: Exception | None) -> Failed:
        if not isinstance(error, ray.exceptions.RayActorError):
            message = f"Ray: {type(error).__name__}: {_first_line(error)}"
            return Failed(trial_id, "error", message, str(error))
        before, self._kills = self._kills, memory_kills()
        if self._kills > before:
            return Failed(trial_id, "oom", "the system's memory ran out and it was killed")
        return Failed(trial_id, "lost", "the process or node that trained it died")

    def on_trial_complete(
        self, iteration: int, trials: list[RayTrial], trial: RayTrial, **_: Any
    ) -> None:
        declared = trial.config["order"].trial
        self._last_word(trial, Failed(declared.id, "lost", "Ray ended the trial without a report"))

    def _last_word(self, trial: RayTrial, failed: Failed) -> None:
        """Speak for an attempt that has not spoken; the launch may have ordered the next one."""
        if trial.trial_id not in self._ended:
            self._line.send("events", [failed])
        self._ended.discard(trial.trial_id)

    def on_step_end(self, iteration: int, trials: list[RayTrial], **_: Any) -> None:
        self._orders.look()

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


def _first_line(error: BaseException | None) -> str:
    return next(iter(str(error).strip().splitlines()), "")


def _connect(setup: Setup) -> None:
    """Start Ray on this machine, or join the cluster.

    Raises:
        RequestError: it does not answer.
    """
    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    address = setup.address
    try:
        if address is None:
            # "local": a plain init would hang on the address of a cluster that was killed.
            ray.init(
                address="local",
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                object_store_memory=OBJECT_STORE_BYTES,
                _temp_dir=_short_folder(setup.folder),
            )
        else:
            _require_answer(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = "on this machine" if address is None else f"at {address}"
        raise RequestError(
            f"Ray must answer {where}, got: {_first_line(error)}; check `ray status`"
        ) from error


def _short_folder(folder: str) -> str | None:
    """Return where Ray keeps its session, so that it goes with the launch; None: Ray's own place.

    A socket's path has at most 107 bytes, and Ray's own part of it takes some 70.
    """
    return folder if len(folder) <= 30 else None


def _require_answer(address: str) -> None:
    """Try the head node's port first: Ray itself would try for minutes.

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


def _gpu_bytes() -> int | None:
    """Return the memory of the cluster's smallest GPU, or None where that cannot be asked."""
    asked = [
        _gpu_bytes_here.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote()
        for node in ray.nodes()  # type: ignore[no-untyped-call]
        if node["Alive"] and node["Resources"].get("GPU")
    ]
    told = [n_bytes for n_bytes in ray.get(asked) if n_bytes is not None]
    return min(told, default=None)


@ray.remote(num_cpus=0)
def _gpu_bytes_here() -> int | None:
    return gpu_bytes()
