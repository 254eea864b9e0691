"""What a results database promises, checked row by row; nothing is changed.

Rows refer to rows that exist, ids are the hashes of their configurations, every declared cell is
there, a complete trial has its result at its best validation epoch, and metrics are those that the
stored ranks come to.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, exists, func, not_, or_, select

from model.metrics import summarise
from model.results import SELECTED_BY, Protocol, Ranks
from study import engine as database
from study.packing import unpack
from study.rows_between import TABLES
from study.schema import (
    RESULT_METRICS,
    AttemptRow,
    CellRow,
    EpochMetricRow,
    RankRow,
    ResultRow,
    StudyRow,
    TrialRow,
)
from study.trial import trial_id

_TOLERANCE = 1e-9  # means over users, summed in another order at most
_NAMED = 3  # of each kind of problem
_result = ResultRow.__table__.c


@dataclass(frozen=True, slots=True)
class Checked:
    """What was looked at, and what is wrong.

    Attributes:
        counts: what was checked -> how many.
        problems: each a sentence; empty where everything holds.
    """

    counts: dict[str, int]
    problems: tuple[str, ...]


def check(url: str) -> Checked:
    """Check a database in one snapshot, read-only.

    Raises:
        RequestError: it cannot be read.
    """
    engine = database.reading(url)
    try:
        with engine.connect() as connection:
            checking = _Checking(connection)
            problems = tuple(checking.problems())
            return Checked(checking.counts, problems)
    finally:
        engine.dispose()


class _Checking:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.counts: dict[str, int] = {}

    def problems(self) -> Iterator[str]:
        yield from self._file()
        yield from self._references()
        yield from self._ids()
        yield from self._coverage()
        yield from self._results()
        yield from self._best_epochs()
        yield from self._ranks()

    def _file(self) -> Iterator[str]:
        if self._connection.dialect.name == "sqlite":
            for (found,) in self._connection.exec_driver_sql("PRAGMA integrity_check(5)"):
                if found != "ok":
                    yield f"the file is damaged: {found}"

    def _references(self) -> Iterator[str]:
        """Rows that refer to rows which are not there: SQLite checks only what is written."""
        self.counts["references"] = 0
        for table in TABLES.values():
            for key in table.foreign_key_constraints:
                pairs = [(e.parent, e.column) for e in key.elements]
                missing = and_(
                    *(mine.is_not(None) for mine, _ in pairs),
                    not_(exists().where(*(mine == theirs for mine, theirs in pairs))),
                )
                statement = select(func.count()).select_from(table).where(missing)
                count = self._connection.scalar(statement) or 0
                self.counts["references"] += 1
                if count:
                    yield (
                        f"{count} rows of {table.name} refer to a row of {key.referred_table.name} "
                        "that is not there"
                    )

    def _ids(self) -> Iterator[str]:
        rows = self._connection.execute(
            select(TrialRow.id, TrialRow.effective).execution_options(yield_per=5_000)
        )
        wrong: list[str] = []
        self.counts["trials"] = 0
        for trial, effective in rows:
            self.counts["trials"] += 1
            if trial_id(json.loads(effective)) != trial:
                wrong.append(trial)
        yield from _told(wrong, "whose id is not the hash of their configuration")

    def _coverage(self) -> Iterator[str]:
        statement = (
            select(StudyRow.name, StudyRow.declared, func.count(CellRow.number))
            .outerjoin(CellRow, CellRow.study == StudyRow.name)
            .group_by(StudyRow.name, StudyRow.declared)
        )
        self.counts["studies"] = 0
        for study, declared, count in self._connection.execute(statement):
            self.counts["studies"] += 1
            if declared != count:
                yield f"{study} declares {declared} cells and has {count}"

    def _results(self) -> Iterator[str]:
        of_result = and_(
            AttemptRow.trial == TrialRow.id, AttemptRow.number == TrialRow.result_attempt
        )
        has_result = exists().where(
            _result.trial == TrialRow.id, _result.attempt == TrialRow.result_attempt
        )
        complete = TrialRow.state == "complete"
        self.counts["results"] = (
            self._connection.scalar(select(func.count()).select_from(TrialRow).where(complete)) or 0
        )
        unfinished = exists().where(of_result, AttemptRow.state == "complete")
        yield from self._trials(
            and_(complete, or_(not_(has_result), not_(unfinished))),
            "that are complete without a result of a complete attempt",
        )
        counted = (
            select(func.coalesce(func.max(AttemptRow.number), 0))
            .where(AttemptRow.trial == TrialRow.id)
            .scalar_subquery()
        )
        yield from self._trials(TrialRow.attempts != counted, "that miscount their attempts")
        under_way = exists().where(AttemptRow.trial == TrialRow.id, AttemptRow.state == "running")
        yield from self._trials(
            and_(TrialRow.state == "running", not_(under_way)),
            "that read running without an attempt that runs",
        )

    def _best_epochs(self) -> Iterator[str]:
        """The best epoch is the one with the highest validation score, not the last."""
        at_best, better = EpochMetricRow.__table__.alias(), EpochMetricRow.__table__.alias()
        own = (
            select(TrialRow.protocol)
            .where(TrialRow.id == _result.trial)
            .correlate(ResultRow.__table__)
            .scalar_subquery()
        )

        def selection(metric: Any) -> Any:  # noqa: ANN401
            return and_(
                metric.c.trial == _result.trial,
                metric.c.attempt == _result.attempt,
                metric.c.split == "validation",
                metric.c.protocol == own,
                metric.c.metric == SELECTED_BY,
            )

        beaten = exists().where(
            selection(better),
            better.c.value > at_best.c.value,
            selection(at_best),
            at_best.c.epoch == _result.best_epoch,
        )
        wrong = list(self._connection.scalars(select(_result.trial).where(beaten)))
        yield from _told(wrong, "whose best epoch has not the highest validation score")

    def _ranks(self) -> Iterator[str]:
        """Metrics are means over users of what each user's counts come to."""
        statement = (
            select(
                RankRow.trial,
                RankRow.split,
                RankRow.protocol,
                RankRow.greater,
                RankRow.equal,
                *(_result[name] for name in RESULT_METRICS),
            )
            .join(
                ResultRow.__table__,
                and_(_result.trial == RankRow.trial, _result.attempt == RankRow.attempt),
            )
            .execution_options(yield_per=200)
        )
        columns = {key: name for name, key in RESULT_METRICS.items()}
        wrong: list[str] = []
        self.counts["ranks"] = 0
        for row in self._connection.execute(statement):
            self.counts["ranks"] += 1
            counts = Ranks(row.split, row.protocol, unpack(row.greater), unpack(row.equal))
            stored = row._mapping
            for metric in summarise(counts):
                # Columns without a protocol in their name hold the trial's own.
                candidates: Protocol = "full" if metric.protocol == "full" else "popular-100"
                value = stored[columns[metric.split, candidates, metric.metric]]
                if value is not None and not abs(value - metric.value) <= _TOLERANCE:
                    wrong.append(row.trial)
                    break
        yield from _told(wrong, "whose metrics are not what their ranks come to")

    def _trials(self, wrong: Any, how: str) -> Iterator[str]:  # noqa: ANN401
        found = list(self._connection.scalars(select(TrialRow.id).where(wrong)))
        yield from _told(found, how)


def _told(trials: list[str], how: str) -> Iterator[str]:
    distinct = sorted(set(trials))
    if distinct:
        named = ", ".join(distinct[:_NAMED]) + (", .." if len(distinct) > _NAMED else "")
        yield f"{len(distinct)} trials {how}: {named}"
