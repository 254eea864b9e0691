"""Where a study stands while it runs, from the store alone: counts, time left, best, running."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Engine, and_, func, select

from analysis.coverage import Coverage, covered, declared_cells, unknown
from model.errors import RequestError
from model.results import SELECTED_BY
from study.durations import duration
from study.schema import AttemptRow, CellRow, EnvironmentRow, EpochMetricRow, StudyRow, TrialRow
from study.staleness import Now, stale_trials
from study.views import FACTOR_COLUMNS, RESULTS

_SELECTED = RESULTS.c[f"validation_{SELECTED_BY}"]


@dataclass(frozen=True, slots=True)
class Running:
    """A trial that is being trained.

    Attributes:
        trial: its id.
        name: data set, model, subset and seed.
        attempt: number of the attempt.
        epoch: the last one that was reported; 0 before the first.
        value: its validation NDCG@10; None before the first.
        started_at: of the attempt, UTC.
    """

    trial: str
    name: str
    attempt: int
    epoch: int
    value: float | None
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Status:
    """Where a study stands.

    Attributes:
        coverage: its cells by class.
        seconds_left: expected training time of what is left, as many at once as are running now
            (at least one); None before the first trial is complete.
        best: validation NDCG@10 and name of the best complete trial; None without.
        running: the trials under way.
    """

    coverage: Coverage
    seconds_left: float | None
    best: tuple[float, str] | None
    running: tuple[Running, ...]


def status(engine: Engine, study: str, *, now: Now = unknown) -> Status:
    """Return where a study stands now.

    Args:
        engine: a reader of the store.
        study: name of the study.
        now: tells what data are now, to compare with those of the results.

    Raises:
        RequestError: no such study.
    """
    mine = RESULTS.c.study == study
    # One look at the primary key for each trial that runs: the table holds millions of rows.
    last = (
        select(func.max(EpochMetricRow.epoch))
        .where(
            EpochMetricRow.trial == AttemptRow.trial, EpochMetricRow.attempt == AttemptRow.number
        )
        .correlate(AttemptRow)
        .scalar_subquery()
    )
    with engine.connect() as connection:
        declared = declared_cells(connection, study)
        stale = stale_trials(connection, study, now=now)
        standing = covered(connection, study, declared=declared, stale=stale)
        mean = connection.scalar(select(func.avg(RESULTS.c.seconds)).where(mine))
        best = connection.execute(
            select(
                _SELECTED, RESULTS.c.dataset, RESULTS.c.model, RESULTS.c.embeddings, RESULTS.c.seed
            )
            .where(mine, _SELECTED.is_not(None))
            .where(RESULTS.c.trial.not_in(select(TrialRow.id).where(stale.condition)))
            .order_by(_SELECTED.desc())
            .limit(1)
        ).first()
        under_way = connection.execute(
            select(
                TrialRow.id,
                TrialRow.dataset,
                TrialRow.model,
                TrialRow.embeddings,
                TrialRow.seed,
                AttemptRow.number,
                AttemptRow.started_at,
                last.label("epoch"),
                EpochMetricRow.value,
            )
            .select_from(CellRow)
            .join(TrialRow, and_(CellRow.trial == TrialRow.id, CellRow.state == "feasible"))
            .join(
                AttemptRow,
                and_(AttemptRow.trial == TrialRow.id, AttemptRow.state == "running"),
            )
            .outerjoin(
                EpochMetricRow,
                and_(
                    EpochMetricRow.trial == TrialRow.id,
                    EpochMetricRow.attempt == AttemptRow.number,
                    EpochMetricRow.epoch == last,
                    EpochMetricRow.split == "validation",
                    EpochMetricRow.protocol == TrialRow.protocol,
                    EpochMetricRow.metric == SELECTED_BY,
                ),
            )
            .where(CellRow.study == study, TrialRow.state == "running")
            .order_by(AttemptRow.started_at)
        ).all()
    running = tuple(
        Running(row[0], _name(*row[1:5]), row[5], row[7] or 0, row[8], row[6]) for row in under_way
    )
    left = standing.counts["pending"] + standing.counts["running"]
    return Status(
        coverage=standing,
        seconds_left=None if mean is None else float(mean) * left / max(1, len(running)),
        best=None if best is None else (float(best[0]), _name(*best[1:])),
        running=running,
    )


def studies_in(engine: Engine) -> list[str]:
    """Return the names of the studies that the store holds."""
    with engine.connect() as connection:
        return list(connection.scalars(select(StudyRow.name).order_by(StudyRow.name)))


def lines(standing: Status, *, now: datetime, claimed: bool = True) -> list[str]:
    """Say what a status holds beside its sum, one line each.

    Args:
        standing: of a study.
        now: UTC.
        claimed: whether a launch holds the store; what runs without one was left by its death.
    """
    said = []
    if standing.seconds_left:
        said.append(f"  time left: about {duration(standing.seconds_left)}")
    if standing.best is not None:
        value, name = standing.best
        said.append(f"  best validation NDCG@10: {value:.4f}, {name}")
    if standing.running and not claimed:
        left = len(standing.running)
        were = "1 trial was" if left == 1 else f"{left} trials were"
        said.append(
            f"  no launch is alive: {were} left by one that died; "
            f"`meantime launch {standing.coverage.study}` continues them"
        )
        return said
    for trial in standing.running:
        epoch = f"epoch {trial.epoch}" if trial.epoch else "starting"
        reached = "" if trial.value is None else f", validation NDCG@10 {trial.value:.4f}"
        since = duration(max(0.0, (now - trial.started_at).total_seconds()))
        said.append(f"  running: {trial.trial} {trial.name}: {epoch}{reached}, {since}")
    return said


def trial_named(connection: Connection, first_digits: str) -> str:
    """Return the one trial whose id begins so.

    Raises:
        RequestError: no trial, or several, begin so.
    """
    found = list(
        connection.scalars(
            select(TrialRow.id).where(TrialRow.id.startswith(first_digits, autoescape=True))
        )
    )
    if len(found) != 1:
        raise RequestError(
            f"a trial is named by its id, or its first digits, got {first_digits!r}, which "
            f"{len(found)} trials begin with; `meantime query --columns trial,embeddings` "
            "lists ids"
        )
    return str(found[0])


def trial_lines(engine: Engine, trial_id: str) -> list[str]:
    """Tell a trial's configuration, then every attempt with its failure, traceback and log.

    Args:
        engine: a reader.
        trial_id: an id, or enough of its first digits.

    Raises:
        RequestError: no trial, or several, begin so.
    """
    trial = TrialRow.__table__
    with engine.connect() as connection:
        found = trial_named(connection, trial_id)
        row = connection.execute(select(trial).where(trial.c.id == found)).one()._mapping
        asked_by = list(
            connection.scalars(select(CellRow.study).where(CellRow.trial == found).distinct())
        )
        attempts = connection.execute(
            select(*AttemptRow.__table__.c, EnvironmentRow.device, EnvironmentRow.cpu)
            .outerjoin(EnvironmentRow, AttemptRow.environment == EnvironmentRow.id)
            .where(AttemptRow.trial == found)
            .order_by(AttemptRow.number)
        ).all()
        told = [dict(attempt._mapping) for attempt in attempts]
    factors = [
        f"{name}={row[name]}"
        for name in ("dataset", *FACTOR_COLUMNS)
        if row[name] is not None and not isinstance(row[name], bool)
    ]
    said = [
        f"trial {found}: {row['state']}",
        f"  asked for by: {', '.join(asked_by) or 'no study any more'}",
        "  " + ", ".join(factors),
    ]
    for attempt in told:
        ended = attempt["ended_at"]
        took = (
            f" after {duration((ended - attempt['started_at']).total_seconds())}" if ended else ""
        )
        why = f" ({attempt['failure']}: {attempt['message']})" if attempt["failure"] else ""
        where = f", {attempt['device']} on {attempt['cpu']}" if attempt["cpu"] else ""
        began = f"{attempt['started_at']:%Y-%m-%d %H:%M:%S} UTC"
        said.append(f"attempt {attempt['number']}: {attempt['state']}{took}{why}; {began}{where}")
        for kept in ("traceback", "log"):
            if attempt[kept]:
                said += [f"  {kept}:", *(f"    {line}" for line in attempt[kept].splitlines())]
    return said


def _name(dataset: str, model: str, embeddings: str, seed: int) -> str:
    return " ".join((dataset, embeddings or model, f"seed {seed}"))
