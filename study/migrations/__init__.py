"""Alembic's migrations of the results database, applied by `study.engine`."""
