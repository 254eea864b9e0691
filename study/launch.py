"""A launch: dispatch what the store does not hold as complete, and record every event as it comes.

The store decides what is left, before and after: a launch can be interrupted or killed anywhere
and repeated, and runs exactly the cells that are not complete.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from model.config import DatasetConfig
from model.data.prepare import PreparedData, load_prepared
from model.errors import RequestError
from study.dispatch import Datasets, Dispatcher
from study.execute import Censored, Completed, EpochEnded, Event, Failed, Failure, Started
from study.plan import Plan
from study.store import Store
from study.supply import Course, Race, Supply, supply_of
from study.trial import Trial

LOST_ROUNDS = 3
"""How often one launch tries a trial whose worker keeps dying."""

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
    """What became of the trials that a launch dispatched."""

    completed: int = 0
    censored: int = 0
    failed: dict[str, Failed] = field(default_factory=dict)
    interrupted: bool = False


def prepare_datasets(plan: Plan, folder: Path) -> dict[DatasetConfig, PreparedData]:
    """Load and prepare every data set that the plan's trials read, each once."""
    read = {cell.dataset for cell in plan.cells if cell.state != "infeasible"}
    configs = dict.fromkeys(c.dataset for c in plan.contenders if c.dataset.name in read)
    return {config: load_prepared(config, folder) for config in configs}


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
    stale = store.stale(fingerprints, among=asked_for)
    store.reset_failed(asked_for, classes=retry)
    states = store.states(list(plan.trials))
    pending = tuple(plan.trials[key] for key in plan.trials if states[key] == "pending")
    return Backlog(
        trials=pending,
        complete=sum(state == "complete" for state in states.values()),
        lost=tuple(key for key in lost if key in plan.trials),
        stale=tuple(key for key in stale if key in plan.trials),
        left_failed=tuple(key for key, state in states.items() if state == "failed"),
    )


def launch(
    trials: Sequence[Trial] | Supply,
    *,
    store: Store,
    dispatcher: Dispatcher,
    datasets: Datasets,
    watch: Callable[[Event], None],
) -> Outcome:
    """Dispatch the trials and record what they report; returns when nothing is left to run.

    A trial whose worker died is tried again, at most `LOST_ROUNDS` times in all. On Ctrl-C
    (KeyboardInterrupt) attempts under way end as `cancelled`, on an error as `lost`; their trials
    are pending then.

    Args:
        trials: distinct trials, pending in the store, or where they come from.
        store: open for writing and claimed by this process.
        dispatcher: runs the trials.
        datasets: prepared data of every data set that the trials name.
        watch: sees every event after it was recorded.

    Raises:
        RequestError: the store cannot be written any more; what it holds is safe.
    """
    outcome = Outcome()
    supply = _HandedOut(supply_of(trials))
    recorder = _Recorder(store, supply=supply, datasets=datasets, outcome=outcome, watch=watch)
    try:
        dispatcher.dispatch(supply, datasets, on_event=recorder)
    except KeyboardInterrupt:
        outcome.interrupted = True
        recorder.end_open("cancelled", "the launch was interrupted")
    except DBAPIError as error:
        reason = str(error.orig).strip().splitlines()[0]
        raise RequestError(
            f"results must be written to {store.url}, got: {reason}; free space or bring the "
            "database back, then launch again: what it holds is safe and is not trained again"
        ) from error
    except BaseException as error:
        with suppress(DBAPIError):
            recorder.end_open("lost", f"the launch ended: {type(error).__name__}: {error}")
        raise
    return outcome


class _HandedOut:
    """A supply whose trials are handed out again, a few times, where their worker died."""

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        self._again: deque[Trial] = deque()
        self._losses: Counter[str] = Counter()
        self._trials: dict[str, Trial] = {}

    @property
    def most(self) -> int:
        return self._supply.most

    @property
    def finished(self) -> bool:
        return self._supply.finished and not self._again

    def take(self) -> Trial | None:
        trial = self._supply.take() or (self._again.popleft() if self._again else None)
        if trial is not None:
            self._trials[trial.id] = trial
        return trial

    def race(self, trial: Trial) -> Race | None:
        return self._supply.race(trial)

    def run_before(self, race: Race) -> dict[str, Course]:
        return self._supply.run_before(race)

    def observe(self, event: Event) -> None:
        if isinstance(event, Failed) and event.failure == "lost":
            self._losses[event.trial_id] += 1
            if self._losses[event.trial_id] < LOST_ROUNDS:
                self._again.append(self._trials[event.trial_id])
                return
        self._supply.observe(event)

    def trial(self, trial_id: str) -> Trial:
        """Return a trial that was handed out."""
        return self._trials[trial_id]


class _Recorder:
    """Writes each event to the store as it arrives; knows the attempts that are under way."""

    def __init__(
        self,
        store: Store,
        *,
        supply: _HandedOut,
        datasets: Datasets,
        outcome: Outcome,
        watch: Callable[[Event], None],
    ) -> None:
        self._store = store
        self._supply, self._datasets = supply, datasets
        self._outcome = outcome
        self._watch = watch
        self._attempts: dict[str, int] = {}

    def __call__(self, event: Event) -> None:
        match event:
            case Started(trial_id, environment):
                self._attempts[trial_id] = self._store.begin_attempt(trial_id, environment)
                self._outcome.failed.pop(trial_id, None)
            case EpochEnded(trial_id, report):
                self._store.record_epoch(trial_id, self._attempts[trial_id], report)
            case Completed(trial_id, result):
                attempt = self._attempts[trial_id]
                dataset = self._supply.trial(trial_id).config().dataset
                fingerprint = self._datasets[dataset].fingerprint
                self._store.complete(trial_id, attempt, result, fingerprint=fingerprint)
                del self._attempts[trial_id]  # not before the store has it
                self._outcome.completed += 1
            case Censored(trial_id, epoch):
                self._store.censor(trial_id, self._attempts.pop(trial_id), epoch=epoch)
                self._outcome.censored += 1
            case Failed(trial_id, failure, message, trace):
                # A worker can die before it could say that it started.
                if trial_id not in self._attempts:
                    self._attempts[trial_id] = self._store.begin_attempt(trial_id, None)
                self._store.fail(
                    trial_id,
                    self._attempts[trial_id],
                    failure=failure,
                    message=message,
                    traceback=trace,
                )
                del self._attempts[trial_id]
                self._outcome.failed[trial_id] = event
        self._supply.observe(event)
        self._watch(event)

    def end_open(self, failure: Failure, message: str) -> None:
        """End the attempts that are still under way."""
        for trial_id, attempt in self._attempts.items():
            self._store.fail(trial_id, attempt, failure=failure, message=message)
        self._attempts.clear()
