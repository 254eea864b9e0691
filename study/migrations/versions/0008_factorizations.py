"""Factors of TimeSVD++ and BPTF, `bins`, `zero_weight`, `samples`: NULL where none reads them."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the columns."""
    # A copy, so that SQLite's text of the table is the one that is made anew.
    sqlite = op.get_bind().dialect.name == "sqlite"
    with op.batch_alter_table("trial", recreate="always" if sqlite else "never") as trial:
        trial.add_column(sa.Column("bins", sa.Integer))
        trial.add_column(sa.Column("zero_weight", sa.Float(53)))
        trial.add_column(sa.Column("samples", sa.Integer))
