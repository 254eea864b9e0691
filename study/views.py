"""The view `results`: one flat row per study and trial, so that plain SQL answers most questions.

A trial that two studies share appears once for each; one that no study declares any more appears
with a NULL study. Result columns are filled for complete trials only. The view is an outer join
by primary keys: it stays fast with many thousands of trials.
"""

from sqlalchemy import Table, and_, case, func, select
from sqlalchemy.sql.ddl import CreateView

from study.schema import (
    RESULT_METRICS,
    AttemptRow,
    CellRow,
    EnvironmentRow,
    ResultRow,
    TrialRow,
)

_trial, _cell = TrialRow.__table__.c, CellRow.__table__.c
_attempt, _environment = AttemptRow.__table__.c, EnvironmentRow.__table__.c
_result = ResultRow.__table__.c

_OWN = {"id", "dataset", "effective", "state", "attempts", "result_attempt"}
FACTOR_COLUMNS = tuple(column.name for column in _trial if column.name not in _OWN)
"""`model`, `embeddings`, the six booleans and every factor, in the order of the table."""

_selection = (
    select(
        _trial.id.label("trial"),
        _cell.study,
        _cell.stage,
        _trial.dataset,
        *(_trial[name] for name in FACTOR_COLUMNS),
        _trial.state,
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
        _result.fingerprint,
        case((_trial.state != "pending", _attempt.ended_at)).label("finished_at"),
    )
    .select_from(TrialRow.__table__)
    .outerjoin(CellRow.__table__, and_(_cell.trial == _trial.id, _cell.state == "feasible"))
    .outerjoin(
        AttemptRow.__table__,
        and_(
            _attempt.trial == _trial.id,
            _attempt.number == func.coalesce(_trial.result_attempt, _trial.attempts),
        ),
    )
    .outerjoin(EnvironmentRow.__table__, _environment.id == _attempt.environment)
    .outerjoin(
        ResultRow.__table__,
        and_(_result.trial == _trial.id, _result.attempt == _trial.result_attempt),
    )
)

create_results = CreateView(_selection, "results")
"""`CREATE VIEW results AS ..`, executed at the end of every migration."""

RESULTS: Table = create_results.table
"""The view as a table to select from, with typed columns."""
