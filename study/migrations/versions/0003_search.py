"""Cells whose point is not asked yet, stages, and trials stopped early, which have no result."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_CHANGED = {
    "trial": {"ck_trial_result_attempt": "(state = 'complete') = (result_attempt IS NOT NULL)"},
    "attempt": {"ck_attempt_state": "state IN ('running', 'complete', 'failed', 'censored')"},
    "cell": {
        "ck_cell_state": "state IN ('feasible', 'infeasible', 'duplicate', 'unasked')",
        "ck_cell_trial": "(state IN ('infeasible', 'unasked')) = (trial IS NULL)",
    },
}


def upgrade() -> None:
    """Change the checks, and say of every cell that it is final."""
    with op.batch_alter_table("cell") as cell:
        cell.add_column(sa.Column("stage", sa.Text, nullable=False, server_default="final"))
        cell.create_check_constraint(op.f("ck_cell_stage"), "stage IN ('screen', 'final')")
    for table, checks in _CHANGED.items():
        with op.batch_alter_table(table) as batch:
            for name, rule in checks.items():
                batch.drop_constraint(op.f(name), type_="check")
                batch.create_check_constraint(op.f(name), rule)
    with op.batch_alter_table("cell") as cell:
        cell.alter_column("stage", existing_type=sa.Text, server_default=None)
