"""How Alembic runs: on the connection it is given, in our version table, blind to Optuna's."""

from alembic import context
from sqlalchemy import Connection

from study.migrations.ours import drop_views, ours
from study.schema import VERSION_TABLE, Base

connection: Connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    include_name=ours,
    render_as_batch=True,
    transactional_ddl=False,  # the caller's transaction holds everything, the views included
)
drop_views(connection)
context.run_migrations()
