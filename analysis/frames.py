"""The results database as tidy DataFrames, each in a constant number of statements.

Columns have the same types whatever rows there are:
whole numbers are `Int64` (missing: NA), other numbers float64, text `str`, times UTC. Test columns
are read at the best validation epoch.
"""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    Engine,
    Integer,
    Select,
    Text,
    and_,
    case,
    cast,
    func,
    or_,
    select,
)
from sqlalchemy.types import TypeEngine

from analysis.coverage import CLASSES, cell_class, declared_cells
from model.config import EMBEDDINGS
from model.results import SELECTED_BY, Protocol, Split
from study import engine as database
from study.column_types import Utc
from study.packing import unpack
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
from study.views import FACTOR_COLUMNS, RESULTS, shown_attempt

_compared = CellRow.stage == "final"  # what was screened only chose what is confirmed
_trial, _result = TrialRow.__table__.c, ResultRow.__table__.c
_POINT = tuple(name for name in FACTOR_COLUMNS if name not in {"seed", *EMBEDDINGS})
_CURVES_OF = ("dataset", "model", "embeddings", "heads", "target_time", "protocol", "repeats")
_answers = and_(CellRow.trial == TrialRow.id, CellRow.state == "feasible")


def open_reader(url: str) -> Engine:
    """Return an engine for the functions below; it can neither change nor block anything.

    Raises:
        RequestError: there is no such database, or it is another version's.
    """
    return database.reading(url)


def studies(engine: Engine) -> pd.DataFrame:
    """Return a row for each study: `study, question, planned_at, declared` and a column a class."""
    declared = select(
        StudyRow.name.label("study"), StudyRow.question, StudyRow.planned_at, StudyRow.declared
    ).order_by(StudyRow.name)
    counted = (
        select(CellRow.study, cell_class, func.count().label("n"))
        .outerjoin(TrialRow, CellRow.trial == TrialRow.id)
        .group_by(CellRow.study, cell_class)
    )
    with engine.connect() as connection:
        frame = read(connection, declared)
        counts = {(row.study, row[1]): row.n for row in connection.execute(counted)}
    for name in CLASSES:
        values = [counts.get((study, name), 0) for study in frame["study"]]
        frame[name] = pd.array(values, dtype="Int64")
    return frame


def cells(engine: Engine, study: str) -> pd.DataFrame:
    """Return a row for each declared cell of a study, in the order of the plan.

    Where a study confirms its points, these are the confirming cells: the others enter no
    comparison, and `coverage` counts them all.

    Columns: `number, dataset, model, embeddings, hidden, heads` (text, as declared), `dropout,
    weight_decay, seed`, one for each other factor that the study varies, `class` (of
    `analysis.coverage.CLASSES`), `reason` (rule, what it repeats, or how it
    failed) and `trial`, which joins with `results`.
    """
    failed_so = AttemptRow.failure + ": " + func.coalesce(AttemptRow.message, "")
    statement = (
        select(
            CellRow.number,
            CellRow.dataset,
            CellRow.model,
            CellRow.embeddings,
            CellRow.hidden,
            CellRow.heads,
            CellRow.dropout,
            CellRow.weight_decay,
            CellRow.seed,
            CellRow.others,
            cell_class,
            case(
                (and_(CellRow.state == "feasible", TrialRow.state == "failed"), failed_so),
                else_=CellRow.reason,
            ).label("reason"),
            CellRow.trial,
        )
        .outerjoin(TrialRow, CellRow.trial == TrialRow.id)
        .outerjoin(
            AttemptRow,
            and_(AttemptRow.trial == TrialRow.id, AttemptRow.number == TrialRow.attempts),
        )
        .where(CellRow.study == study, _compared)
        .order_by(CellRow.number)
    )
    with engine.connect() as connection:
        declared_cells(connection, study)
        frame = read(connection, statement)
    others = [json.loads(text) for text in frame.pop("others")]
    place = list(frame.columns).index("class")
    for offset, name in enumerate(others[0] if others else ()):
        frame.insert(place + offset, name, untyped_column([factors[name] for factors in others]))
    return frame


def results(engine: Engine, study: str | None = None) -> pd.DataFrame:
    """Return a row for each trial of the study, with the columns of the view `results`.

    Without a study: of all, a trial once for each study that asks for it; trials that no study
    declares any more have a missing `study`. Trials that are not complete have no result.
    """
    statement = select(RESULTS).order_by(RESULTS.c.study, RESULTS.c.trial)
    with engine.connect() as connection:
        if study is not None:
            declared_cells(connection, study)
            statement = statement.where(RESULTS.c.study == study, RESULTS.c.stage == "final")
        return read(connection, statement)


def attempts(engine: Engine, study: str | None = None) -> pd.DataFrame:
    """Return a row for each attempt: how it ended, when, and where it trained.

    Columns: `trial, dataset, model, embeddings, hidden, heads, dropout, weight_decay, seed,
    attempt, state, failure, message, traceback, started_at, ended_at, fingerprint` and the
    environment's.
    """
    environment = [column for column in EnvironmentRow.__table__.c if column.name != "id"]
    statement = (
        select(
            *_factors,
            AttemptRow.number.label("attempt"),
            AttemptRow.state,
            AttemptRow.failure,
            AttemptRow.message,
            AttemptRow.traceback,
            AttemptRow.started_at,
            AttemptRow.ended_at,
            AttemptRow.fingerprint,
            *environment,
        )
        .select_from(AttemptRow)
        .join(TrialRow, AttemptRow.trial == TrialRow.id)
        .outerjoin(EnvironmentRow, AttemptRow.environment == EnvironmentRow.id)
        .order_by(AttemptRow.started_at, AttemptRow.trial, AttemptRow.number)
    )
    with engine.connect() as connection:
        if study is not None:
            declared_cells(connection, study)
            statement = statement.join(CellRow, _answers).where(CellRow.study == study)
        return read(connection, statement)


def curves(engine: Engine, study: str) -> pd.DataFrame:
    """Return what was measured in each epoch, a row a number; NaN where NaN was reported.

    Columns: `trial, dataset, model, embeddings, hidden, heads, dropout, weight_decay, seed,
    attempt, epoch, split, protocol, metric, value`. Of each trial the attempt with its result,
    else the last. The test split and the protocol `full` appear at the best epoch alone.
    """
    statement = (
        select(
            *_factors,
            EpochMetricRow.attempt,
            EpochMetricRow.epoch,
            EpochMetricRow.split,
            EpochMetricRow.protocol,
            EpochMetricRow.metric,
            EpochMetricRow.value,
        )
        .select_from(CellRow)
        .join(TrialRow, _answers)
        .join(
            EpochMetricRow,
            and_(EpochMetricRow.trial == TrialRow.id, EpochMetricRow.attempt == shown_attempt),
        )
        .where(CellRow.study == study, _compared)
        .order_by(CellRow.number, EpochMetricRow.epoch)
    )
    with engine.connect() as connection:
        declared_cells(connection, study)
        return read(connection, statement)


def training_curves(engine: Engine, study: str) -> pd.DataFrame:
    """Return `trial, epoch, metric, value`: the learning curves that a report draws.

    Validation `ndcg@10` under the trial's own protocol, and the training `loss`, of complete trials
    in the order of the plan; of a subset (with its model, heads and problem) only the
    hyperparameter point whose seeds are best on validation, or the points where several are. The
    database chooses: all of a large study's curves are millions of numbers.
    """
    answered = and_(CellRow.study == study, _compared)
    with engine.connect() as connection:
        swept = _varying_factors(connection, answered)
    candidates = (
        select(
            CellRow.number,
            TrialRow.id,
            TrialRow.result_attempt,
            *(_trial[name].label(f"is_{name}") for name in _CURVES_OF),
            func.avg(_result[f"validation_{SELECTED_BY}"])
            .over(partition_by=[_trial.dataset, *(_trial[name] for name in swept)])
            .label("reached"),
        )
        .select_from(CellRow)
        .join(TrialRow, _answers)
        .join(ResultRow, and_(_result.trial == _trial.id, _result.attempt == _trial.result_attempt))
        .where(answered)
        .subquery("candidates")
    )
    kin = [candidates.c[f"is_{name}"] for name in _CURVES_OF]
    points = select(
        candidates, func.max(candidates.c.reached).over(partition_by=kin).label("best")
    ).subquery("points")
    validation = and_(
        EpochMetricRow.split == "validation",
        EpochMetricRow.metric == SELECTED_BY,
        EpochMetricRow.protocol == points.c.is_protocol,
    )
    loss = and_(EpochMetricRow.split == "train", EpochMetricRow.metric == "loss")
    statement = (
        select(
            EpochMetricRow.trial,
            EpochMetricRow.epoch,
            EpochMetricRow.metric,
            EpochMetricRow.value,
        )
        .select_from(points)
        .join(
            EpochMetricRow,
            and_(
                EpochMetricRow.trial == points.c.id,
                EpochMetricRow.attempt == points.c.result_attempt,
            ),
        )
        # Whole billionths: readers take means in another order, and equal points may differ in the
        # last digit. As an equation, since PostgreSQL then expects few rows and looks them up.
        .where(cast((points.c.best - points.c.reached) * 1e9, Integer) == 0, or_(validation, loss))
        .order_by(points.c.number, EpochMetricRow.epoch, EpochMetricRow.metric)
    )
    with engine.connect() as connection:
        return read(connection, statement)


def _varying_factors(connection: Connection, answered: ColumnElement[bool]) -> list[str]:
    """Return the factors of which these cells' trials have several levels; the seed is none."""
    several = [
        case(
            (func.min(_trial[name]) != func.max(_trial[name]), 1),
            (func.count(_trial[name]).between(1, func.count() - 1), 1),  # some do not read it
            else_=0,
        )
        for name in _POINT
    ]
    statement = select(*several).select_from(CellRow).join(TrialRow, _answers).where(answered)
    found = connection.execute(statement).one()
    return [name for name, varies in zip(_POINT, found, strict=True) if varies]


def ranks(
    engine: Engine,
    study: str,
    *,
    split: Split = "test",
    protocol: Protocol | None = None,
) -> pd.DataFrame:
    """Return the counts per user that metrics and paired tests come from.

    Columns: `trial, user` (place in the data set's user order, from 0), `greater, equal`: how
    many other candidates score above and like the target. Complete trials only; without a
    `protocol` under each trial's own.
    """
    statement = (
        select(RankRow.trial, RankRow.n_users, RankRow.greater, RankRow.equal)
        .select_from(CellRow)
        .join(TrialRow, _answers)
        .join(
            RankRow,
            and_(RankRow.trial == TrialRow.id, RankRow.attempt == TrialRow.result_attempt),
        )
        .where(
            CellRow.study == study,
            _compared,
            RankRow.split == split,
            RankRow.protocol == (protocol or TrialRow.protocol),
        )
        .order_by(CellRow.number)
    )
    with engine.connect() as connection:
        declared_cells(connection, study)
        rows = connection.execute(statement).all()
    nothing = np.zeros(0, dtype=np.int32)  # concatenate wants at least one array
    counts = [row.n_users for row in rows]
    users = [np.arange(count, dtype=np.int32) for count in counts]
    return pd.DataFrame(
        {
            "trial": pd.Series(np.repeat([row.trial for row in rows], counts), dtype="str"),
            "user": np.concatenate([nothing, *users]),
            "greater": np.concatenate([nothing, *(unpack(row.greater) for row in rows)]),
            "equal": np.concatenate([nothing, *(unpack(row.equal) for row in rows)]),
        }
    )


def datasets(engine: Engine) -> pd.DataFrame:
    """Return a row for each prepared data set that results were computed on."""
    with engine.connect() as connection:
        return read(connection, select(DatasetRow.__table__).order_by(DatasetRow.name))


def read(connection: Connection, statement: Select[*tuple[Any, ...]]) -> pd.DataFrame:
    """Return a statement's rows as a DataFrame that is typed by the statement's columns."""
    columns = list(statement.selected_columns)
    rows = connection.execute(statement).all()
    # By place, not by name: then a column is made from its values at once, not row by row.
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    return pd.DataFrame(
        {
            column.name: pd.Series(list(value), dtype=_dtype(column.type, value))
            for column, value in zip(columns, values, strict=True)
        }
    )


def untyped_column(values: Sequence[object]) -> "pd.Series[Any]":
    """Return a column whose type only its values tell; whole numbers stay whole beside NULL."""
    # PostgreSQL's averages of whole numbers are decimals, which JSON and figures do not know.
    plain = [float(value) if isinstance(value, Decimal) else value for value in values]
    whole = any(value is not None for value in plain) and all(
        value is None or type(value) is int for value in plain
    )
    return pd.Series(plain, dtype="Int64" if whole else None)


def _dtype(kind: TypeEngine[Any], values: Sequence[object]) -> str:
    match kind:
        case Boolean():
            return "boolean" if None in values else "bool"
        case Integer():
            return "Int64"
        case Text():
            return "str"
        case Utc():
            return "datetime64[us, UTC]"
        case _:
            return "float64"


_factors = (
    TrialRow.id.label("trial"),
    TrialRow.dataset,
    TrialRow.model,
    TrialRow.embeddings,
    TrialRow.hidden,
    TrialRow.heads,
    TrialRow.dropout,
    TrialRow.weight_decay,
    TrialRow.seed,
)
