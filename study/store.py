"""The writer of the results database: plans, attempts and results, one transaction a report.

One process writes, the launch; workers report values to it. Every change of state is one guarded
statement, so that a report that comes late, twice or out of turn changes nothing that it should
not. Attempts are history and never erased.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, Engine, and_, case, delete, exists, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from model.config import DatasetConfig
from model.data.prepare import PreparedData
from model.results import SELECTED_BY, EpochReport, MetricValue, TrialResult
from study import engine as database
from study.cells import Cell
from study.execute import Failure
from study.inserts import add
from study.plan import Plan
from study.provenance import Environment
from study.rows import (
    Row,
    cell_row,
    dataset_row,
    environment_row,
    metric_rows,
    rank_rows,
    result_row,
    trial_row,
)
from study.schema import (
    AttemptRow,
    CellRow,
    DatasetRow,
    EnvironmentRow,
    EpochMetricRow,
    RankRow,
    ResultRow,
    StudyRow,
    TrialRow,
)
from study.staleness import of_other_data
from study.supply import Course
from study.trial import Trial

_result = ResultRow.__table__.c  # its metric columns have names that Python cannot spell

_CELL_FACTORS = ("hidden", "heads", "dropout", "weight_decay")
_IDS_PER_STATEMENT = 10_000  # SQLite takes 32,766 parameters in one statement


def _no_claim() -> None:
    raise RuntimeError("only a claim that is held can be renewed")


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Standing:
    """How many of the trials that a study asks for are in which state.

    Attributes:
        states: `complete`, `pending`, .. -> number of trials; a point not asked for is pending.
    """

    states: Mapping[str, int]

    @property
    def wanted(self) -> int:
        """All of them."""
        return sum(self.states.values())

    @property
    def complete(self) -> int:
        """Those with a result."""
        return self.states.get("complete", 0)

    @property
    def censored(self) -> int:
        """Those that were stopped early, which need no more."""
        return self.states.get("censored", 0)

    @property
    def missing(self) -> int:
        """Those that could have a result and have none."""
        return self.wanted - self.complete - self.censored


class Store:
    """An open results database that this process may write to.

    Close it, or use it as a context manager. Writing trials' states needs the launch lock:
    `with Store.open(url) as store, store.claim(): ..`.
    """

    def __init__(self, engine: Engine, *, clock: Callable[[], datetime] = _now) -> None:
        self._engine = engine
        self._clock = clock
        self._claimed = False
        self._open: Connection | None = None
        self._epochs: list[Row] = []  # of the open transaction, not yet sent
        self._renew: Callable[[], None] = _no_claim
        dialect = postgresql if engine.dialect.name == "postgresql" else sqlite
        self._insert = dialect.insert

    @classmethod
    def open(cls, url: str, *, clock: Callable[[], datetime] = _now) -> Self:
        """Open the database at an SQLAlchemy URL; its schema is created where there is none.

        Args:
            url: `sqlite:///results.db` or `postgresql://user@host/name`.
            clock: tells the time of what is recorded; aware.

        Raises:
            RequestError: the database cannot be opened for writing or has another schema.
        """
        return cls(database.writing(url), clock=clock)

    @property
    def engine(self) -> Engine:
        """The database, for tables that are not ours."""
        return self._engine

    @property
    def url(self) -> str:
        """The database's address, without a password."""
        return self._engine.url.render_as_string(hide_password=True)

    @property
    def path(self) -> Path | None:
        """The database's file; None where a server holds it."""
        return database.sqlite_path(self._engine.url)

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Hold the launch lock: no other process can claim the store meanwhile.

        Raises:
            RequestError: another launch holds it.
        """
        with database.exclusive(self._engine) as self._renew:
            self._claimed = True
            try:
                yield
            finally:
                self._claimed = False

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write what is recorded inside in one transaction: all of it or, on an error, nothing.

        A commit for each report costs more than the report: a driver that has several waiting
        records them together. Epochs are sent as one statement, before whatever else is recorded.
        Not to be used from two threads.
        """
        if self._open is not None:
            yield
            return
        with self._engine.begin() as connection:
            self._open = connection
            try:
                yield
                self._send_epochs(connection)
            finally:
                self._open = None
                self._epochs = []

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Give the transaction that is open, or one of this statement's own."""
        if self._open is not None:
            self._send_epochs(self._open)
            yield self._open
            return
        with self._engine.begin() as connection:
            yield connection

    def _send_epochs(self, connection: Connection) -> None:
        rows, self._epochs = self._epochs, []
        add(connection, EpochMetricRow, rows)

    def renew_claim(self) -> None:
        """Take the launch lock again where a server has lost it by starting anew.

        Raises:
            RequestError: another launch was faster.
            DBAPIError: the server does not answer.
        """
        self._renew()

    # What is asked for

    def record_dataset(self, data: PreparedData, config: DatasetConfig) -> None:
        """Make a prepared data set known; results refer to it by its fingerprint."""
        with self._writing() as connection:
            add(connection, DatasetRow, [dataset_row(data, config)])

    def record_plan(self, plan: Plan) -> None:
        """Replace what the study declares, and add the trials that are new.

        Trials that no study declares any more stay if they were ever begun.
        """
        study = {
            "name": plan.study.name,
            "question": plan.study.question,
            "definition": plan.study.model_dump_json(),
            "declared": len(plan.cells),
            "planned_at": self._clock(),
        }
        others = _others(plan)
        with self._writing() as connection:
            statement = self._insert(StudyRow)
            connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["name"],
                    set_={name: statement.excluded[name] for name in study if name != "name"},
                ),
                study,
            )
            connection.execute(delete(CellRow).where(CellRow.study == plan.study.name))
            add(connection, TrialRow, [trial_row(trial) for trial in plan.trials.values()])
            rows = [cell_row(cell, plan.study.name, others=others) for cell in plan.cells]
            add(connection, CellRow, rows)
            connection.execute(
                delete(TrialRow).where(
                    TrialRow.attempts == 0, ~exists().where(CellRow.trial == TrialRow.id)
                )
            )

    def record_points(
        self, plan: Plan, cells: Sequence[Cell], *, trials: Sequence[Trial] = ()
    ) -> None:
        """Replace some of the plan's cells by those of the same index, and add their trials."""
        study = plan.study.name
        rows = [cell_row(cell, study, others=_others(plan)) for cell in cells]
        with self._writing() as connection:
            connection.execute(
                delete(CellRow).where(
                    CellRow.study == study, CellRow.number.in_([cell.index for cell in cells])
                )
            )
            add(connection, TrialRow, [trial_row(trial) for trial in trials])
            add(connection, CellRow, rows)

    def trials_of(self, study: str) -> list[str]:
        """Return the ids of the trials that answer a study's cells as last recorded."""
        with self._engine.connect() as connection:
            return list(
                connection.scalars(
                    select(CellRow.trial).where(CellRow.study == study, CellRow.state == "feasible")
                )
            )

    # Where trials stand

    def scores(self, trial_ids: Sequence[str]) -> dict[str, float]:
        """Return what complete trials are chosen by: validation NDCG@10 at the best epoch."""
        found: dict[str, float] = {}
        with self._engine.connect() as connection:
            for some in _batches(trial_ids):
                rows = connection.execute(
                    select(TrialRow.id, _result["validation_ndcg@10"])
                    .join(
                        ResultRow,
                        and_(
                            _result.trial == TrialRow.id,
                            _result.attempt == TrialRow.result_attempt,
                        ),
                    )
                    .where(TrialRow.id.in_(some))
                )
                found.update((trial, value) for trial, value in rows)
        return found

    def courses(self, trial_ids: Sequence[str]) -> dict[str, Course]:
        """Return validation NDCG@10 (its own protocol) by epoch, of each trial's last attempt."""
        found: dict[str, list[tuple[int, float]]] = {}
        with self._engine.connect() as connection:
            for some in _batches(trial_ids):
                rows = connection.execute(
                    select(EpochMetricRow.trial, EpochMetricRow.epoch, EpochMetricRow.value)
                    .join(
                        TrialRow,
                        and_(
                            TrialRow.id == EpochMetricRow.trial,
                            TrialRow.attempts == EpochMetricRow.attempt,
                        ),
                    )
                    .where(
                        TrialRow.id.in_(some),
                        EpochMetricRow.split == "validation",
                        EpochMetricRow.protocol == TrialRow.protocol,
                        EpochMetricRow.metric == SELECTED_BY,
                    )
                    .order_by(EpochMetricRow.trial, EpochMetricRow.epoch)
                )
                for trial, epoch, value in rows:
                    found.setdefault(trial, []).append((epoch, float(value or 0.0)))
        return {trial: tuple(course) for trial, course in found.items()}

    def standing(self, study: str) -> Standing:
        """Return where the trials that a study asks for stand; a shared one counts once."""
        state = case((CellRow.state == "unasked", "pending"), else_=TrialRow.state)
        statement = (
            select(state, func.count())
            .select_from(CellRow)
            .outerjoin(TrialRow, TrialRow.id == CellRow.trial)
            .where(CellRow.study == study, CellRow.state.in_(("feasible", "unasked")))
            .group_by(state)
        )
        with self._engine.connect() as connection:
            return Standing(dict(row.tuple() for row in connection.execute(statement)))

    def states(self, trial_ids: Sequence[str]) -> dict[str, str]:
        """Return the state of each of these trials that the store knows."""
        found: dict[str, str] = {}
        with self._engine.connect() as connection:
            for some in _batches(trial_ids):
                rows = connection.execute(
                    select(TrialRow.id, TrialRow.state).where(TrialRow.id.in_(some))
                )
                found.update((trial, state) for trial, state in rows)
        return found

    def mark_lost(self) -> list[str]:
        """Record attempts that a dead launch left running as `lost`; their trials are pending.

        Returns:
            The ids of these trials.

        Raises:
            RuntimeError: without `claim()`, they might be another launch's.
        """
        if not self._claimed:
            raise RuntimeError("attempts may only be declared lost by the launch that has claimed")
        with self._writing() as connection:
            connection.execute(
                update(AttemptRow)
                .where(AttemptRow.state == "running")
                .values(
                    state="failed",
                    failure="lost",
                    message="the launch ended before the attempt did",
                    ended_at=self._clock(),
                )
            )
            return list(
                connection.scalars(
                    update(TrialRow)
                    .where(TrialRow.state == "running")
                    .values(state="pending")
                    .returning(TrialRow.id)
                )
            )

    def reset_failed(self, trial_ids: Sequence[str], *, classes: Sequence[Failure]) -> list[str]:
        """Make those of these trials pending that failed last with one of the classes.

        Returns:
            The ids of the trials that are pending now and were not.
        """
        last_failed_so = exists().where(
            AttemptRow.trial == TrialRow.id,
            AttemptRow.number == TrialRow.attempts,
            AttemptRow.failure.in_(classes),
        )
        statement = update(TrialRow).where(TrialRow.state == "failed", last_failed_so)
        with self._writing() as connection:
            return [
                trial
                for some in _batches(trial_ids)
                for trial in connection.scalars(
                    statement.where(TrialRow.id.in_(some))
                    .values(state="pending")
                    .returning(TrialRow.id)
                )
            ]

    def stale(self, fingerprints: Mapping[DatasetConfig, str]) -> list[str]:
        """Make trials pending, of whatever study, whose result belongs to other data than now.

        Args:
            fingerprints: data set as it is prepared -> its fingerprint now.

        Returns:
            The ids of the trials that are pending now and were complete. Their results stay in
            the table `result`, with the attempt that gave them.
        """
        with self._writing() as connection:
            return list(
                connection.scalars(
                    update(TrialRow)
                    .where(of_other_data(fingerprints))
                    .values(state="pending", result_attempt=None)
                    .returning(TrialRow.id)
                )
            )

    # What attempts report

    def begin_attempt(
        self, trial_id: str, environment: Environment | None, *, fingerprint: str | None = None
    ) -> int:
        """Record that a pending trial is being trained, and return the attempt's number.

        Args:
            trial_id: the trial.
            environment: the worker's; None if it died before it could say.
            fingerprint: of the data that it reads; see `record_dataset`.

        Raises:
            RuntimeError: the trial is not pending, so that it would be trained twice.
        """
        with self._writing() as connection:
            number = connection.scalar(
                update(TrialRow)
                .where(TrialRow.id == trial_id, TrialRow.state == "pending")
                .values(state="running", attempts=TrialRow.attempts + 1)
                .returning(TrialRow.attempts)
            )
            if number is None:
                raise RuntimeError(f"only a pending trial can be begun, and {trial_id} is not")
            if environment is not None:
                add(connection, EnvironmentRow, [environment_row(environment)])
            attempt = {
                "trial": trial_id,
                "number": number,
                "state": "running",
                "started_at": self._clock(),
                "environment": None if environment is None else environment.id,
                "fingerprint": fingerprint,
            }
            add(connection, AttemptRow, [attempt])
            return int(number)

    def open_attempt(self, trial_id: str) -> int | None:
        """Return the number of the trial's attempt that is running, or None.

        For a writer whose `begin_attempt` lost its connection before the answer came.
        """
        with self._writing() as connection:
            return connection.scalar(
                select(AttemptRow.number).where(
                    AttemptRow.trial == trial_id, AttemptRow.state == "running"
                )
            )

    def append_log(self, trial_id: str, attempt: int, text: str) -> None:
        """Add to what an attempt has printed."""
        with self._writing() as connection:
            connection.execute(
                update(AttemptRow)
                .where(AttemptRow.trial == trial_id, AttemptRow.number == attempt)
                .values(log=func.coalesce(AttemptRow.log, "") + text)
            )

    def record_epoch(self, trial_id: str, attempt: int, report: EpochReport) -> None:
        """Record what an epoch measured and how long it took; an epoch counts once."""
        self.record_epochs([(trial_id, attempt, report)])

    def record_epochs(self, reports: Iterable[tuple[str, int, EpochReport]]) -> None:
        """Record many epochs at once, each as (trial, attempt, report); an epoch counts once."""
        rows = [
            row
            for trial_id, attempt, report in reports
            for row in metric_rows(
                trial_id,
                attempt,
                epoch=report.epoch,
                metrics=(
                    *report.metrics,
                    MetricValue("train", "none", "seconds", report.seconds),
                ),
            )
        ]
        if self._open is not None:
            self._epochs += rows
            return
        with self._writing() as connection:
            add(connection, EpochMetricRow, rows)

    def complete(
        self, trial_id: str, attempt: int, result: TrialResult, *, fingerprint: str
    ) -> bool:
        """Record a finished attempt; the first result makes the trial complete.

        An attempt that was given up as lost may still finish: its result counts, unless another
        attempt was faster.

        Args:
            trial_id: the trial.
            attempt: number of the attempt.
            result: what it gave.
            fingerprint: of the data that it was trained on; see `record_dataset`.

        Returns:
            Whether this is now the trial's result.
        """
        with self._writing() as connection:
            finished = connection.scalar(
                update(AttemptRow)
                .where(
                    AttemptRow.trial == trial_id,
                    AttemptRow.number == attempt,
                    AttemptRow.state != "complete",
                )
                .values(
                    state="complete",
                    failure=None,
                    message=None,
                    traceback=None,
                    ended_at=self._clock(),
                )
                .returning(AttemptRow.number)
            )
            if finished is None:
                return False
            first = connection.scalar(
                update(TrialRow)
                .where(TrialRow.id == trial_id, TrialRow.result_attempt.is_(None))
                .values(state="complete", result_attempt=attempt)
                .returning(TrialRow.id)
            )
            if first is None:
                return False
            self._add_result(connection, trial_id, attempt, result, fingerprint)
            return True

    def fail(
        self,
        trial_id: str,
        attempt: int,
        *,
        failure: Failure,
        message: str,
        traceback: str | None = None,
    ) -> None:
        """Record that an attempt ended without a result; one that has ended already stays so.

        The trial is `failed`, after `lost` and `cancelled` it is pending: nothing says that the
        configuration is at fault.
        """
        with self._writing() as connection:
            ended = connection.scalar(
                update(AttemptRow)
                .where(
                    AttemptRow.trial == trial_id,
                    AttemptRow.number == attempt,
                    AttemptRow.state == "running",
                )
                .values(
                    state="failed",
                    failure=failure,
                    message=message,
                    traceback=traceback or None,
                    ended_at=self._clock(),
                )
                .returning(AttemptRow.number)
            )
            if ended is not None:
                connection.execute(
                    update(TrialRow)
                    .where(
                        TrialRow.id == trial_id,
                        TrialRow.state == "running",
                        TrialRow.attempts == attempt,
                    )
                    .values(state="pending" if failure in {"lost", "cancelled"} else "failed")
                )

    def censor(self, trial_id: str, attempt: int, *, epoch: int) -> None:
        """Record that a scheduler stopped the attempt after this epoch, if it still runs.

        The trial has no result then, and enters no comparison.
        """
        with self._writing() as connection:
            stopped = connection.scalar(
                update(AttemptRow)
                .where(
                    AttemptRow.trial == trial_id,
                    AttemptRow.number == attempt,
                    AttemptRow.state == "running",
                )
                .values(
                    state="censored",
                    message=f"stopped early after epoch {epoch}",
                    ended_at=self._clock(),
                )
                .returning(AttemptRow.number)
            )
            if stopped is not None:
                connection.execute(
                    update(TrialRow)
                    .where(TrialRow.id == trial_id, TrialRow.state == "running")
                    .values(state="censored")
                )

    def uncensor(self, trial_ids: Sequence[str]) -> list[str]:
        """Make those of these trials pending that were stopped early: now they are wanted whole.

        Returns:
            The ids of the trials that are pending now and were not.
        """
        with self._writing() as connection:
            return [
                trial
                for some in _batches(trial_ids)
                for trial in connection.scalars(
                    update(TrialRow)
                    .where(TrialRow.state == "censored", TrialRow.id.in_(some))
                    .values(state="pending")
                    .returning(TrialRow.id)
                )
            ]

    def _add_result(
        self,
        connection: Connection,
        trial_id: str,
        attempt: int,
        result: TrialResult,
        fingerprint: str,
    ) -> None:
        row = result_row(trial_id, attempt, result, fingerprint=fingerprint)
        add(connection, ResultRow, [row])
        add(
            connection,
            EpochMetricRow,
            metric_rows(trial_id, attempt, epoch=result.best_epoch, metrics=result.metrics),
        )
        add(connection, RankRow, rank_rows(trial_id, attempt, result.ranks))


def _others(plan: Plan) -> list[str]:
    """Return the factors that a plan varies and a cell has no column for."""
    return [name for name in plan.varying if name not in _CELL_FACTORS]


def _batches(trial_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(trial_ids), _IDS_PER_STATEMENT):
        yield trial_ids[start : start + _IDS_PER_STATEMENT]
