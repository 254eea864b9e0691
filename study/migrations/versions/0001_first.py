"""The first schema: datasets, studies with their cells, trials with their attempts and results."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

REAL = sa.Float(53)
UTC = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "dataset",
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("n_users", sa.Integer, nullable=False),
        sa.Column("n_items", sa.Integer, nullable=False),
        sa.Column("n_interactions", sa.BigInteger, nullable=False),
        sa.Column("n_days", sa.Integer, nullable=False),
        sa.Column("preparation", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("fingerprint", name=op.f("pk_dataset")),
    )
    op.create_index(op.f("ix_dataset_name"), "dataset", ["name"])
    op.create_table(
        "environment",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("commit", sa.Text),
        sa.Column("dirty", sa.Boolean),
        sa.Column("python", sa.Text, nullable=False),
        sa.Column("packages", sa.Text, nullable=False),
        sa.Column("platform", sa.Text, nullable=False),
        sa.Column("cpu", sa.Text, nullable=False),
        sa.Column("gpus", sa.Text, nullable=False),
        sa.Column("device", sa.Text, nullable=False),
        sa.Column("threads", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_environment")),
    )
    op.create_table(
        "study",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("declared", sa.Integer, nullable=False),
        sa.Column("planned_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_study")),
    )
    op.create_table(
        "trial",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("core", sa.Text, nullable=False),
        sa.Column("min_interactions", sa.Integer, nullable=False),
        sa.Column("min_rating", REAL),
        sa.Column("synthetic", sa.Text),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("embeddings", sa.Text, nullable=False),
        sa.Column("day", sa.Boolean, nullable=False),
        sa.Column("pos", sa.Boolean, nullable=False),
        sa.Column("con", sa.Boolean, nullable=False),
        sa.Column("sin", sa.Boolean, nullable=False),
        sa.Column("exp", sa.Boolean, nullable=False),
        sa.Column("log", sa.Boolean, nullable=False),
        sa.Column("hidden", sa.Integer),
        sa.Column("heads", sa.Integer),
        sa.Column("layers", sa.Integer),
        sa.Column("max_len", sa.Integer),
        sa.Column("dropout", REAL),
        sa.Column("relative_dropout", sa.Text),
        sa.Column("tau", REAL),
        sa.Column("frequency_base", REAL),
        sa.Column("train_window", sa.Integer),
        sa.Column("mask_probability", REAL),
        sa.Column("batch", sa.Integer),
        sa.Column("lr", REAL),
        sa.Column("weight_decay", REAL),
        sa.Column("epochs", sa.Integer),
        sa.Column("patience", sa.Integer),
        sa.Column("precision", sa.Text),
        sa.Column("target_time", sa.Text),
        sa.Column("repeats", sa.Text),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("effective", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("result_attempt", sa.Integer),
        sa.CheckConstraint(
            "(state IN ('complete', 'censored')) = (result_attempt IS NOT NULL)",
            name=op.f("ck_trial_result_attempt"),
        ),
        sa.CheckConstraint(
            "state IN ('pending', 'running', 'complete', 'failed', 'censored')",
            name=op.f("ck_trial_state"),
        ),
        sa.CheckConstraint("length(id) = 16", name=op.f("ck_trial_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trial")),
    )
    op.create_index(op.f("ix_trial_state"), "trial", ["state"])
    op.create_table(
        "attempt",
        sa.Column("trial", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("failure", sa.Text),
        sa.Column("message", sa.Text),
        sa.Column("traceback", sa.Text),
        sa.Column("started_at", UTC, nullable=False),
        sa.Column("ended_at", UTC),
        sa.Column("environment", sa.Text),
        sa.CheckConstraint(
            "(state = 'failed') = (failure IS NOT NULL)", name=op.f("ck_attempt_failed")
        ),
        sa.CheckConstraint(
            "(state = 'running') = (ended_at IS NULL)", name=op.f("ck_attempt_ended_at")
        ),
        sa.CheckConstraint(
            "failure IN ('oom', 'diverged', 'error', 'lost', 'cancelled')",
            name=op.f("ck_attempt_failure"),
        ),
        sa.CheckConstraint(
            "state IN ('running', 'complete', 'failed')", name=op.f("ck_attempt_state")
        ),
        sa.ForeignKeyConstraint(
            ["environment"], ["environment.id"], name=op.f("fk_attempt_environment")
        ),
        sa.ForeignKeyConstraint(["trial"], ["trial.id"], name=op.f("fk_attempt_trial")),
        sa.PrimaryKeyConstraint("trial", "number", name=op.f("pk_attempt")),
    )
    op.create_index(op.f("ix_attempt_state"), "attempt", ["state"])
    op.create_table(
        "cell",
        sa.Column("study", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("embeddings", sa.Text, nullable=False),
        sa.Column("hidden", sa.Integer),
        sa.Column("heads", sa.Text),
        sa.Column("dropout", REAL),
        sa.Column("weight_decay", REAL),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("others", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("trial", sa.Text),
        sa.CheckConstraint("(state = 'infeasible') = (trial IS NULL)", name=op.f("ck_cell_trial")),
        sa.CheckConstraint(
            "state IN ('feasible', 'infeasible', 'duplicate')", name=op.f("ck_cell_state")
        ),
        sa.ForeignKeyConstraint(["study"], ["study.name"], name=op.f("fk_cell_study")),
        sa.ForeignKeyConstraint(["trial"], ["trial.id"], name=op.f("fk_cell_trial")),
        sa.PrimaryKeyConstraint("study", "number", name=op.f("pk_cell")),
    )
    op.create_index(
        "ix_cell_one_feasible_per_trial",
        "cell",
        ["study", "trial"],
        unique=True,
        sqlite_where=sa.text("state = 'feasible'"),
        postgresql_where=sa.text("state = 'feasible'"),
    )
    op.create_index(op.f("ix_cell_trial"), "cell", ["trial"])
    op.create_table(
        "epoch_metric",
        sa.Column("trial", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("split", sa.Text, nullable=False),
        sa.Column("protocol", sa.Text, nullable=False),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("value", REAL),
        sa.ForeignKeyConstraint(
            ["trial", "attempt"],
            ["attempt.trial", "attempt.number"],
            name=op.f("fk_epoch_metric_trial"),
        ),
        sa.PrimaryKeyConstraint(
            "trial", "attempt", "epoch", "split", "protocol", "metric", name=op.f("pk_epoch_metric")
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rank",
        sa.Column("trial", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("split", sa.Text, nullable=False),
        sa.Column("protocol", sa.Text, nullable=False),
        sa.Column("n_users", sa.Integer, nullable=False),
        sa.Column("greater", sa.LargeBinary, nullable=False),
        sa.Column("equal", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(
            ["trial", "attempt"], ["attempt.trial", "attempt.number"], name=op.f("fk_rank_trial")
        ),
        sa.PrimaryKeyConstraint("trial", "attempt", "split", "protocol", name=op.f("pk_rank")),
    )
    op.create_table(
        "result",
        sa.Column("trial", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("best_epoch", sa.Integer, nullable=False),
        sa.Column("epochs_trained", sa.Integer, nullable=False),
        sa.Column("stopped_by", sa.Text, nullable=False),
        sa.Column("n_parameters", sa.BigInteger, nullable=False),
        sa.Column("seconds", REAL, nullable=False),
        sa.Column("validation_ndcg@5", REAL),
        sa.Column("validation_ndcg@10", REAL),
        sa.Column("validation_recall@5", REAL),
        sa.Column("validation_recall@10", REAL),
        sa.Column("validation_mrr", REAL),
        sa.Column("test_ndcg@5", REAL),
        sa.Column("test_ndcg@10", REAL),
        sa.Column("test_recall@5", REAL),
        sa.Column("test_recall@10", REAL),
        sa.Column("test_mrr", REAL),
        sa.Column("validation_full_ndcg@5", REAL),
        sa.Column("validation_full_ndcg@10", REAL),
        sa.Column("validation_full_recall@5", REAL),
        sa.Column("validation_full_recall@10", REAL),
        sa.Column("validation_full_mrr", REAL),
        sa.Column("test_full_ndcg@5", REAL),
        sa.Column("test_full_ndcg@10", REAL),
        sa.Column("test_full_recall@5", REAL),
        sa.Column("test_full_recall@10", REAL),
        sa.Column("test_full_mrr", REAL),
        sa.CheckConstraint(
            "stopped_by IN ('patience', 'epochs')", name=op.f("ck_result_stopped_by")
        ),
        sa.ForeignKeyConstraint(
            ["fingerprint"], ["dataset.fingerprint"], name=op.f("fk_result_fingerprint")
        ),
        sa.ForeignKeyConstraint(
            ["trial", "attempt"], ["attempt.trial", "attempt.number"], name=op.f("fk_result_trial")
        ),
        sa.PrimaryKeyConstraint("trial", "attempt", name=op.f("pk_result")),
    )
