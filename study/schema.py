"""The tables of the results database, typed column by column; `study.views` adds the flat view.

Times are UTC, durations seconds. NULL in a factor's column says that the trial does not read that
factor; a NULL `value` of a metric that was reported stands for NaN. Nothing is pickled. Optuna's
tables may live in the same database: their names (`studies`, `trials`, ..) are others.
"""

import math
from collections.abc import Iterable
from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from model.results import PROTOCOLS, Protocol, Split

REVISION = "0003"
"""The migration that these tables and the view correspond to."""

VERSION_TABLE = "meantime_version"
"""Alembic's table, of our own: Optuna uses `alembic_version` in the same database."""

TRIAL_STATES = ("pending", "running", "complete", "failed", "censored")
CELL_STATES = ("feasible", "infeasible", "duplicate", "unasked")
CELL_STAGES = ("screen", "final")
ATTEMPT_STATES = ("running", "complete", "failed", "censored")
FAILURES = ("oom", "diverged", "error", "lost", "cancelled")

SUMMARY_METRICS = ("ndcg@5", "ndcg@10", "recall@5", "recall@10", "mrr")

_EVALUATED: tuple[Split, ...] = ("validation", "test")

RESULT_METRICS: dict[str, tuple[Split, Protocol, str]] = {
    f"{split}_{'full_' if protocol == 'full' else ''}{metric}": (split, protocol, metric)
    for protocol in PROTOCOLS
    for split in _EVALUATED
    for metric in SUMMARY_METRICS
}
"""Column of `result` and of the view `results` -> split, protocol and metric that it holds.

Without a protocol in its name a column holds the paper's, `popular-100`.
"""


class Real(TypeDecorator[float]):
    """A double in which NaN is NULL: SQLite would store NULL anyway, PostgreSQL poison `max`."""

    impl = Float(53)
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:  # noqa: ARG002
        """Write NaN as NULL."""
        return None if value is None or math.isnan(value) else float(value)


class Utc(TypeDecorator[datetime]):
    """A moment; naive values are refused, and what is read is aware and in UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Write UTC; SQLite has no time zones and keeps the UTC wall time."""
        if value is None:
            return None
        if value.tzinfo is None:
            message = f"a stored time must name its time zone, got {value!r}"
            raise ValueError(message)
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Read UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Collects the tables."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        }
    )
    type_annotation_map = {str: Text, float: Real, datetime: Utc, bytes: LargeBinary}  # noqa: RUF012


def _one_of(column: str, values: Iterable[str]) -> CheckConstraint:
    words = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({words})", name=column)


class DatasetRow(Base):
    """A prepared data set that results were computed on."""

    __tablename__ = "dataset"

    fingerprint: Mapped[str] = mapped_column(primary_key=True)
    """SHA-256 over raw content, options and version of the preparation."""
    name: Mapped[str] = mapped_column(index=True)
    n_users: Mapped[int]
    n_items: Mapped[int]
    n_interactions: Mapped[int] = mapped_column(BigInteger)
    n_days: Mapped[int]
    """UTC days from the first interaction's to the last's, both included."""
    preparation: Mapped[str]
    """JSON of the options it was prepared with."""


class StudyRow(Base):
    """A question and the product that was declared to answer it, as last planned."""

    __tablename__ = "study"

    name: Mapped[str] = mapped_column(primary_key=True)
    question: Mapped[str]
    definition: Mapped[str]
    """The declaration as JSON."""
    declared: Mapped[int]
    """Cells in the declared product, counted when it was planned."""
    planned_at: Mapped[datetime]


class TrialRow(Base):
    """One effective configuration including its seed; shared by the studies that ask for it."""

    __tablename__ = "trial"

    id: Mapped[str] = mapped_column(primary_key=True)
    """Hash of `effective`: 16 hexadecimal digits."""

    dataset: Mapped[str]
    core: Mapped[str]
    min_interactions: Mapped[int]
    min_rating: Mapped[float | None]
    synthetic: Mapped[str | None]
    """JSON of a generated data set's recipe."""

    model: Mapped[str]
    embeddings: Mapped[str]
    """Label of the subset, such as `Day+Pos+Sin+Log` or `none`; the next six say it one by one.

    Empty for a model that has no temporal embeddings, where `none` would be a subset.
    """
    day: Mapped[bool]
    pos: Mapped[bool]
    con: Mapped[bool]
    sin: Mapped[bool]
    exp: Mapped[bool]
    log: Mapped[bool]
    hidden: Mapped[int | None]
    heads: Mapped[int | None]
    """Heads of the network; a cell keeps what was declared, such as `per-embedding`."""
    layers: Mapped[int | None]
    max_len: Mapped[int | None]
    dropout: Mapped[float | None]
    relative_dropout: Mapped[str | None]
    tau: Mapped[float | None]
    """Time unit of the relative embeddings, seconds."""
    frequency_base: Mapped[float | None]
    loss: Mapped[str | None]
    """`binary` or `softmax`; the training loss's values are in `epoch_metric`."""
    negatives: Mapped[int | None]
    """Negatives of each position in training; evaluation has its own."""
    max_interval: Mapped[int | None]
    """Longest interval that is told apart, in the user's smallest gap."""
    history: Mapped[int | None]
    """Newest items that are read."""
    neighbours: Mapped[int | None]
    decay: Mapped[float | None]
    """Rate per day at which an event's weight falls."""

    train_window: Mapped[int | None]
    mask_probability: Mapped[float | None]
    batch: Mapped[int | None]
    lr: Mapped[float | None]
    weight_decay: Mapped[float | None]
    epochs: Mapped[int | None]
    """The budget; `result.epochs_trained` says how many were trained."""
    patience: Mapped[int | None]
    precision: Mapped[str | None]

    target_time: Mapped[str | None]
    repeats: Mapped[str | None]
    seed: Mapped[int] = mapped_column(BigInteger)

    effective: Mapped[str]
    """The configuration as JSON: what `id` is the hash of."""
    state: Mapped[str] = mapped_column(index=True)
    attempts: Mapped[int]
    """Attempts begun so far."""
    result_attempt: Mapped[int | None]
    """Number of the attempt that the trial's result comes from."""

    __table_args__ = (
        CheckConstraint("length(id) = 16", name="id"),
        _one_of("state", TRIAL_STATES),
        CheckConstraint(
            "(state = 'complete') = (result_attempt IS NOT NULL)",
            name="result_attempt",
        ),
    )


class CellRow(Base):
    """One point of a study's declared product, trained or not."""

    __tablename__ = "cell"

    study: Mapped[str] = mapped_column(ForeignKey("study.name"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    """From 0, in the order of the plan."""
    dataset: Mapped[str]
    model: Mapped[str]
    embeddings: Mapped[str]
    hidden: Mapped[int | None]
    heads: Mapped[str | None]
    """As declared: a number or `per-embedding`."""
    dropout: Mapped[float | None]
    weight_decay: Mapped[float | None]
    seed: Mapped[int] = mapped_column(BigInteger)
    others: Mapped[str]
    """JSON of the other factors that the study declares, by name."""
    stage: Mapped[str]
    """`final` cells enter comparisons; those of `screen` only choose what is confirmed."""
    state: Mapped[str]
    """`unasked`: its point is chosen when the results before it are known."""
    reason: Mapped[str | None]
    """The rule that makes it infeasible, or what it repeats."""
    trial: Mapped[str | None] = mapped_column(ForeignKey("trial.id"), index=True)

    __table_args__ = (
        _one_of("state", CELL_STATES),
        _one_of("stage", CELL_STAGES),
        CheckConstraint("(state IN ('infeasible', 'unasked')) = (trial IS NULL)", name="trial"),
        Index(
            "ix_cell_one_feasible_per_trial",
            "study",
            "trial",
            unique=True,
            sqlite_where=text("state = 'feasible'"),
            postgresql_where=text("state = 'feasible'"),
        ),
    )


class EnvironmentRow(Base):
    """Where an attempt trained."""

    __tablename__ = "environment"

    id: Mapped[str] = mapped_column(primary_key=True)
    """Hash of the other columns."""
    commit: Mapped[str | None]
    """Git commit of the source tree; NULL for an installed package."""
    dirty: Mapped[bool | None]
    """Whether the source tree differed from `commit`."""
    python: Mapped[str]
    packages: Mapped[str]
    """JSON: package -> version."""
    platform: Mapped[str]
    cpu: Mapped[str]
    gpus: Mapped[str]
    """Names of the GPUs that the process sees, comma-separated; empty without."""
    device: Mapped[str]
    threads: Mapped[int]


class AttemptRow(Base):
    """One execution of a trial; never erased."""

    __tablename__ = "attempt"

    trial: Mapped[str] = mapped_column(ForeignKey("trial.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    """From 1."""
    state: Mapped[str] = mapped_column(index=True)
    failure: Mapped[str | None]
    message: Mapped[str | None]
    traceback: Mapped[str | None]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    environment: Mapped[str | None] = mapped_column(ForeignKey("environment.id"))
    """NULL when the worker died before it could say."""

    __table_args__ = (
        _one_of("state", ATTEMPT_STATES),
        _one_of("failure", FAILURES),
        CheckConstraint("(state = 'failed') = (failure IS NOT NULL)", name="failed"),
        CheckConstraint("(state = 'running') = (ended_at IS NULL)", name="ended_at"),
    )


class EpochMetricRow(Base):
    """What an attempt measured, one number a row; at the best epoch also the final evaluation."""

    __tablename__ = "epoch_metric"

    trial: Mapped[str] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    epoch: Mapped[int] = mapped_column(primary_key=True)
    """From 1."""
    split: Mapped[str] = mapped_column(primary_key=True)
    protocol: Mapped[str] = mapped_column(primary_key=True)
    metric: Mapped[str] = mapped_column(primary_key=True)
    """`loss`, `seconds` (of the epoch), `ndcg@10`, .."""
    value: Mapped[float | None]

    __table_args__ = (
        ForeignKeyConstraint(["trial", "attempt"], ["attempt.trial", "attempt.number"]),
        {"sqlite_with_rowid": False},
    )


class ResultRow(Base):
    """What a finished attempt gave, read at its best validation epoch, one column a metric."""

    __table__ = Table(
        "result",
        Base.metadata,
        Column("trial", Text, primary_key=True),
        Column("attempt", Integer, primary_key=True),
        Column("fingerprint", Text, ForeignKey("dataset.fingerprint"), nullable=False),
        Column("best_epoch", Integer, nullable=False),
        Column("epochs_trained", Integer, nullable=False),
        Column("stopped_by", Text, nullable=False),
        Column("n_parameters", BigInteger, nullable=False),
        Column("seconds", Real, nullable=False),
        *(Column(name, Real) for name in RESULT_METRICS),
        ForeignKeyConstraint(["trial", "attempt"], ["attempt.trial", "attempt.number"]),
        _one_of("stopped_by", ("patience", "epochs")),
    )


class RankRow(Base):
    """Per user, how many candidates beat or equal the target at the best epoch.

    `greater` and `equal` are zlib-compressed little-endian int32 arrays of length `n_users`, in
    the data set's user order.
    """

    __tablename__ = "rank"

    trial: Mapped[str] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    split: Mapped[str] = mapped_column(primary_key=True)
    protocol: Mapped[str] = mapped_column(primary_key=True)
    n_users: Mapped[int]
    greater: Mapped[bytes]
    equal: Mapped[bytes]

    __table_args__ = (
        ForeignKeyConstraint(["trial", "attempt"], ["attempt.trial", "attempt.number"]),
    )
