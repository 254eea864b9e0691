"""What a results database knows that helps to plan: sizes of data sets, times of trials."""

import json
from collections.abc import Iterable

from sqlalchemy import and_, select

from model.config import DatasetConfig
from model.sizes import DataSize
from study import engine as database
from study.estimates import Finished
from study.schema import DatasetRow, ResultRow, TrialRow
from study.trial import Trial

MOST_TRIALS = 2_000
"""Trials to learn from; more make an estimate no better."""

_result = ResultRow.__table__.c


def past(
    url: str, *, datasets: Iterable[str]
) -> tuple[dict[DatasetConfig, DataSize], list[Finished]]:
    """Return prepared sizes of data sets, and how long trials on them took.

    Args:
        url: an existing database.
        datasets: names.

    Raises:
        RequestError: there is no such database, or it is another version's.
    """
    engine = database.reading(url)
    names = list(datasets)
    with engine.connect() as connection:
        sizes = {
            DatasetConfig.model_validate_json(row.preparation): DataSize(
                n_users=row.n_users,
                n_items=row.n_items,
                n_days=row.n_days,
                n_events=row.n_interactions,
            )
            for row in connection.execute(
                select(DatasetRow.__table__).where(DatasetRow.name.in_(names))
            )
        }
        rows = connection.execute(
            select(TrialRow.id, TrialRow.effective, _result.epochs_trained, _result.seconds)
            .join(
                ResultRow,
                and_(_result.trial == TrialRow.id, _result.attempt == TrialRow.result_attempt),
            )
            .where(TrialRow.dataset.in_(names))
            .limit(MOST_TRIALS)
        ).all()
    engine.dispose()
    finished = [
        Finished(Trial(row.id, json.loads(row.effective)), row.epochs_trained, row.seconds)
        for row in rows
    ]
    return sizes, finished
