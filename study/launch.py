"""A launch: dispatch what the store does not hold as complete, and record every event as it comes.

The store decides what is left, before and after: a launch can be interrupted or killed anywhere
and repeated, and runs exactly the cells that are not complete.
"""

import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from sqlalchemy.exc import DBAPIError

from model.config import DatasetConfig
from model.data.negatives import N_NEGATIVES, fewest_drawn
from model.data.prepare import PreparedData, load_prepared
from study.checkpoints import Checkpoints
from study.definition import Retries
from study.disk import require_space, result_bytes
from study.dispatch import Datasets, Dispatcher
from study.execute import Censored, Completed, EpochEnded, Event, Failed, Failure, Said, Started
from study.persistence import Persistence, unwritable
from study.plan import Plan
from study.provenance import Environment
from study.ranges import Range
from study.store import Store
from study.supply import Course, Race, Supply, supply_of
from study.trial import Trial

RETRIED: tuple[Failure, ...] = ("oom", "diverged", "error")
"""Classes after which a trial counts as failed; after `lost` and `cancelled` it is pending."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a launch finds before it dispatches anything.

    Attributes:
        trials: the trials to run, in the order of the plan.
        complete: how many trials of the plan are complete already.
        lost: ids of trials that a dead launch left running; they are among `trials`.
        stale: ids of trials whose result belongs to other data; they are among `trials`.
        left_failed: ids of failed trials that `retry` leaves as they are.
    """

    trials: tuple[Trial, ...]
    complete: int
    lost: tuple[str, ...]
    stale: tuple[str, ...]
    left_failed: tuple[str, ...]


@dataclass(slots=True)
class Outcome:
    """What became of the trials that a launch dispatched.

    Attributes:
        completed: trials that have their result now.
        censored: trials that were stopped early.
        failed: trials that have not, each with its last failure.
        interrupted: whether Ctrl-C or SIGTERM ended the launch.
    """

    completed: int = 0
    censored: int = 0
    failed: dict[str, Failed] = field(default_factory=dict)
    interrupted: bool = False


def prepare_datasets(plan: Plan, folder: Path) -> dict[DatasetConfig, PreparedData]:
    """Load and prepare every data set that the plan's trials read, each once."""
    read = {cell.dataset for cell in plan.cells if cell.state != "infeasible"}
    configs = dict.fromkeys(c.dataset for c in plan.contenders if c.dataset.name in read)
    return {config: load_prepared(config, folder) for config in configs}


def few_negatives(plan: Plan, datasets: Datasets) -> Iterator[str]:
    """Say of each data set whose sampled candidates run out for a user; small catalogues only."""
    sampled = {
        (one.dataset, str(protocol))
        for one in plan.contenders
        if not isinstance(protocols := one.choices.get("protocol", ()), Range)
        for protocol in protocols
        if one.dataset in datasets
    }
    for config, protocol in sorted(sampled, key=lambda pair: (pair[0].name, pair[1])):
        drawn = datasets[config].negatives.get(protocol)
        fewest = N_NEGATIVES if drawn is None else fewest_drawn(drawn)
        if fewest < N_NEGATIVES:
            yield (
                f"{config.name}: {protocol} ranks some users' targets among {fewest} items, all "
                f"that they never had, not among {N_NEGATIVES}."
            )


def backlog(
    plan: Plan, store: Store, *, datasets: Datasets, retry: Sequence[Failure] = RETRIED
) -> Backlog:
    """Record the plan and its data sets, and return what is left to run.

    Attempts that still read `running` belong to a launch that was killed: this one holds the
    store's claim. They become `lost` and their trials pending.
    """
    lost = store.mark_lost()
    # What confirmed points in an earlier launch is no part of the plan before results are read.
    chosen = store.trials_of(plan.study.name) if plan.study.confirm else []
    for config, data in datasets.items():
        store.record_dataset(data, config)
    store.record_plan(plan)
    fingerprints = {config: data.fingerprint for config, data in datasets.items()}
    asked_for = list(dict.fromkeys((*plan.trials, *chosen)))
    stale = store.stale(fingerprints)
    store.reset_failed(asked_for, classes=retry)
    if plan.study.stop_early is None:  # another study's race may have stopped them
        store.uncensor(asked_for)
    states = store.states(list(plan.trials))
    pending = tuple(plan.trials[key] for key in plan.trials if states[key] == "pending")
    return Backlog(
        trials=pending,
        complete=sum(state == "complete" for state in states.values()),
        lost=tuple(key for key in lost if key in plan.trials),
        stale=tuple(key for key in stale if key in plan.trials),
        left_failed=tuple(key for key, state in states.items() if state == "failed"),
    )


def make_room(
    left: Backlog,
    plan: Plan,
    *,
    store: Store,
    datasets: Datasets,
    checkpoints: Checkpoints | None,
) -> None:
    """Make sure that results and checkpoints have a place, before anything is trained.

    Checkpoints of the plan's other trials, which a launch left that was killed between a result
    and its checkpoint's end, are removed.

    Raises:
        RequestError: the disk is full, or checkpoints cannot be written.
    """
    if store.path is not None:
        users = (datasets[trial.config().dataset].n_users for trial in left.trials)
        require_space(store.path.parent, result_bytes(users))
    if checkpoints is not None:
        checkpoints.prepare()
        to_run = {trial.id for trial in left.trials}
        checkpoints.remove(set(checkpoints.kept()) & (plan.trials.keys() - to_run))


def launch(
    trials: Sequence[Trial] | Supply,
    *,
    store: Store,
    dispatcher: Dispatcher,
    datasets: Datasets,
    watch: Callable[[Event], None],
    retries: Retries | None = None,
    checkpoints: Checkpoints | None = None,
    persistence: Persistence | None = None,
) -> Outcome:
    """Dispatch the trials and record what they report; returns when nothing is left to run.

    A trial that fails is tried again in this launch as often as `retries` says for the class of
    its failure, after `oom` alone on a whole device. On Ctrl-C (KeyboardInterrupt) attempts under
    way end as `cancelled`, on an error as `lost`; their trials are pending then.

    Args:
        trials: distinct trials, pending in the store, or where they come from.
        store: open for writing and claimed by this process.
        dispatcher: runs the trials.
        datasets: prepared data of every data set that the trials name.
        watch: sees every event after it was recorded.
        retries: how often a trial is tried again; by default as a study that says nothing.
        checkpoints: where the dispatcher keeps them; removed here once the store has the result.
        persistence: how long a write is tried; by default as `Persistence` says.

    Raises:
        RequestError: the store cannot be written any more; what it holds is safe.
    """
    outcome = Outcome()
    supply = _WithRetries(supply_of(trials), retries)
    recorder = _Recorder(
        store,
        datasets=datasets,
        outcome=outcome,
        persistence=persistence or Persistence(),
        checkpoints=checkpoints,
    )

    interrupts = _Interrupts()
    waiting: list[EpochEnded] = []
    together = False

    def on_event(event: Event) -> None:
        interrupts.check()
        if together and isinstance(event, EpochEnded):
            waiting.append(event)
            return
        record_waiting()
        recorder.record(event, trial_of=supply.trial)
        supply.observe(event)
        watch(event)

    def record_waiting() -> None:
        epochs = waiting.copy()
        waiting.clear()
        if epochs:
            recorder.record_epochs(epochs)
        for event in epochs:
            supply.observe(event)
            watch(event)

    @contextmanager
    def batch() -> Iterator[None]:
        """Record the epochs of one batch in one statement, before whatever follows them."""
        nonlocal together
        together = True
        try:
            yield
        finally:
            together = False
            record_waiting()

    try:
        with interrupts.heard():
            dispatcher.dispatch(supply, datasets, on_event=on_event, batch=batch)
    except KeyboardInterrupt:
        outcome.interrupted = True
        recorder.end_open("cancelled", "the launch was interrupted")
    except DBAPIError as error:
        raise unwritable(store, error) from error
    except BaseException as error:
        with suppress(DBAPIError):
            recorder.end_open("lost", f"the launch ended: {type(error).__name__}: {error}")
        raise
    return outcome


class _WithRetries:
    """A supply that hands a failed trial out again, as often as its failure's class allows."""

    def __init__(self, supply: Supply, retries: Retries | None) -> None:
        self._supply = supply
        self._allowed = (retries or Retries()).model_dump()
        self._again: deque[Trial] = deque()
        self._tried: dict[str, Counter[str]] = {}
        self._handed_out: dict[str, Trial] = {}

    @property
    def ahead(self) -> int:
        return self._supply.ahead

    def take(self) -> Trial | None:
        trial = self._supply.take()
        if trial is None and self._again:
            trial = self._again.popleft()
        if trial is not None:
            self._handed_out[trial.id] = trial
        return trial

    def race(self, trial: Trial) -> Race | None:
        return self._supply.race(trial)

    def run_before(self, race: Race) -> dict[str, Course]:
        return self._supply.run_before(race)

    def alone(self, trial: Trial) -> bool:
        return self._tried.get(trial.id, Counter())["oom"] > 0 or self._supply.alone(trial)

    def trial(self, trial_id: str) -> Trial:
        """Return a trial that was handed out."""
        return self._handed_out[trial_id]

    def observe(self, event: Event) -> None:
        """Take in a recorded event; a failure that is to be retried is no failure yet."""
        if isinstance(event, Failed):
            tried = self._tried.setdefault(event.trial_id, Counter())
            tried[event.failure] += 1
            if tried[event.failure] <= self._allowed.get(event.failure, 0):
                self._again.append(self._handed_out[event.trial_id])
                return
        self._supply.observe(event)


class _Recorder:
    """Writes each event to the store as it arrives; knows the attempts that are under way."""

    def __init__(
        self,
        store: Store,
        *,
        datasets: Datasets,
        outcome: Outcome,
        persistence: Persistence,
        checkpoints: Checkpoints | None,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._outcome = outcome
        self._persistence = persistence
        self._checkpoints = checkpoints
        self._attempts: dict[str, int] = {}

    def record(self, event: Event, *, trial_of: Callable[[str], Trial]) -> None:
        """Write one event, however long the store takes within `Persistence`."""
        self._persistence.write(lambda: self._record(event, trial_of), store=self._store)

    def record_epochs(self, events: Sequence[EpochEnded]) -> None:
        """Write epochs that arrived together, in one transaction; one that is known stays."""
        epochs = [(e.trial_id, self._attempts[e.trial_id], e.report) for e in events]
        self._persistence.write(lambda: self._store.record_epochs(epochs), store=self._store)

    def _record(self, event: Event, trial_of: Callable[[str], Trial]) -> None:
        # Told again after a lost connection, each of these changes nothing that was done already.
        match event:
            case Started(trial_id, environment):
                self._begin(trial_of(trial_id), environment)
                self._outcome.failed.pop(trial_id, None)
            case EpochEnded(trial_id, report):
                self._store.record_epoch(trial_id, self._attempts[trial_id], report)
            case Said(trial_id, text):
                self._store.append_log(trial_id, self._attempts[trial_id], text)
            case Completed(trial_id, result):
                fingerprint = self._fingerprint(trial_of(trial_id))
                attempt = self._attempts[trial_id]
                self._store.complete(trial_id, attempt, result, fingerprint=fingerprint)
                del self._attempts[trial_id]  # not before the store has it
                self._outcome.completed += 1
                self._forget_checkpoint(trial_id)
            case Censored(trial_id, epoch):
                self._store.censor(trial_id, self._attempts[trial_id], epoch=epoch)
                del self._attempts[trial_id]
                self._outcome.censored += 1
                self._forget_checkpoint(trial_id)
            case Failed(trial_id, failure, message, trace):
                # A worker can die before it could say that it started.
                if trial_id not in self._attempts:
                    self._begin(trial_of(trial_id), None)
                self._store.fail(
                    trial_id,
                    self._attempts[trial_id],
                    failure=failure,
                    message=message,
                    traceback=trace,
                )
                del self._attempts[trial_id]
                self._outcome.failed[trial_id] = event
                if failure == "diverged":  # it would diverge again
                    self._forget_checkpoint(trial_id)

    def _fingerprint(self, trial: Trial) -> str:
        return self._datasets[trial.config().dataset].fingerprint

    def _begin(self, trial: Trial, environment: Environment | None) -> None:
        trial_id = trial.id
        if trial_id in self._outcome.failed:  # it is tried again: pending first
            self._store.reset_failed([trial_id], classes=RETRIED)
        try:
            self._attempts[trial_id] = self._store.begin_attempt(
                trial_id, environment, fingerprint=self._fingerprint(trial)
            )
        except RuntimeError:
            # Begun, but the connection was lost before the store could say so.
            number = self._store.open_attempt(trial_id)
            if number is None or trial_id in self._attempts:
                raise
            self._attempts[trial_id] = number

    def _forget_checkpoint(self, trial_id: str) -> None:
        if self._checkpoints is not None:
            with suppress(OSError):  # one that stays is removed by the next launch
                self._checkpoints.remove([trial_id])

    def end_open(self, failure: Failure, message: str) -> None:
        """End the attempts that are still under way."""
        for trial_id, attempt in self._attempts.items():
            self._store.fail(trial_id, attempt, failure=failure, message=message)
        self._attempts.clear()


class _Interrupts:
    """Ctrl-C and SIGTERM as KeyboardInterrupt, once more where the first one was swallowed.

    Python drops an exception that a signal raises inside a weak reference's callback or `__del__`,
    of which a database connection has many: then the next event raises it.
    """

    def __init__(self) -> None:
        self._asked = False

    def check(self) -> None:
        """Raise if a signal has come."""
        if self._asked:
            raise KeyboardInterrupt

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Take the two signals, where this thread may decide so."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        if before[signal.SIGINT] is signal.SIG_IGN:  # a job in the background of a shell
            del before[signal.SIGINT]
        for number in before:
            signal.signal(number, self._interrupt)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        self._asked = True
        raise KeyboardInterrupt
