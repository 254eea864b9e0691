"""The candidates that a trial is validated on and chosen by become a factor, `protocol`."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_RULE = "protocol IN ('none', 'popular-100', 'uniform-100', 'full')"


def upgrade() -> None:
    """Add the column; whatever was trained before was chosen by `popular-100`."""
    # A copy, so that SQLite's text of the table is the one that is made anew.
    sqlite = op.get_bind().dialect.name == "sqlite"
    with op.batch_alter_table("trial", recreate="always" if sqlite else "never") as trial:
        trial.add_column(sa.Column("protocol", sa.Text))
    op.execute("UPDATE trial SET protocol = 'popular-100'")
    kept = {"epoch_metric": {"sqlite_with_rowid": False}}  # not reflected
    for table in ("epoch_metric", "rank"):
        name = op.f(f"ck_{table}_protocol")
        with op.batch_alter_table(table, table_kwargs=kept.get(table, {})) as batch:
            batch.drop_constraint(name, type_="check")
            batch.create_check_constraint(name, _RULE)
