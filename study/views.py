"""The flat views, so that plain SQL answers most questions: `results` and `curves`.

`results` has a row for each study and trial: a trial that two studies share appears once for each,
one that no study declares any more with a NULL study. Its result columns are filled where there is
a result. `curves` has a row for each trial and epoch, of the attempt with the result, else of the
last one. Both are outer joins by primary keys: a filter reads only the rows that it names, a
column that nobody selects costs nothing, and many thousands of trials stay fast.
"""

from typing import Any

from sqlalchemy import ColumnElement, Label, Select, Table, and_, case, func, select
from sqlalchemy.sql.ddl import CreateView

from study.schema import (
    RESULT_METRICS,
    SUMMARY_METRICS,
    AttemptRow,
    CellRow,
    EnvironmentRow,
    EpochMetricRow,
    ResultRow,
    TrialRow,
)

_trial, _cell = TrialRow.__table__.c, CellRow.__table__.c
_attempt, _environment = AttemptRow.__table__.c, EnvironmentRow.__table__.c
_result = ResultRow.__table__.c

_OWN = {"id", "dataset", "effective", "state", "attempts", "result_attempt"}
FACTOR_COLUMNS = tuple(column.name for column in _trial if column.name not in _OWN)
"""`model`, `embeddings`, the six booleans and every factor, in the order of the table."""

EPOCH_METRICS: dict[str, tuple[str, str, str]] = {
    "train_loss": ("train", "none", "loss"),
    **{f"validation_{metric}": ("validation", "popular-100", metric) for metric in SUMMARY_METRICS},
}
"""Column of the view `curves` -> split, protocol and metric that it holds."""

shown_attempt = func.coalesce(_trial.result_attempt, _trial.attempts)
"""Number of the attempt that stands for a trial: the one with the result, else the last."""

_identity = (_trial.dataset, *(_trial[name] for name in FACTOR_COLUMNS), _trial.state)

_outcome: tuple[ColumnElement[Any], ...] = (
    case((_trial.state == "failed", _attempt.failure)).label("failure"),
    _result.best_epoch,
    _result.epochs_trained,
    _result.stopped_by,
    *(_result[name] for name in RESULT_METRICS),
    _result.n_parameters,
    _result.seconds,
    _trial.attempts,
    _environment.device,
    _environment.commit,
    func.coalesce(_result.fingerprint, _attempt.fingerprint).label("fingerprint"),
    case((_trial.state != "pending", _attempt.ended_at)).label("finished_at"),
)
_rows = (
    TrialRow.__table__.outerjoin(
        AttemptRow.__table__,
        and_(_attempt.trial == _trial.id, _attempt.number == shown_attempt),
    )
    .outerjoin(EnvironmentRow.__table__, _environment.id == _attempt.environment)
    .outerjoin(
        ResultRow.__table__,
        and_(_result.trial == _trial.id, _result.attempt == _trial.result_attempt),
    )
)
_answers = and_(_cell.trial == _trial.id, _cell.state == "feasible")


def _results(*cell: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    return select(_trial.id.label("trial"), *cell, *_identity, *_outcome)


create_results = CreateView(
    _results(_cell.study, _cell.stage).select_from(_rows.outerjoin(CellRow.__table__, _answers)),
    "results",
)
"""`CREATE VIEW results AS ..`, executed at the end of every migration."""

RESULTS: Table = create_results.table
"""The view as a table to select from, with typed columns."""

TRIALS = _results().select_from(_rows).subquery("trials_once")
"""The rows of `results` without `study` and `stage`: each trial once, whoever asks for it."""


def _epoch_value(key: tuple[str, str, str], base: Any, name: str) -> tuple[Any, Label[Any]]:  # noqa: ANN401
    other = EpochMetricRow.__table__.alias(name.replace("@", "_at_"))
    split, protocol, metric = key
    same = and_(
        other.c.trial == base.c.trial,
        other.c.attempt == base.c.attempt,
        other.c.epoch == base.c.epoch,
        other.c.split == split,
        # A metric of candidates is of the trial's own protocol.
        other.c.protocol == (protocol if protocol == "none" else _trial.protocol),
        other.c.metric == metric,
    )
    return (other, same), other.c.value.label(name)


def _curves() -> Select[*tuple[Any, ...]]:
    """Every epoch has its `seconds`; each other number is one more look by primary key."""
    base = EpochMetricRow.__table__.alias("epoch_seconds")
    rows = TrialRow.__table__.join(
        base,
        and_(
            base.c.trial == _trial.id,
            base.c.attempt == shown_attempt,
            base.c.split == "train",
            base.c.protocol == "none",
            base.c.metric == "seconds",
        ),
    )
    values: list[Label[Any]] = []
    for name, key in EPOCH_METRICS.items():
        joined, value = _epoch_value(key, base, name)
        rows = rows.outerjoin(*joined)
        values.append(value)
    return select(
        _trial.id.label("trial"),
        base.c.attempt,
        *_identity,
        base.c.epoch,
        *values,
        base.c.value.label("seconds"),
    ).select_from(rows)


create_curves = CreateView(_curves(), "curves")
"""`CREATE VIEW curves AS ..`, executed at the end of every migration."""

CURVES: Table = create_curves.table
"""The view as a table to select from, with typed columns."""

_MEANINGS = {
    "results": {
        "trial": "The trial, `trial.id`.",
        "study": "A study that asks for it; NULL where none does any more.",
        "stage": "Stage of its cell: `final`, or `screen`, which only chooses.",
        "failure": "Why its last attempt failed, where `state` is `failed`.",
        "fingerprint": "The data of the result, else of the last attempt: `dataset.fingerprint`.",
        "finished_at": "When the result came or the last attempt ended, UTC.",
    },
    "curves": {
        "trial": "The trial, `trial.id`.",
        "attempt": "The attempt with the result, else the last one.",
        "train_loss": "Mean training loss of the epoch.",
        "seconds": "Wall-clock time of the epoch, seconds.",
        **{
            name: f"{split} {metric} after the epoch, candidates of `protocol`, mean over users."
            for name, (split, _, metric) in EPOCH_METRICS.items()
            if split == "validation"
        },
    },
}
_SOURCES = (_trial, _result, _environment, EpochMetricRow.__table__.c)

for _view in (RESULTS, CURVES):
    _view.c.trial.nullable = False
    for _column in _view.c:
        _inherited = (source[_column.name] for source in _SOURCES if _column.name in source)
        _meaning = _MEANINGS[_view.name].get(_column.name)
        _column.comment = _meaning or next(_inherited).comment

VIEWS = {"results": create_results, "curves": create_curves}
"""Every view by name, in the order in which they are made."""
