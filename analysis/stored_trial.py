"""One complete trial as the store has it, to be trained again and compared with itself."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine, and_, select

from analysis.status import trial_named
from model.errors import RequestError
from model.results import Ranks
from study.packing import unpack
from study.schema import AttemptRow, EnvironmentRow, RankRow, ResultRow, TrialRow
from study.trial import Trial

Counts = tuple[NDArray[np.int32], NDArray[np.int32]]
"""Of each user: other candidates above the target, and beside it."""


class Stored(NamedTuple):
    """A complete trial in the store.

    Attributes:
        trial: its configuration.
        threads: CPU threads that it was trained with.
        commit: of the code that trained it; None if unknown.
        best_epoch: the epoch that validation chose.
        ranks: (split, protocol) -> counts.
    """

    trial: Trial
    threads: int
    commit: str | None
    best_epoch: int
    ranks: Mapping[tuple[str, str], Counts]


def stored_trial(engine: Engine, first_digits: str) -> Stored:
    """Read a complete trial by its id, or enough of its first digits.

    Raises:
        RequestError: no trial, or several, begin so, or it has no result.
    """
    result = ResultRow.__table__.c
    with engine.connect() as connection:
        found = trial_named(connection, first_digits)
        attempt = and_(
            AttemptRow.trial == TrialRow.id, AttemptRow.number == TrialRow.result_attempt
        )
        row = connection.execute(
            select(
                TrialRow.effective,
                TrialRow.result_attempt,
                EnvironmentRow.threads,
                EnvironmentRow.commit,
                result.best_epoch,
            )
            .join(AttemptRow, attempt)
            .join(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment)
            .join(
                ResultRow.__table__,
                and_(result.trial == TrialRow.id, result.attempt == TrialRow.result_attempt),
            )
            .where(TrialRow.id == found)
        ).one_or_none()
        if row is None:
            raise RequestError(
                f"attention is drawn of a complete trial, {found} has no result; launch its study"
            )
        counted = connection.execute(
            select(RankRow.split, RankRow.protocol, RankRow.greater, RankRow.equal).where(
                RankRow.trial == found, RankRow.attempt == row.result_attempt
            )
        ).all()
    return Stored(
        Trial(found, json.loads(row.effective)),
        row.threads,
        row.commit,
        row.best_epoch,
        {(one.split, one.protocol): (unpack(one.greater), unpack(one.equal)) for one in counted},
    )


def compared(stored: Mapping[tuple[str, str], Counts], ranks: Sequence[Ranks]) -> str:
    """Say whether a second training gave the ranks of the first."""
    differing: set[int] = set()
    for one in ranks:
        greater, equal = stored[one.split, one.protocol]
        moved = (greater != one.greater) | (equal != one.equal)
        differing |= set(np.flatnonzero(moved).tolist())
    if not differing:
        return "Its ranks are those in the store: these weights are behind its numbers."
    users = len(ranks[0].greater)
    return (
        f"Trained again it ranks otherwise for {len(differing):,} of {users:,} users than in the "
        "store (another machine, or versions): its numbers are not exactly these weights'."
    )
