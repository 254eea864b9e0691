"""The Ray dispatcher as a launch sees it: Ray lives in a process of its own, which may die.

When a Ray node dies, the process that drives Ray on it is ended with it, without an exception.
That must not be the launch: it holds the store's claim and the only memory of what is under way.
So a child process drives Ray (`study.ray_dispatch`); this one feeds it with orders, takes its
events, and starts another where it dies. The child's whole session is gone before `dispatch`
returns.
"""

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from model.errors import RequestError
from model.results import selected
from study.checkpoints import Checkpoints
from study.definition import Resources
from study.dispatch import Batch, Datasets
from study.execute import TRAIN, Ended, EpochEnded, Event, Failed, Started
from study.needs import Kind, Needs
from study.supply import Course, Race, Supply, supply_of
from study.trial import Trial

START_SECONDS = 120.0
"""Longest wait until Ray is up; its own limits are shorter."""

END_SECONDS = 6.0
"""Longest wait for Ray to end of its own accord; then its processes are killed."""

MOST_TOGETHER = 200
"""So many words of the child are taken at once: between two looks of a launch at its orders."""

FRUITLESS_STARTS = 3
"""So often in a row Ray may die without having started a trial."""

# Not -m: workers would not know functions of a module that is called __main__.
_CHILD = "from study.ray_dispatch import main; main()"


@dataclass(frozen=True)
class Setup:
    """What the child is told once, before its first order.

    Attributes:
        address: `host:port` or `auto` of an existing cluster; None starts Ray on this machine.
        resources: what each trial occupies.
        max_concurrent: at most so many trials at once.
        needs: predicted memory, by trial id.
        rehearsed: the trial of each kind that shows what predictions are off by.
        checkpoints: where interrupted trainings are kept.
        work: what trains, see `study.execute`.
        datasets: prepared data of every data set.
        folder: for Ray's temporary files; the child removes it at its end.
    """

    address: str | None
    resources: Resources
    max_concurrent: int | None
    needs: Needs
    rehearsed: Mapping[Kind, Trial]
    checkpoints: Checkpoints | None
    work: str
    datasets: Datasets
    folder: str


@dataclass(frozen=True, slots=True)
class Order:
    """One trial that the child is to run.

    Attributes:
        trial: the trial.
        alone: on a whole device.
        race: in which it may be stopped early.
        before: the race's courses so far, with the first of its trials that a child is given.
    """

    trial: Trial
    alone: bool = False
    race: Race | None = None
    before: Mapping[str, Course] = field(default_factory=dict)


class RayDispatcher:
    """Runs trials through Ray Tune with reused workers.

    Args:
        resources: what each trial occupies.
        address: `host:port` or `auto` of an existing cluster; None starts Ray on this machine.
        max_concurrent: at most so many trials at once; None fills the machine or cluster.
        needs: predicted memory by trial id: so many trials run at once as it allows.
        rehearsed: the trial of each kind that makes a step before all others where memory decides
            how many run at once; what it takes corrects the predictions.
        checkpoints: where interrupted trainings are kept; workers must reach it.
        work: what trains, see `study.execute`; importable in workers.
        say: told what memory was measured, and when Ray died and is started again.

    Raises:
        RequestError: the address is a Ray client's.
    """

    def __init__(
        self,
        resources: Resources,
        *,
        address: str | None = None,
        max_concurrent: int | None = None,
        needs: Needs | None = None,
        rehearsed: Mapping[Kind, Trial] | None = None,
        checkpoints: Checkpoints | None = None,
        work: str = TRAIN,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        if address is not None and address.startswith("ray://"):
            raise RequestError(
                f"--address takes an existing cluster as host:port or auto, got {address}; a "
                "ray:// client would move this driver, the only writer of the store, onto the "
                "cluster: give host:port of the head node (its GCS port, 6379 by default)"
            )
        self._setup: dict[str, Any] = {
            "address": address,
            "resources": resources,
            "max_concurrent": max_concurrent,
            "needs": needs or {},
            "rehearsed": rehearsed or {},
            "checkpoints": checkpoints,
            "work": work,
        }
        self._say = say

    def dispatch(
        self,
        trials: Sequence[Trial] | Supply,
        datasets: Datasets,
        *,
        on_event: Callable[[Event], None],
        batch: Batch = nullcontext,
    ) -> None:
        """Run every trial; Ctrl-C ends the dispatch within seconds.

        Raises:
            RequestError: Ray or the cluster does not answer, no node is large enough for a trial,
                or Ray dies again and again.
        """
        work = _Work(supply_of(trials), on_event, batch=batch, say=self._say)
        fruitless = 0
        while fruitless < FRUITLESS_STARTS:
            begun = work.begun
            with _child({**self._setup, "datasets": datasets}) as child:
                last_words = work.through(child)
                if last_words is None:
                    return
            fruitless = 0 if work.begun > begun else fruitless + 1
            self._say(f"Ray's process on this machine ended ({last_words}); starting it again")
            work.lose(f"Ray's process on the launching machine ended: {last_words}")
        raise RequestError(
            f"Ray must stay alive on this machine, it ended {FRUITLESS_STARTS} times before a "
            f"trial started: {last_words}; check memory and `ray status`, or train with --serial"
        )


class _Work:
    """Which trials are where: not sent, sent, started."""

    def __init__(
        self,
        supply: Supply,
        on_event: Callable[[Event], None],
        *,
        batch: Batch,
        say: Callable[[str], None],
    ) -> None:
        self._supply, self._on_event, self._batch, self._say = supply, on_event, batch, say
        self._unsent: deque[Trial] = deque()
        self._sent: dict[str, Trial] = {}
        self._started: set[str] = set()
        self._courses: dict[str, dict[int, float]] = {}
        self.begun = 0

    def through(self, child: "_Child") -> str | None:
        """Do everything through this child; return its last words if it dies before."""
        races: set[str] = set()
        while True:
            orders = list(self._next(child.room(self._supply.ahead) - len(self._sent), races))
            if orders:
                child.send("orders", orders)
            if child.is_up and not self._sent:
                return None
            try:
                told = child.receive()
            except (EOFError, OSError):
                return child.last_words()
            with self._batch():
                for kind, value in told:
                    match kind:
                        case "events":
                            for event in value:
                                self._take(event)
                        case "refused":
                            raise RequestError(value)
                        case "broke":
                            return str(value)
                        case "said":
                            self._say(value)
                        case _:
                            child.note(kind, value)

    def _next(self, n: int, races: set[str]) -> Iterator[Order]:
        for _ in range(n):
            trial = self._unsent.popleft() if self._unsent else self._supply.take()
            if trial is None:
                return
            self._sent[trial.id] = trial
            race, before = self._supply.race(trial), {}
            if race is not None:
                if race.name not in races:
                    now = {key: tuple(course.items()) for key, course in self._courses.items()}
                    before = {**self._supply.run_before(race), **now}
                    races.add(race.name)
                self._courses.setdefault(trial.id, {})
            yield Order(trial, alone=self._supply.alone(trial), race=race, before=before)

    def _take(self, event: Event) -> None:
        key = event.trial_id
        if key not in self._sent:
            return  # of a trial that has ended: its last word has been said
        match event:
            case Started():
                self._started.add(key)
                self.begun += 1
            case EpochEnded(_, report) if key in self._courses:
                value = selected(report.metrics)
                if value is not None:
                    self._courses[key][report.epoch] = value
            case _ if isinstance(event, Ended):
                del self._sent[key]
                self._started.discard(key)
        self._on_event(event)

    def lose(self, why: str) -> None:
        """Report what was under way at a child that died; what had not started is sent again."""
        sent, self._sent = self._sent, {}
        for key, trial in sent.items():
            if key not in self._started:
                self._unsent.append(trial)
        for key in [key for key in sent if key in self._started]:
            self._started.discard(key)
            self._on_event(Failed(key, "lost", why))


class _Child:
    """The process that drives Ray, and the line to it."""

    def __init__(self, process: "subprocess.Popen[bytes]", line: Connection, said: Path) -> None:
        self.process, self._line, self._said = process, line, said
        self._slots = 0

    def send(self, kind: str, value: object) -> None:
        with suppress(OSError):  # a child that died is noticed where it is read
            self._line.send_bytes(pickle.dumps((kind, value), protocol=5))

    def receive(self) -> list[tuple[str, Any]]:
        """Wait for a word, and take with it those that came meanwhile."""
        told = [pickle.loads(self._line.recv_bytes())]
        with suppress(EOFError, OSError):  # the end is met again by the next call
            while len(told) < MOST_TOGETHER and self._line.poll():
                told.append(pickle.loads(self._line.recv_bytes()))
        return told

    def wait_until_up(self) -> None:
        """Wait for the child's first word.

        Raises:
            RequestError: it does not come.
        """
        if not self._line.poll(START_SECONDS):
            raise RequestError(
                f"Ray must be up within {START_SECONDS:.0f} s, it is not; its own words: "
                f"{self.last_words()}; check `ray status`"
            )

    def note(self, kind: str, value: Any) -> None:  # noqa: ANN401
        """Take in what the child says of itself."""
        if kind == "slots":
            self._slots = int(value)

    @property
    def is_up(self) -> bool:
        """Whether Ray has room for trials."""
        return self._slots > 0

    def room(self, ahead: int) -> int:
        """Return how many orders the child may hold, some of them ahead; none before it is up."""
        return self._slots + ahead if self.is_up else 0

    def last_words(self) -> str:
        """Return the end of what the process printed, for a message."""
        lines = self._said.read_text(errors="replace").strip().splitlines()
        code = self.process.poll()
        return f"exit {code}" + (f": {lines[-1]}" if lines else "")

    def end(self) -> None:
        """Let the process end in order; kill what is left of its session."""
        self.send("stop", None)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_SECONDS)
        self._line.close()
        for pid in _session(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def _child(setup: dict[str, Any]) -> Iterator[_Child]:
    """Start a process that drives Ray; nothing of it is alive at the end."""
    ours, theirs = socket.socketpair()
    with (
        tempfile.TemporaryDirectory(prefix="meantime-", ignore_cleanup_errors=True) as folder,
        tempfile.NamedTemporaryFile(prefix="meantime-ray-", suffix=".log") as said,
    ):
        with theirs:
            process = subprocess.Popen(
                # -P: a folder `study` in the working folder is not ours.
                [sys.executable, "-P", "-c", _CHILD, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                # Ctrl-C of a terminal reaches this process alone, and what the child starts can
                # be told by its session.
                start_new_session=True,
            )
        child = _Child(process, Connection(ours.detach()), Path(said.name))
        try:
            child.send("setup", Setup(**setup, folder=folder))
            child.wait_until_up()
            yield child
        finally:
            child.end()


def _session(leader: int) -> list[int]:
    """Return the processes of a session, where the system lists them in /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # After the name, which may hold anything: state, parent, group, session.
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[3]) == leader:
            found.append(int(entry.name))
    return found
