"""Factors of the models beside MEANTIME: a column each, NULL where a trial does not read it."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

COLUMNS = (
    sa.Column("loss", sa.Text),
    sa.Column("negatives", sa.Integer),
    sa.Column("max_interval", sa.Integer),
    sa.Column("history", sa.Integer),
    sa.Column("neighbours", sa.Integer),
    sa.Column("decay", sa.Float(53)),
)


def upgrade() -> None:
    """Add the columns; the trials that are there are MEANTIME's, which reads none of them."""
    for column in COLUMNS:
        op.add_column("trial", column)
