"""The factor `variant` of recurrent models: NULL where a trial does not read it."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column."""
    # A copy, so that SQLite's text of the table is the one that is made anew.
    sqlite = op.get_bind().dialect.name == "sqlite"
    with op.batch_alter_table("trial", recreate="always" if sqlite else "never") as trial:
        trial.add_column(sa.Column("variant", sa.Integer))
