"""Provenance of every attempt, more constraints, the view `curves`, comments on every column."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

CHECKS = {
    "dataset": {
        "n_users": "n_users >= 0",
        "n_items": "n_items >= 0",
        "n_interactions": "n_interactions >= 0",
        "n_days": "n_days >= 0",
    },
    "study": {"declared": "declared >= 0"},
    "trial": {"attempts": "attempts >= 0", "seed": "seed >= 0"},
    "cell": {"number": "number >= 0"},
    "environment": {"threads": "threads >= 0"},
    "attempt": {"number": "number >= 1"},
    "epoch_metric": {
        "split": "split IN ('train', 'validation', 'test')",
        "protocol": "protocol IN ('none', 'popular-100', 'full')",
        "epoch": "epoch >= 1",
    },
    "result": {
        "best_epoch": "best_epoch BETWEEN 1 AND epochs_trained",
        "seconds": "seconds >= 0",
        "n_parameters": "n_parameters >= 0",
    },
    "rank": {
        "split": "split IN ('train', 'validation', 'test')",
        "protocol": "protocol IN ('none', 'popular-100', 'full')",
        "n_users": "n_users >= 0",
    },
}


def upgrade() -> None:
    """Add columns and constraints; SQLite copies each table to do so."""
    kept = {"epoch_metric": {"sqlite_with_rowid": False}}  # not reflected
    for table, checks in CHECKS.items():
        with op.batch_alter_table(table, table_kwargs=kept.get(table, {})) as batch:
            if table == "environment":
                for name in ("torch", "ray"):
                    batch.add_column(sa.Column(name, sa.Text))
            if table == "attempt":
                batch.add_column(sa.Column("fingerprint", sa.Text))
                batch.create_foreign_key(
                    op.f("fk_attempt_fingerprint"), "dataset", ["fingerprint"], ["fingerprint"]
                )
            for name, rule in checks.items():
                batch.create_check_constraint(op.f(f"ck_{table}_{name}"), rule)
    op.execute(
        "UPDATE attempt SET fingerprint = (SELECT fingerprint FROM result "
        "WHERE result.trial = attempt.trial AND result.attempt = attempt.number)"
    )
    member = (
        "(packages::json ->> '{0}')"
        if op.get_bind().dialect.name == "postgresql"
        else "json_extract(packages, '$.{0}')"
    )
    for name in ("torch", "ray"):
        op.execute(f"UPDATE environment SET {name} = {member.format(name)}")
