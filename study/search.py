"""A launch that decides as results come: points are asked for, losers stopped, the best confirmed.

Every contender gets exactly its budget of points; the one with the fewest is asked for next. When
all points of a contender have ended, its best are trained again in full with the seeds that
confirm. Choices read validation results alone. The store and Optuna's tables hold every choice as
soon as it is made, so a launch can be repeated at any moment and goes on where it was.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from model.results import selected
from study.asking import Asked, Asking
from study.cells import Cell
from study.contenders import Block, Contender
from study.execute import Censored, Completed, EpochEnded, Event, Failed
from study.persistence import Persistence
from study.plan import Plan
from study.space import Value
from study.store import Store
from study.supply import AHEAD, FAR_AHEAD, Course, Race
from study.trial import Trial

Answer = TypeVar("Answer")


class Record(Protocol):
    """What a search reads from the store and writes to it."""

    def record_points(
        self, plan: Plan, cells: Sequence[Cell], *, trials: Sequence[Trial] = ()
    ) -> None:
        """Replace cells by those of the same index, and add their trials."""
        ...

    def uncensor(self, trial_ids: Sequence[str]) -> list[str]:
        """Make trials that were stopped early pending."""
        ...

    def states(self, trial_ids: Sequence[str]) -> dict[str, str]:
        """Return the state of each trial that the store knows."""
        ...

    def scores(self, trial_ids: Sequence[str]) -> dict[str, float]:
        """Return the validation NDCG@10 of each complete trial."""
        ...

    def courses(self, trial_ids: Sequence[str]) -> dict[str, Course]:
        """Return the validation NDCG@10 of each trial's last attempt, epoch by epoch."""
        ...


@dataclass(slots=True)
class _Entry:
    """A point in its slot, and what has become of its trials so far."""

    contender: Contender
    block: Block
    slot: int
    factors: dict[str, Value]
    trials: tuple[Trial, ...]
    number: int | None = None  # of the question that it answers
    open: set[str] = field(default_factory=set)
    failed: bool = False
    stopped: bool = False
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def mean(self) -> float | None:
        """Mean over the seeds, once every one is complete."""
        if len(self.scores) < len(self.trials):
            return None
        return sum(self.scores.values()) / len(self.scores)

    @property
    def tried(self) -> bool:
        """Whether it is one of the points to choose from, not one that confirms."""
        return self.block is self.contender.tried


@dataclass(slots=True)
class _Standing:
    """Where a contender stands: its points by slot, and the questions that gave them."""

    contender: Contender
    room: int  # slots that can be filled
    asked: list[Asked]
    entries: dict[int, _Entry] = field(default_factory=dict)
    replaced: int = 0
    confirmed: bool = False

    @property
    def settled(self) -> bool:
        """Whether every point that it gets has ended."""
        full = len(self.entries) == self.room
        return full and not any(entry.open for entry in self.entries.values())


class SearchSupply:
    """Hands out a study's trials, the ones that are known first.

    Args:
        plan: the study as declared; the points that were chosen before are filled in.
        record: the store, claimed by this launch.
        asking: of a study that asks for its points; None where the grid declares them.
    """

    def __init__(self, plan: Plan, *, record: Record, asking: Asking | None) -> None:
        self._record, self._asking = record, asking
        self._study = plan.study
        self._ready: deque[Trial] = deque()
        self._under_way: set[str] = set()
        self._entry: dict[str, _Entry] = {}
        self._courses: dict[str, dict[int, float]] = defaultdict(dict)
        self._standings = [self._found(contender, plan) for contender in plan.contenders]
        self.plan = self._filled(plan)

    def _found(self, contender: Contender, plan: Plan) -> _Standing:
        """Return where a contender stands by what was declared and asked before."""
        block = contender.tried
        if self._asking is None:
            standing = _Standing(contender, room=0, asked=[])
            for slot in range(block.slots):
                first = plan.cells[block.first + slot * len(block.seeds)]
                if first.state == "feasible":
                    self._enter(standing, slot, factors=dict(first.factors))
            standing.room = len(standing.entries)
            return standing
        cells = plan.cells[block.first : block.end : len(block.seeds)]
        room = sum(cell.state == "unasked" for cell in cells)
        standing = _Standing(contender, room=room, asked=list(self._asking.asked(contender)))
        for asked in standing.asked:
            if asked.failed and self._replaces(standing):
                standing.replaced += 1
            elif len(standing.entries) < room:
                self._enter(standing, len(standing.entries), factors=asked.point, asked=asked)
        return standing

    def _enter(
        self,
        standing: _Standing,
        slot: int,
        *,
        factors: dict[str, Value],
        asked: Asked | None = None,
    ) -> _Entry:
        block = standing.contender.tried
        trials = standing.contender.trials(factors, block.seeds)
        entry = _Entry(standing.contender, block, slot, factors, trials)
        if asked is not None and not asked.answered:
            entry.number = asked.number
        standing.entries[slot] = entry
        return entry

    def _filled(self, plan: Plan) -> Plan:
        """Return the plan with the points that were asked for."""
        if self._asking is None:
            return plan
        cells: dict[int, Cell] = {}
        trials: list[Trial] = []
        for standing in self._standings:
            for slot, entry in standing.entries.items():
                made, theirs = standing.contender.cells(entry.block, slot, point=entry.factors)
                cells |= {cell.index: cell for cell in made}
                trials += theirs
        return plan.with_points(cells, trials)

    def start(self) -> None:
        """Take in what the store says of the plan's trials; what is pending is handed out."""
        entries = [e for standing in self._standings for e in standing.entries.values()]
        if self._asking is not None:  # all contenders in step, as they were asked
            entries.sort(key=lambda entry: entry.slot)
        self._take_in(*entries)
        for standing in self._standings:
            for entry in list(standing.entries.values()):
                if not entry.open:
                    self._settle(standing, entry)
            self._confirm(standing)

    # What a dispatcher asks

    @property
    def ahead(self) -> int:
        """Few where points are chosen by results."""
        return FAR_AHEAD if self._asking is None else AHEAD

    @property
    def finished(self) -> bool:
        """Whether nothing is waiting, under way or left to ask for."""
        return not self._ready and not self._under_way and self._next_to_ask() is None

    def take(self) -> Trial | None:
        """Return the next trial, a point being asked for where none waits."""
        while not self._ready and (standing := self._next_to_ask()) is not None:
            self._ask(standing)
        if not self._ready:
            return None
        trial = self._ready.popleft()
        self._under_way.add(trial.id)
        return trial

    def race(self, trial: Trial) -> Race | None:
        """Return the race of a trial: with its contender's others of the same seed."""
        entry, last = self._entry[trial.id], trial.factors.get("epochs")
        if self._study.stop_early is None or not entry.tried or last is None:
            return None
        rule = self._study.stop_early.rule
        bracket = entry.slot % rule.brackets
        return Race(
            name=f"{entry.contender.name}, seed {trial.seed}, race {bracket}",
            first=rule.grace * rule.reduction**bracket,
            reduction=rule.reduction,
            last=int(last),
        )

    def run_before(self, race: Race) -> dict[str, Course]:
        """Return the courses of the trials of this race that have ended."""
        ended = [
            trial.id
            for entry in self._entry.values()
            for trial in entry.trials
            if trial.id not in entry.open and entry.tried and self.race(trial) == race
        ]
        return self._record.courses(ended)

    def alone(self, trial: Trial) -> bool:  # noqa: ARG002
        """Return False: the launch knows what ran out of memory."""
        return False

    # What it learns

    def observe(self, event: Event) -> None:
        """Take in an event after the store has it."""
        entry = self._entry[event.trial_id]
        match event:
            case EpochEnded(trial_id, report):
                value = selected(report.metrics)
                if value is not None:
                    # By epoch: a training that is continued tells of the epochs before again.
                    self._courses[trial_id][report.epoch] = value
            case Completed(trial_id, result):
                entry.scores[trial_id] = selected(result.metrics) or 0.0
                self._ended(entry, trial_id)
            case Censored(trial_id):
                entry.stopped = True
                self._ended(entry, trial_id)
            case Failed(trial_id, failure):
                self._under_way.discard(trial_id)
                if failure not in {"lost", "cancelled"}:  # else it is pending, and runs again
                    entry.failed = True
                    self._ended(entry, trial_id)

    def trial(self, trial_id: str) -> Trial:
        """Return a trial that was handed out."""
        return next(t for t in self._entry[trial_id].trials if t.id == trial_id)

    def _ended(self, entry: _Entry, trial_id: str) -> None:
        self._under_way.discard(trial_id)
        entry.open.discard(trial_id)
        if not entry.tried:
            return
        standing = next(s for s in self._standings if s.contender is entry.contender)
        if entry.failed and self._replaces(standing):  # its other seeds are of no use
            spared = {trial.id for trial in entry.trials} - self._under_way
            self._ready = deque(trial for trial in self._ready if trial.id not in spared)
            entry.open -= spared
        if not entry.open:
            self._settle(standing, entry)
            self._confirm(standing)

    # Points

    def _next_to_ask(self) -> _Standing | None:
        """Return the contender with the fewest points, the first of equals."""
        if self._asking is None:
            return None
        hungry = (s for s in self._standings if len(s.entries) < s.room)
        return min(hungry, key=lambda standing: len(standing.entries), default=None)

    def _ask(self, standing: _Standing) -> None:
        assert self._asking is not None
        contender = standing.contender
        slot = next(n for n in range(standing.room) if n not in standing.entries)
        asked = self._asking.ask(contender, known=standing.asked)
        if asked is None:
            standing.room = len(standing.entries)
            free = [n for n in range(contender.tried.slots) if n not in standing.entries]
            reason = f"this subset has no other point than the {len(standing.asked)} asked for"
            cells = contender.empty(contender.tried, free, reason=reason)
            self._record.record_points(self.plan, cells)
            self._confirm(standing)
            return
        standing.asked.append(asked)
        entry = self._enter(standing, slot, factors=asked.point, asked=asked)
        cells, trials = contender.cells(contender.tried, slot, point=asked.point)
        self._record.record_points(self.plan, cells, trials=trials)
        self._take_in(entry)
        if not entry.open:
            self._settle(standing, entry)
            self._confirm(standing)

    def _take_in(self, *entries: _Entry) -> None:
        """Read where the entries' trials stand; those that are pending wait from now on."""
        whole = [e for e in entries if self._study.stop_early is None or not e.tried]
        self._record.uncensor([trial.id for entry in whole for trial in entry.trials])
        states = self._record.states([trial.id for entry in entries for trial in entry.trials])
        complete = [trial_id for trial_id, state in states.items() if state == "complete"]
        scores = self._record.scores(complete)
        for entry in entries:
            mine = {trial.id: states[trial.id] for trial in entry.trials}
            self._entry.update(dict.fromkeys(mine, entry))
            entry.scores = {trial_id: scores[trial_id] for trial_id in mine if trial_id in scores}
            entry.failed = "failed" in mine.values()
            entry.stopped = "censored" in mine.values()
            entry.open = {trial_id for trial_id, state in mine.items() if state == "pending"}
            self._ready.extend(trial for trial in entry.trials if trial.id in entry.open)

    def _replaces(self, standing: _Standing) -> bool:
        """Whether a failed point makes place for another one."""
        searched = self._study.searched
        replaces = searched is not None and searched.failed == "replaced"
        return replaces and standing.replaced < standing.contender.tried.slots

    def _settle(self, standing: _Standing, entry: _Entry) -> None:
        """Tell Optuna what became of a point, and make place for another where it failed."""
        if self._asking is None:
            return
        contender = entry.contender
        if entry.number is not None:
            if entry.mean is not None:
                self._asking.tell(contender, entry.number, value=entry.mean)
            elif entry.failed:
                self._asking.tell_failed(contender, entry.number)
            else:
                self._asking.tell_stopped(contender, entry.number, course=self._course(entry))
            entry.number = None
        if entry.failed and self._replaces(standing):
            standing.replaced += 1
            del standing.entries[entry.slot]
            cells = contender.empty(entry.block, [entry.slot])
            self._record.record_points(self.plan, cells)

    def _course(self, entry: _Entry) -> Course:
        """Return the mean over seeds, as far as all of them came."""
        known = {t.id: tuple(self._courses[t.id].items()) for t in entry.trials}
        missing = [trial_id for trial_id, course in known.items() if not course]
        known |= self._record.courses(missing) if missing else {}
        by_epoch: dict[int, list[float]] = defaultdict(list)
        for course in known.values():
            for epoch, value in course:
                by_epoch[epoch].append(value)
        whole = {e: v for e, v in by_epoch.items() if len(v) == len(entry.trials)}
        return tuple((epoch, sum(v) / len(v)) for epoch, v in sorted(whole.items()))

    # Confirmation

    def _confirm(self, standing: _Standing) -> None:
        """Fill a contender's confirming cells once all of its points have ended."""
        contender, block = standing.contender, standing.contender.confirmed
        if block is None or standing.confirmed or not standing.settled or not standing.entries:
            return
        standing.confirmed = True
        means = {slot: entry.mean for slot, entry in standing.entries.items()}
        whole = [slot for slot, mean in means.items() if mean is not None]
        best = sorted(whole, key=lambda slot: (-(means[slot] or 0.0), slot))[: block.slots]
        for rank, slot in enumerate(best):
            factors = {**standing.entries[slot].factors, **contender.full}
            reason = contender.reason(factors)
            if reason is not None:
                cells = contender.empty(block, [rank], reason=reason)
                self._record.record_points(self.plan, cells)
                continue
            cells, trials = contender.cells(block, rank, point=factors)
            self._record.record_points(self.plan, cells, trials=trials)
            self._take_in(_Entry(contender, block, rank, factors, trials))
        if len(best) < block.slots:
            reason = f"only {len(best)} points of this subset were trained to their end"
            cells = contender.empty(block, range(len(best), block.slots), reason=reason)
            self._record.record_points(self.plan, cells)


class Persisting:
    """A store that is asked again while it is away, as `Persistence` says for every report."""

    def __init__(self, store: Store, persistence: Persistence) -> None:
        self._store, self._persistence = store, persistence

    def record_points(
        self, plan: Plan, cells: Sequence[Cell], *, trials: Sequence[Trial] = ()
    ) -> None:
        """Replace cells by those of the same index, and add their trials."""
        self._persisted(lambda: self._store.record_points(plan, cells, trials=trials))

    def uncensor(self, trial_ids: Sequence[str]) -> list[str]:
        """Make trials that were stopped early pending."""
        return self._persisted(lambda: self._store.uncensor(trial_ids))

    def states(self, trial_ids: Sequence[str]) -> dict[str, str]:
        """Return the state of each trial that the store knows."""
        return self._persisted(lambda: self._store.states(trial_ids))

    def scores(self, trial_ids: Sequence[str]) -> dict[str, float]:
        """Return the validation NDCG@10 of each complete trial."""
        return self._persisted(lambda: self._store.scores(trial_ids))

    def courses(self, trial_ids: Sequence[str]) -> dict[str, Course]:
        """Return the validation NDCG@10 of each trial's last attempt, epoch by epoch."""
        return self._persisted(lambda: self._store.courses(trial_ids))

    def _persisted(self, ask: Callable[[], Answer]) -> Answer:
        return self._persistence.write(ask, store=self._store)


def search_supply(
    plan: Plan, store: Store, *, persistence: Persistence | None = None
) -> SearchSupply:
    """Return the supply of a study whose launch decides as results come.

    Args:
        plan: the study as declared.
        store: claimed by this launch. Record the supply's plan in it, then `start`.
        persistence: how long the store may be away; by default as `Persistence` says.
    """
    search = plan.study.searched
    asking = Asking(store.engine, study=plan.study.name, search=search) if search else None
    record = Persisting(store, persistence or Persistence())
    return SearchSupply(plan, record=record, asking=asking)
