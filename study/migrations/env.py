"""How Alembic runs: on the connection it is given, in our version table, blind to Optuna's tables.

SQLite cannot alter a table that a view reads: views are dropped first and made again at the end.
"""

from alembic import context
from sqlalchemy import Connection, text

from study.migrations.ours import ours
from study.schema import VERSION_TABLE, Base
from study.views import create_results

connection: Connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    include_name=ours,
    render_as_batch=True,
    transactional_ddl=False,  # the caller's transaction holds everything, the views included
)
connection.execute(text("DROP VIEW IF EXISTS results"))
context.run_migrations()
connection.execute(create_results)
