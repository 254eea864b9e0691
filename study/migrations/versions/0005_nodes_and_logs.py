"""Attempts keep what their training printed, environments name their machine."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add a column to each of the two tables."""
    for table, name in (("attempt", "log"), ("environment", "node")):
        # Rebuilt, so that an upgraded database has the text of a new one.
        with op.batch_alter_table(table, recreate="always") as batch:
            batch.add_column(sa.Column(name, sa.Text))
