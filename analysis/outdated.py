"""Results of other data than this machine's folder has now: their study's launch trains them again.

A store keeps a data set's fingerprint, not its rows. Where the data are not here nothing is known.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlalchemy import Engine, and_, func, select

from model.config import DatasetConfig
from model.data.prepare import fingerprint_here
from study.schema import CellRow, DatasetRow, ResultRow, TrialRow

_result = ResultRow.__table__.c


def outdated(engine: Engine, studies: Sequence[str], folder: Path) -> Mapping[str, int]:
    """Count the complete trials of these studies whose data set is another one in `folder` now.

    Args:
        engine: a reader of the store.
        studies: names of studies.
        folder: where data sets are stored.

    Returns:
        Name of a data set -> number of its trials, where there are any.
    """
    statement = (
        select(
            TrialRow.dataset,
            DatasetRow.preparation,
            DatasetRow.fingerprint,
            func.count(TrialRow.id.distinct()),
        )
        .select_from(CellRow)
        .join(TrialRow, and_(CellRow.trial == TrialRow.id, CellRow.state == "feasible"))
        .join(
            ResultRow,
            and_(_result.trial == TrialRow.id, _result.attempt == TrialRow.result_attempt),
        )
        .join(DatasetRow, DatasetRow.fingerprint == _result.fingerprint)
        .where(CellRow.study.in_(studies))
        .group_by(TrialRow.dataset, DatasetRow.preparation, DatasetRow.fingerprint)
    )
    with engine.connect() as connection:
        rows = connection.execute(statement).all()
    found: Counter[str] = Counter()
    for name, preparation, fingerprint, n_trials in rows:
        config = DatasetConfig.model_validate_json(preparation).model_copy(update={"name": name})
        if fingerprint_here(config, folder) not in {None, fingerprint}:
            found[name] += n_trials
    return found


def outdated_note(found: Mapping[str, int], folder: Path) -> str:
    """Say how many results belong to other data than `folder` has, and what to do."""
    each = ", ".join(f"{n_trials} of {name}" for name, n_trials in sorted(found.items()))
    return (
        f"complete on other data than {folder} has now: {each}; `meantime launch STUDY` trains "
        "them again"
    )
