"""Which results no longer count: of data or of numerics that have been replaced since.

Nothing is erased for it. A launch makes the trials pending; whoever reads the store before it does
asks here too, so that both say the same.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, exists, false, or_, select

from model.config import DatasetConfig
from study.rows import dataset_columns
from study.schema import CellRow, ResultRow, TrialRow
from study.trial import NUMERICS, SCHEME

_trial, _result = TrialRow.__table__.c, ResultRow.__table__.c
_READS = ("dataset", "core", "min_interactions", "min_rating", "synthetic")

Now = Callable[[DatasetConfig], str | None]
"""Tells the fingerprint that data have now; None where their rows are not here to compare."""


def in_folder(folder: Path) -> Now:
    """Return what looks at the data of a folder, at each data set once."""

    @cache
    def now(config: DatasetConfig) -> str | None:
        from model.data.prepare import fingerprint_here  # noqa: PLC0415 - it brings pandas

        return fingerprint_here(config, folder)

    return now


class Stale(NamedTuple):
    """Which trials that a study asks for are pending, whatever state the store has for them.

    Attributes:
        condition: on `trial`, for a statement.
        reason: on what they ended; empty where there are none.
    """

    condition: ColumnElement[bool]
    reason: str


def of_other_data(fingerprints: Mapping[DatasetConfig, str]) -> ColumnElement[bool]:
    """Return the condition on `trial` that its result belongs to other data than there are now.

    Args:
        fingerprints: data set, as it is prepared -> its fingerprint now.
    """
    return or_(
        false(),
        *(
            and_(
                *(_trial[name] == value for name, value in _columns(config).items()),
                exists().where(
                    _result.trial == _trial.id,
                    _result.attempt == _trial.result_attempt,
                    _result.fingerprint != fingerprint,
                ),
            )
            for config, fingerprint in fingerprints.items()
        ),
    )


def stale_trials(connection: Connection, study: str, *, now: Now) -> Stale:
    """Return which trials of a study the next launch trains anew, though they have a result.

    All that a study asks for were planned at once: of other numerics are all or none.
    """
    answers = and_(CellRow.trial == _trial.id, CellRow.study == study, CellRow.state == "feasible")
    planned = connection.scalar(select(_trial.effective).join(CellRow, answers).limit(1))
    versions = {} if planned is None else json.loads(planned)
    if versions and (versions["numerics"], versions["scheme"]) != (NUMERICS, SCHEME):
        theirs = f"numerics {versions['numerics']}, scheme {versions['scheme']}"
        reason = f"under {theirs} (this version: {NUMERICS}, {SCHEME})"
        return Stale(_trial.state.not_in(("pending", "running")), reason)
    read = (
        select(*(_trial[name] for name in _READS), _result.fingerprint)
        .join(CellRow, answers)
        .join(
            ResultRow,
            and_(_result.trial == _trial.id, _result.attempt == _trial.result_attempt),
        )
        .distinct()
    )
    changed: dict[DatasetConfig, str] = {}
    for row in connection.execute(read):
        config = _config(row._asdict())
        fingerprint = now(config)
        if fingerprint is not None and fingerprint != row.fingerprint:
            changed[config] = fingerprint
    names = ", ".join(sorted({config.name for config in changed}))
    reason = f"on other data than {names} has now (fingerprint)" if changed else ""
    return Stale(of_other_data(changed), reason)


def _columns(config: DatasetConfig) -> Mapping[str, object]:
    return dataset_columns(config.model_dump(mode="json", exclude_none=True))


def _config(columns: Mapping[str, object]) -> DatasetConfig:
    """Undo `_columns`."""
    values = {name: columns[name] for name in _READS}
    recipe = values["synthetic"]
    values["synthetic"] = None if recipe is None else json.loads(str(recipe))
    return DatasetConfig.model_validate({"name": values.pop("dataset"), **values})
