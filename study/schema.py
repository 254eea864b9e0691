"""The tables of the results database, typed and described column by column.

`study.views` adds the flat views; docs/database.md is generated from the comments here, and psql
shows them too. Times are UTC, durations seconds. NULL in a factor's column says that the trial
does not read that factor; a NULL `value` of a metric that was reported stands for NaN. Nothing is
pickled. Optuna's tables may live in the same database: their names (`studies`, `trials`, ..) are
others.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import get_args

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from model.results import PROTOCOLS, Protocol, Split
from study.column_types import Real, Utc

REVISION = "0008"
"""The migration that these tables and the views correspond to."""

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

Without a protocol in its name a column holds the trial's own: its factor `protocol`, by default
the paper's `popular-100`.
"""


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


def _at_least(least: int, *columns: str) -> list[CheckConstraint]:
    return [CheckConstraint(f"{column} >= {least}", name=column) for column in columns]


def _metric_comment(split: Split, protocol: Protocol, metric: str) -> str:
    candidates = "`full`" if protocol == "full" else "of the trial's `protocol`"
    return f"{split} {metric}, candidates {candidates}, mean over users."


def _trial_key() -> Mapped[str]:
    return mapped_column(primary_key=True, comment="The trial, `trial.id`.")


def _attempt_key() -> Mapped[int]:
    return mapped_column(primary_key=True, comment="Number of the attempt, from 1.")


def _split_key() -> Mapped[str]:
    return mapped_column(primary_key=True, comment="`train`, `validation` or `test`.")


def _protocol_key() -> Mapped[str]:
    return mapped_column(
        primary_key=True,
        comment="Candidates: `popular-100`, `full`, or `none` for losses and seconds.",
    )


def _in_subset(name: str) -> Mapped[bool]:
    return mapped_column(comment=f"Whether the subset holds {name.capitalize()}.")


class DatasetRow(Base):
    """A prepared data set that results were computed on."""

    __tablename__ = "dataset"

    fingerprint: Mapped[str] = mapped_column(
        primary_key=True, comment="SHA-256 over raw rows, options and version of the preparation."
    )
    name: Mapped[str] = mapped_column(
        index=True, comment="Name in `studies.yaml` and of the stored file."
    )
    n_users: Mapped[int] = mapped_column(comment="Users left after filtering.")
    n_items: Mapped[int] = mapped_column(comment="Items left after filtering.")
    n_interactions: Mapped[int] = mapped_column(BigInteger, comment="Events left after filtering.")
    n_days: Mapped[int] = mapped_column(
        comment="UTC days from the first interaction's to the last's, both included."
    )
    preparation: Mapped[str] = mapped_column(comment="JSON of the options it was prepared with.")

    __table_args__ = (*_at_least(0, "n_users", "n_items", "n_interactions", "n_days"),)


class StudyRow(Base):
    """A question and the product that was declared to answer it, as last planned."""

    __tablename__ = "study"

    name: Mapped[str] = mapped_column(primary_key=True, comment="Name in `studies.yaml`.")
    question: Mapped[str] = mapped_column(comment="What the study asks.")
    definition: Mapped[str] = mapped_column(comment="JSON of the declaration.")
    declared: Mapped[int] = mapped_column(
        comment="Cells in the declared product, counted when it was planned."
    )
    planned_at: Mapped[datetime] = mapped_column(comment="When it was last planned, UTC.")

    __table_args__ = (*_at_least(0, "declared"),)


class TrialRow(Base):
    """One effective configuration including its seed; shared by the studies that ask for it."""

    __tablename__ = "trial"

    id: Mapped[str] = mapped_column(
        primary_key=True, comment="Hash of `effective`: 16 hexadecimal digits."
    )

    dataset: Mapped[str] = mapped_column(comment="Name of the data set.")
    core: Mapped[str] = mapped_column(
        comment="How rare items and users are filtered: `once`, or `iterate` until stable."
    )
    min_interactions: Mapped[int] = mapped_column(
        comment="Items, then users, with fewer are dropped."
    )
    min_rating: Mapped[float | None] = mapped_column(
        comment="Lower ratings are dropped; NULL keeps all."
    )
    synthetic: Mapped[str | None] = mapped_column(
        comment="JSON of a generated data set's recipe; NULL for a real one."
    )

    model: Mapped[str] = mapped_column(comment="Name of the model.")
    embeddings: Mapped[str] = mapped_column(
        comment="Label of the subset, such as `Day+Pos` or `none`; empty where the model has none."
    )
    day: Mapped[bool] = _in_subset("day")
    pos: Mapped[bool] = _in_subset("pos")
    con: Mapped[bool] = _in_subset("con")
    sin: Mapped[bool] = _in_subset("sin")
    exp: Mapped[bool] = _in_subset("exp")
    log: Mapped[bool] = _in_subset("log")
    hidden: Mapped[int | None] = mapped_column(
        comment="Width of the network, numbers per position."
    )
    heads: Mapped[int | None] = mapped_column(
        comment="Heads of the network; a cell keeps what was declared."
    )
    layers: Mapped[int | None] = mapped_column(comment="Blocks of the network.")
    max_len: Mapped[int | None] = mapped_column(comment="Events that the network sees at once.")
    dropout: Mapped[float | None] = mapped_column(comment="Rate of dropped activations, 0 to 1.")
    relative_dropout: Mapped[str | None] = mapped_column(
        comment="How relative embeddings are dropped: `entrywise` or `feature`."
    )
    tau: Mapped[float | None] = mapped_column(
        comment="Time unit of the relative embeddings, seconds."
    )
    frequency_base: Mapped[float | None] = mapped_column(
        comment="Base f of the relative embeddings' frequencies."
    )
    loss: Mapped[str | None] = mapped_column(
        comment="What is minimised: `binary` or `softmax`; its values are in `epoch_metric`."
    )
    negatives: Mapped[int | None] = mapped_column(
        comment="Negatives of each position in training; evaluation has its own."
    )
    max_interval: Mapped[int | None] = mapped_column(
        comment="Longest interval that is told apart, in the user's smallest gap."
    )
    variant: Mapped[int | None] = mapped_column(comment="Which of a model's published forms.")
    bins: Mapped[int | None] = mapped_column(
        comment="Equal stretches of time with biases or factors of their own."
    )
    zero_weight: Mapped[float | None] = mapped_column(
        comment="What an absence counts beside an event, over 0 to 1."
    )
    samples: Mapped[int | None] = mapped_column(comment="Newest sweeps that are averaged.")
    history: Mapped[int | None] = mapped_column(comment="Newest items that are read.")
    neighbours: Mapped[int | None] = mapped_column(comment="Nearest items that are counted.")
    decay: Mapped[float | None] = mapped_column(
        comment="Rate per day at which an event's weight falls."
    )

    train_window: Mapped[int | None] = mapped_column(
        comment="Events between the ends of a user's training windows."
    )
    mask_probability: Mapped[float | None] = mapped_column(
        comment="Share of positions masked in training, 0 to 1."
    )
    batch: Mapped[int | None] = mapped_column(comment="Windows in one training step.")
    lr: Mapped[float | None] = mapped_column(comment="Adam's learning rate.")
    weight_decay: Mapped[float | None] = mapped_column(comment="Coupled L2 weight decay.")
    epochs: Mapped[int | None] = mapped_column(
        comment="The budget; `result.epochs_trained` says how many were trained."
    )
    patience: Mapped[int | None] = mapped_column(
        comment="Epochs without a better validation NDCG@10 before training stops."
    )
    precision: Mapped[str | None] = mapped_column(
        comment="Type of matrix products in training: `float32` or `bfloat16`."
    )

    target_time: Mapped[str | None] = mapped_column(
        comment="Time that the target's position sees: `actual`, or `last` known."
    )
    protocol: Mapped[str | None] = mapped_column(
        comment="Candidates that epochs are validated on and the best is chosen by."
    )
    repeats: Mapped[str | None] = mapped_column(
        comment="Whether `full` keeps items seen before: `excluded` or `allowed`."
    )
    seed: Mapped[int] = mapped_column(
        BigInteger, comment="The replicate; names every random generator."
    )

    effective: Mapped[str] = mapped_column(
        comment="JSON of the configuration, unread options removed: what `id` is the hash of."
    )
    state: Mapped[str] = mapped_column(
        index=True, comment="`pending`, `running`, `complete`, `failed` or `censored`."
    )
    attempts: Mapped[int] = mapped_column(comment="Attempts begun so far.")
    result_attempt: Mapped[int | None] = mapped_column(
        comment="Number of the attempt that the result comes from."
    )

    __table_args__ = (
        CheckConstraint("length(id) = 16", name="id"),
        _one_of("state", TRIAL_STATES),
        CheckConstraint(
            "(state = 'complete') = (result_attempt IS NOT NULL)",
            name="result_attempt",
        ),
        *_at_least(0, "attempts", "seed"),
    )


class CellRow(Base):
    """One point of a study's declared product, trained or not."""

    __tablename__ = "cell"

    study: Mapped[str] = mapped_column(
        ForeignKey("study.name"), primary_key=True, comment="The study, `study.name`."
    )
    number: Mapped[int] = mapped_column(primary_key=True, comment="Place in the plan, from 0.")
    dataset: Mapped[str] = mapped_column(comment="Name of the data set.")
    model: Mapped[str] = mapped_column(comment="Name of the model.")
    embeddings: Mapped[str] = mapped_column(comment="Label of the subset.")
    hidden: Mapped[int | None] = mapped_column(comment="Width of the network.")
    heads: Mapped[str | None] = mapped_column(
        comment="Heads as declared: a number or `per-embedding`."
    )
    dropout: Mapped[float | None] = mapped_column(comment="Rate of dropped activations, 0 to 1.")
    weight_decay: Mapped[float | None] = mapped_column(comment="Coupled L2 weight decay.")
    seed: Mapped[int] = mapped_column(BigInteger, comment="The replicate.")
    others: Mapped[str] = mapped_column(
        comment="JSON of the other factors that the study varies, by name."
    )
    stage: Mapped[str] = mapped_column(
        comment="`final` cells enter comparisons; those of `screen` choose what is confirmed."
    )
    state: Mapped[str] = mapped_column(
        comment="`feasible` (as its trial stands), `infeasible`, `duplicate`, or `unasked` yet."
    )
    reason: Mapped[str | None] = mapped_column(
        comment="The rule that makes it infeasible, or what it repeats."
    )
    trial: Mapped[str | None] = mapped_column(
        ForeignKey("trial.id"),
        index=True,
        comment="The trial that answers it; NULL where infeasible or unasked.",
    )

    __table_args__ = (
        _one_of("state", CELL_STATES),
        _one_of("stage", CELL_STAGES),
        CheckConstraint("(state IN ('infeasible', 'unasked')) = (trial IS NULL)", name="trial"),
        *_at_least(0, "number"),
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
    """Where attempts trained: source, packages and machine, each combination once."""

    __tablename__ = "environment"

    id: Mapped[str] = mapped_column(primary_key=True, comment="Hash of the other columns.")
    commit: Mapped[str | None] = mapped_column(
        comment="Git commit of the source tree; NULL for an installed package."
    )
    dirty: Mapped[bool | None] = mapped_column(
        comment="Whether the source tree differed from `commit`."
    )
    python: Mapped[str] = mapped_column(comment="Version of Python.")
    torch: Mapped[str | None] = mapped_column(comment="Version of torch.")
    ray: Mapped[str | None] = mapped_column(
        comment="Version of Ray, installed beside it; `--serial` does not use it."
    )
    packages: Mapped[str] = mapped_column(comment="JSON of package -> version.")
    platform: Mapped[str] = mapped_column(comment="Operating system and architecture.")
    node: Mapped[str | None] = mapped_column(
        comment="Name of the machine or of the Ray node; NULL from a version that did not ask."
    )
    cpu: Mapped[str] = mapped_column(comment="Name of the processor.")
    gpus: Mapped[str] = mapped_column(
        comment="Names of the GPUs that the process saw, comma-separated; empty without."
    )
    device: Mapped[str] = mapped_column(comment="torch device.")
    threads: Mapped[int] = mapped_column(comment="torch threads.")

    __table_args__ = (*_at_least(0, "threads"),)


class AttemptRow(Base):
    """One execution of a trial; never erased."""

    __tablename__ = "attempt"

    trial: Mapped[str] = mapped_column(
        ForeignKey("trial.id"), primary_key=True, comment="The trial, `trial.id`."
    )
    number: Mapped[int] = mapped_column(
        primary_key=True, comment="Counts the trial's attempts, from 1."
    )
    state: Mapped[str] = mapped_column(
        index=True, comment="`running`, `complete`, `failed`, or `censored`: stopped early."
    )
    failure: Mapped[str | None] = mapped_column(
        comment="Why it failed: `oom`, `diverged`, `error`, `lost` or `cancelled`."
    )
    message: Mapped[str | None] = mapped_column(comment="The failure in one line.")
    traceback: Mapped[str | None] = mapped_column(comment="Where the failure was raised.")
    started_at: Mapped[datetime] = mapped_column(comment="When it began, UTC.")
    ended_at: Mapped[datetime | None] = mapped_column(
        comment="When it ended, UTC; NULL while it runs."
    )
    environment: Mapped[str | None] = mapped_column(
        ForeignKey("environment.id"),
        comment="Where it trained, `environment.id`; NULL if the worker died before it could say.",
    )
    log: Mapped[str | None] = mapped_column(
        comment="What the training printed, logged and warned; NULL where it was silent."
    )
    fingerprint: Mapped[str | None] = mapped_column(
        ForeignKey("dataset.fingerprint"), comment="The data that it read, `dataset.fingerprint`."
    )

    __table_args__ = (
        _one_of("state", ATTEMPT_STATES),
        _one_of("failure", FAILURES),
        CheckConstraint("(state = 'failed') = (failure IS NOT NULL)", name="failed"),
        CheckConstraint("(state = 'running') = (ended_at IS NULL)", name="ended_at"),
        *_at_least(1, "number"),
    )


class EpochMetricRow(Base):
    """What an attempt measured, one number a row; at the best epoch also the final evaluation."""

    __tablename__ = "epoch_metric"

    trial: Mapped[str] = _trial_key()
    attempt: Mapped[int] = _attempt_key()
    epoch: Mapped[int] = mapped_column(primary_key=True, comment="From 1.")
    split: Mapped[str] = _split_key()
    protocol: Mapped[str] = _protocol_key()
    metric: Mapped[str] = mapped_column(
        primary_key=True, comment="`loss`, `seconds` (of the epoch), `ndcg@10`, .."
    )
    value: Mapped[float | None] = mapped_column(comment="The number; NULL where NaN was reported.")

    __table_args__ = (
        ForeignKeyConstraint(["trial", "attempt"], ["attempt.trial", "attempt.number"]),
        _one_of("split", get_args(Split)),
        _one_of("protocol", get_args(Protocol)),
        *_at_least(1, "epoch"),
        {"sqlite_with_rowid": False},
    )


class ResultRow(Base):
    """What a finished attempt gave, read at its best validation epoch, one column a metric."""

    __table__ = Table(
        "result",
        Base.metadata,
        Column("trial", Text, primary_key=True, comment="The trial, `trial.id`."),
        Column("attempt", Integer, primary_key=True, comment="Number of the attempt, from 1."),
        Column(
            "fingerprint",
            Text,
            ForeignKey("dataset.fingerprint"),
            nullable=False,
            comment="The data that it was computed on, `dataset.fingerprint`.",
        ),
        Column(
            "best_epoch",
            Integer,
            nullable=False,
            comment="Epoch with the highest validation NDCG@10 under `popular-100`, from 1.",
        ),
        Column("epochs_trained", Integer, nullable=False, comment="Epochs that were trained."),
        Column(
            "stopped_by", Text, nullable=False, comment="`patience`, or the budget of `epochs`."
        ),
        Column(
            "n_parameters", BigInteger, nullable=False, comment="Trainable numbers of the network."
        ),
        Column(
            "seconds",
            Real,
            nullable=False,
            comment="Wall-clock time of training and evaluation, seconds.",
        ),
        *(
            Column(name, Real, comment=_metric_comment(split, protocol, metric))
            for name, (split, protocol, metric) in RESULT_METRICS.items()
        ),
        ForeignKeyConstraint(["trial", "attempt"], ["attempt.trial", "attempt.number"]),
        _one_of("stopped_by", ("patience", "epochs")),
        CheckConstraint("best_epoch BETWEEN 1 AND epochs_trained", name="best_epoch"),
        *_at_least(0, "seconds", "n_parameters"),
    )


class RankRow(Base):
    """Per user, how many candidates beat or equal the target at the best epoch.

    `greater` and `equal` are zlib-compressed little-endian int32 arrays of length `n_users`, in
    the data set's user order; `study.packing.unpack` reads them.
    """

    __tablename__ = "rank"

    trial: Mapped[str] = _trial_key()
    attempt: Mapped[int] = _attempt_key()
    split: Mapped[str] = _split_key()
    protocol: Mapped[str] = _protocol_key()
    n_users: Mapped[int] = mapped_column(comment="Length of both arrays.")
    greater: Mapped[bytes] = mapped_column(
        comment="Candidates that score above the target, compressed."
    )
    equal: Mapped[bytes] = mapped_column(
        comment="Other candidates that score the same as the target, compressed."
    )

    __table_args__ = (
        ForeignKeyConstraint(["trial", "attempt"], ["attempt.trial", "attempt.number"]),
        _one_of("split", get_args(Split)),
        _one_of("protocol", get_args(Protocol)),
        *_at_least(0, "n_users"),
    )


for _mapper in Base.registry.mappers:
    Base.metadata.tables[_mapper.class_.__table__.name].comment = " ".join(
        (_mapper.class_.__doc__ or "").split()
    )
