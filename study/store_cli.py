"""The commands `meantime store ..`: keep a results database current, whole and movable."""

from datetime import UTC, datetime

import typer

from study.cli import DEFAULT_STORE, StoreUrl
from study.terminal import out

store_app = typer.Typer(help="The results database itself.", no_args_is_help=True)


@store_app.callback()
def store_callback() -> None:
    """Keep the results database current, whole and movable."""


@store_app.command("upgrade")
def upgrade_command(store: StoreUrl = DEFAULT_STORE) -> None:
    """Bring a database of an older version up to date; an SQLite file is copied first."""
    from study.upgrade import upgrade_store  # noqa: PLC0415

    done = upgrade_store(store, clock=lambda: datetime.now(UTC))
    if done.before == done.after:
        out().print(f"nothing to do: the schema has revision {done.after} already")
        return
    kept = f"; as it was: {done.backup}" if done.backup else ""
    out().print(f"schema revision {done.before} is now {done.after}{kept}", markup=False)
