"""Trials of another machine's database join this one: nothing is lost, nothing comes twice.

A trial is the same in both by its id, an attempt by when it began and where. Attempts that are new
here are added to the trial's history under the next numbers; a trial that is complete in one of the
two is complete afterwards. Where both have a result, this database's stays the trial's, and what
differs is told; the other one stays readable in `attempt`, `result` and `rank`. A study that the
two declare differently is kept twice, the other declaration under a name of its own.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, insert, select, update

from model.errors import RequestError
from study import engine as database
from study.rows_between import TABLES, Row, batches, insert_new, rows, rows_where
from study.schema import RESULT_METRICS

_trial, _attempt, _result = TABLES["trial"], TABLES["attempt"], TABLES["result"]
_MEASURED = ("epoch_metric", "result", "rank")
_SAME = 1e-12  # two databases keep a double alike to the last bits


@dataclass(frozen=True, slots=True)
class Conflict:
    """What the two databases say differently.

    Attributes:
        kind: `fingerprint` (results on other data), `result` (other numbers) or `study`.
        what: id of the trial, or name of the study.
        detail: what each has, and what was kept.
    """

    kind: Literal["fingerprint", "result", "study"]
    what: str
    detail: str


@dataclass(slots=True)
class Merged:
    """What a merge brought.

    Attributes:
        studies: names of studies that are new here.
        trials: number of trials that are new here.
        attempts: number of attempts that are new here, or have an end now.
        completed: number of trials that are complete now and were not.
        conflicts: what the two say differently; nothing of it is lost.
    """

    studies: list[str] = field(default_factory=list)
    trials: int = 0
    attempts: int = 0
    completed: int = 0
    conflicts: list[Conflict] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything is new here."""
        return bool(self.studies or self.trials or self.attempts or self.completed)


def merge(url: str, other: str, *, clock: Callable[[], datetime]) -> Merged:
    """Bring everything of another database into this one, or nothing at all.

    Args:
        url: address of this database; made if there is none.
        other: address of the other one; it is only read, also while a launch writes to it.
        clock: tells when attempts that still run elsewhere are given up here; aware.

    Raises:
        RequestError: one cannot be opened, both are the same, or a launch is writing here.
    """
    if database.address_of(url) == database.address_of(other):
        raise RequestError(f"a database is merged with others, got {other} twice; name another")
    source = database.reading(other)
    target = database.writing(url)
    try:
        with (
            database.exclusive(target),
            source.connect() as there,
            target.begin() as here,
        ):
            return _Merge(here, there, clock).all()
    finally:
        source.dispose()
        target.dispose()


class _Merge:
    def __init__(self, here: Connection, there: Connection, clock: Callable[[], datetime]) -> None:
        self._here = here
        self._there = there
        self._clock = clock
        self._merged = Merged()

    def all(self) -> Merged:
        for name in ("dataset", "environment"):
            for some in rows(self._there, select(TABLES[name])):
                insert_new(self._here, TABLES[name], some)
        theirs = set(self._there.scalars(select(_trial.c.id)))
        shared: set[str] = set()
        for ids in batches(sorted(theirs)):
            shared.update(self._here.scalars(select(_trial.c.id).where(_trial.c.id.in_(ids))))
        self._add_trials(sorted(theirs - shared))
        for ids in batches(sorted(shared)):
            self._join_trials(ids)
        self._add_studies()
        return self._merged

    def _add_trials(self, ids: Sequence[str]) -> None:
        """Add trials that are not here, with all that belongs to them."""
        for some in batches(ids):
            for found in rows_where(self._there, _trial, _trial.c.id, some):
                for row in found:
                    row["state"] = "pending" if row["state"] == "running" else row["state"]
                insert_new(self._here, _trial, found)
            for found in rows_where(self._there, _attempt, _attempt.c.trial, some):
                insert_new(self._here, _attempt, [self._ended(row) for row in found])
                self._merged.attempts += len(found)
            for name in _MEASURED:
                table = TABLES[name]
                for found in rows_where(self._there, table, table.c.trial, some):
                    insert_new(self._here, table, found)
            self._merged.trials += len(some)

    def _join_trials(self, ids: Sequence[str]) -> None:
        """Bring together what both have of some trials."""
        ours, theirs = (
            {row["id"]: row for found in rows_where(c, _trial, _trial.c.id, ids) for row in found}
            for c in (self._here, self._there)
        )
        our_attempts, their_attempts = (
            _by_trial(rows_where(c, _attempt, _attempt.c.trial, ids))
            for c in (self._here, self._there)
        )
        for trial in ids:
            here = {_identity(row): row for row in our_attempts[trial]}
            last = max((row["number"] for row in our_attempts[trial]), default=0)
            numbers: dict[int, int] = {}
            changed = False
            for row in sorted(their_attempts[trial], key=lambda row: row["started_at"]):
                known = here.get(_identity(row))
                if known is None:
                    last += 1
                    numbers[row["number"]] = last
                    self._add_attempt(row, last)
                    changed = True
                else:
                    numbers[row["number"]] = known["number"]
                    if _certainty(row) > _certainty(known):
                        self._end_attempt(row, known["number"])
                        changed = True
            if changed:
                self._settle(ours[trial], theirs[trial], numbers, last)
            if ours[trial]["state"] == theirs[trial]["state"] == "complete":
                self._compare(ours[trial], theirs[trial], numbers)

    def _add_attempt(self, row: Row, number: int) -> None:
        self._here.execute(insert(_attempt), {**self._ended(row), "number": number})
        self._copy_measured(row, number)
        self._merged.attempts += 1

    def _end_attempt(self, row: Row, number: int) -> None:
        """Say how an attempt ended that was still under way when it was brought here."""
        values = {name: value for name, value in row.items() if name not in {"trial", "number"}}
        self._here.execute(
            update(_attempt)
            .where(_attempt.c.trial == row["trial"], _attempt.c.number == number)
            .values(**values)
        )
        self._copy_measured(row, number)
        self._merged.attempts += 1

    def _copy_measured(self, row: Row, number: int) -> None:
        for name in _MEASURED:
            table = TABLES[name]
            statement = select(table).where(
                table.c.trial == row["trial"], table.c.attempt == row["number"]
            )
            for found in rows(self._there, statement):
                insert_new(self._here, table, [{**each, "attempt": number} for each in found])

    def _settle(self, ours: Row, theirs: Row, numbers: Mapping[int, int], last: int) -> None:
        """Give a trial the state that all its attempts come to: a result, else the last one's."""
        values: Row = {"attempts": last}
        if ours["state"] != "complete":
            if theirs["state"] == "complete":
                number = numbers[theirs["result_attempt"]]
                values |= {"state": "complete", "result_attempt": number}
                self._merged.completed += 1
            else:
                values["state"] = self._state_after(ours["id"], last)
        self._here.execute(update(_trial).where(_trial.c.id == ours["id"]).values(**values))

    def _state_after(self, trial: str, number: int) -> str:
        state, failure = self._here.execute(
            select(_attempt.c.state, _attempt.c.failure).where(
                _attempt.c.trial == trial, _attempt.c.number == number
            )
        ).one()
        if state == "censored":
            return "censored"
        # A complete attempt without the trial's result was computed on data that have changed.
        lost = state == "complete" or failure in {"lost", "cancelled"}
        return "pending" if lost else "failed"

    def _compare(self, ours: Row, theirs: Row, numbers: Mapping[int, int]) -> None:
        if numbers[theirs["result_attempt"]] == ours["result_attempt"]:
            return
        (mine, my_ranks), (their, their_ranks) = (
            self._outcome(connection, trial)
            for connection, trial in ((self._here, ours), (self._there, theirs))
        )
        if mine["fingerprint"] != their["fingerprint"]:
            detail = (
                f"here on data {mine['fingerprint'][:12]}, there on {their['fingerprint'][:12]}; "
                f"kept the result here, theirs is attempt {numbers[theirs['result_attempt']]}"
            )
            self._merged.conflicts.append(Conflict("fingerprint", ours["id"], detail))
            return
        differing = [
            f"{name} {_said(mine[name])} here, {_said(their[name])} there"
            for name in RESULT_METRICS
            if not _equal(mine[name], their[name])
        ]
        if not differing and my_ranks != their_ranks:
            differing = ["ranks of single users"]
        if differing:
            detail = (
                f"{differing[0]}{f' and {len(differing) - 1} more' if len(differing) > 1 else ''}; "
                f"kept the result here, theirs is attempt {numbers[theirs['result_attempt']]}"
            )
            self._merged.conflicts.append(Conflict("result", ours["id"], detail))

    @staticmethod
    def _outcome(connection: Connection, trial: Row) -> tuple[Row, set[tuple[Any, ...]]]:
        rank = TABLES["rank"]
        key = {"trial": trial["id"], "attempt": trial["result_attempt"]}
        result = connection.execute(
            select(_result).where(*(_result.c[name] == value for name, value in key.items()))
        ).mappings()
        ranks = connection.execute(
            select(rank.c.split, rank.c.protocol, rank.c.greater, rank.c.equal).where(
                *(rank.c[name] == value for name, value in key.items())
            )
        )
        return dict(result.one()), {tuple(row) for row in ranks}

    def _ended(self, row: Row) -> Row:
        """An attempt that runs elsewhere is lost to this database until it is merged again."""
        if row["state"] != "running":
            return row
        return {
            **row,
            "state": "failed",
            "failure": "lost",
            "message": "it was still running elsewhere when its database was merged",
            "ended_at": max(self._clock(), row["started_at"]),
        }

    def _add_studies(self) -> None:
        study, cell = TABLES["study"], TABLES["cell"]
        for row in self._there.execute(select(study).order_by(study.c.name)).mappings().all():
            declared = self._cells(self._there, row["name"])
            known = self._here.scalar(select(study.c.name).where(study.c.name == row["name"]))
            name = row["name"]
            if known is not None:
                if self._cells(self._here, name) == declared:
                    continue
                text = json.dumps([row["definition"], declared], sort_keys=True)
                name = f"{name}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"
                detail = f"declared differently in the two; theirs is kept as {name}"
                self._merged.conflicts.append(Conflict("study", row["name"], detail))
                if self._here.scalar(select(study.c.name).where(study.c.name == name)) is not None:
                    continue
            self._here.execute(insert(study), {**row, "name": name})
            insert_new(self._here, cell, [{**each, "study": name} for each in declared])
            self._merged.studies.append(name)

    @staticmethod
    def _cells(connection: Connection, study: str) -> list[Row]:
        cell = TABLES["cell"]
        columns = [column for column in cell.c if column.name != "study"]
        statement = select(*columns).where(cell.c.study == study).order_by(cell.c.number)
        return [row for some in rows(connection, statement) for row in some]


def _by_trial(found: Iterable[list[Row]]) -> defaultdict[str, list[Row]]:
    attempts: defaultdict[str, list[Row]] = defaultdict(list)
    for some in found:
        for row in some:
            attempts[row["trial"]].append(row)
    return attempts


def _identity(attempt: Row) -> tuple[Any, ...]:
    """Numbers count per database; when it began and where tells an attempt from all others."""
    return attempt["started_at"], attempt["environment"]


def _certainty(attempt: Row) -> int:
    if attempt["state"] == "complete":
        return 3
    if attempt["state"] == "censored":
        return 2
    return 0 if attempt["state"] == "running" or attempt["failure"] == "lost" else 1


def _said(value: float | None) -> str:
    return "NaN" if value is None else f"{value:.6g}"


def _equal(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return one == other or abs(one - other) <= _SAME
