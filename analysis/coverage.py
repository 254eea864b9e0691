"""Where a study's declared cells stand: each in exactly one class, and the classes add up.

A `running` trial is one whose launch last said so. Where no launch holds the store any more it was
left by one that died, and the next launch continues it: `left_behind` counts these. A result of
data or numerics that have been replaced since leaves its cells `pending`: the next launch trains
them anew.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Label,
    Select,
    Text,
    and_,
    case,
    false,
    func,
    literal,
    or_,
    select,
)

from model.config import DatasetConfig
from model.errors import RequestError
from study.engine import is_claimed
from study.schema import AttemptRow, CellRow, StudyRow, TrialRow
from study.staleness import Now, Stale, stale_trials

CLASSES = ("complete", "running", "pending", "failed", "infeasible", "duplicate", "censored")
"""What a declared cell can be: exactly one of these."""


def _that_have(key: str) -> Select[str]:
    """Select the studies whose definition says something under a key."""
    return select(StudyRow.name).where(StudyRow.definition.not_like(f'%"{key}":null%'))


_confirming = and_(CellRow.stage == "final", CellRow.study.in_(_that_have("confirm")))
_wanted_whole = or_(CellRow.study.not_in(_that_have("stop_early")), _confirming)
_stopped_elsewhere = and_(TrialRow.state == "censored", _wanted_whole)
"""Another study's race stopped it; this one's launch trains it to its end."""


def class_of_cells(stale: ColumnElement[bool]) -> Label[str]:
    """Return the class of a cell, in a statement over `cell` and, joined from outside, `trial`.

    Args:
        stale: which trials are pending, whatever their state says.
    """
    return case(
        (CellRow.state == "unasked", literal("pending", Text)),
        (
            and_(CellRow.state == "feasible", or_(stale, _stopped_elsewhere)),
            literal("pending", Text),
        ),
        (CellRow.state == "feasible", TrialRow.state),
        else_=CellRow.state,
    ).label("class")


cell_class = class_of_cells(false())
"""The class of a cell as the store has it, whatever has become of data and numerics."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of a study's declared cells are in each class; the classes add up.

    Attributes:
        study: the study's name.
        declared: cells in the declared product.
        counts: each of `CLASSES` -> number of cells, zeros included.
        failures: class of failure -> number of failed cells.
        stale: cells among the pending ones whose trials ended on other data or numerics.
        stale_because: on which; empty where there are none.
    """

    study: str
    declared: int
    counts: Mapping[str, int]
    failures: Mapping[str, int]
    stale: int = 0
    stale_because: str = ""

    @property
    def missing(self) -> int:
        """Cells whose trial could have a result and has none: running, pending or failed."""
        return sum(self.counts[name] for name in ("running", "pending", "failed"))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values: `study`, `declared` and a count for each class, which add up."""
        return {"study": self.study, "declared": self.declared, **self.counts}


def unknown(_: DatasetConfig) -> None:
    """Say of no data what they are now: results are taken to be of these."""


def coverage(engine: Engine, study: str, *, now: Now = unknown) -> Coverage:
    """Return the study's coverage.

    Args:
        engine: a reader of the store.
        study: name of the study.
        now: tells what data are now, to compare with those of the results.

    Raises:
        RequestError: no such study, or the store lost cells, so that classes do not add up.
    """
    with engine.connect() as connection:
        declared = declared_cells(connection, study)
        stale = stale_trials(connection, study, now=now)
        return covered(connection, study, declared=declared, stale=stale)


def covered(connection: Connection, study: str, *, declared: int, stale: Stale) -> Coverage:
    """Return the coverage of a study that declares so many cells; see `coverage`."""
    counts = dict.fromkeys(CLASSES, 0)
    failures: dict[str, int] = {}
    n_stale = 0
    for name, failure, ended, count in connection.execute(_counted(study, stale.condition)):
        counts[name] += count
        if failure is not None and name == "failed":
            failures[failure] = count
        n_stale += count * ended
    if sum(counts.values()) != declared:
        raise RequestError(
            f"every declared cell is in one class: {study} declares {declared} cells, and the "
            f"store has {sum(counts.values())}; launch the study again to record its plan"
        )
    because = stale.reason if n_stale else ""
    return Coverage(study, declared, counts, failures, stale=n_stale, stale_because=because)


def _counted(study: str, stale: ColumnElement[bool]) -> Select[str, str | None, int, int]:
    """Count cells by class, failure and whether their trials ended for nothing."""
    name = class_of_cells(stale)
    ended = case((and_(CellRow.state == "feasible", stale), 1), else_=0).label("ended")
    return (
        select(name, AttemptRow.failure, ended, func.count())
        .select_from(CellRow)
        .outerjoin(TrialRow, CellRow.trial == TrialRow.id)
        .outerjoin(
            AttemptRow,
            and_(
                AttemptRow.trial == TrialRow.id,
                AttemptRow.number == TrialRow.attempts,
                CellRow.state == "feasible",
                TrialRow.state == "failed",
            ),
        )
        .where(CellRow.study == study)
        .group_by(name, AttemptRow.failure, ended)
    )


def stale_note(standing: Coverage) -> str:
    """Say how many trials ended for nothing and why; empty where there are none."""
    if not standing.stale:
        return ""
    ended = "1 trial" if standing.stale == 1 else f"{standing.stale:,} trials"
    return (
        f"{standing.study}: {ended} ended {standing.stale_because}: pending; "
        f"`meantime launch {standing.study}` trains anew"
    )


def left_behind(engine: Engine, url: str) -> int:
    """Return how many trials read `running` in a store that no launch holds.

    Args:
        engine: a reader of the store.
        url: the store's address.
    """
    with engine.connect() as connection:
        running = connection.scalar(
            select(func.count()).select_from(TrialRow).where(TrialRow.state == "running")
        )
    return 0 if not running or is_claimed(url) else int(running)


def left_behind_note(n_trials: int) -> str:
    """Say that so many trials read `running` and do not run, and what to do."""
    are = "1 trial reads" if n_trials == 1 else f"{n_trials} trials read"
    return (
        f"{are} `running`, and no launch is alive: left by one that died; "
        "`meantime launch STUDY` continues them"
    )


def declared_cells(connection: Connection, study: str) -> int:
    """Return the number of cells that a study declares; an unknown study is refused."""
    declared = connection.scalar(select(StudyRow.declared).where(StudyRow.name == study))
    if declared is None:
        names = list(connection.scalars(select(StudyRow.name).order_by(StudyRow.name)))
        near = difflib.get_close_matches(study, names, n=1)
        advice = f"did you mean {near[0]}?" if near else "launch it first"
        raise RequestError(
            f"the store has no study {study!r}; {advice} (it has: {', '.join(names) or 'none'})"
        )
    return declared
