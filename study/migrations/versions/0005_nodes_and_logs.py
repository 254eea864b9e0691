"""Attempts keep what their training printed, environments name their machine."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add a column to each of the two tables."""
    # Rebuilt, so that SQLite's text of the table is the one that is made anew.
    sqlite = op.get_bind().dialect.name == "sqlite"
    for table, name in (("attempt", "log"), ("environment", "node")):
        with op.batch_alter_table(table, recreate="always" if sqlite else "never") as batch:
            batch.add_column(sa.Column(name, sa.Text))
