"""The commands `meantime store ..`: keep a results database current, whole and movable."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from study.cli import DEFAULT_STORE, SOME_FAILED, StoreUrl
from study.terminal import out

if TYPE_CHECKING:
    from study.merge import Merged

store_app = typer.Typer(help="The results database itself.", no_args_is_help=True)


@store_app.callback()
def store_callback() -> None:
    """Keep the results database current, whole and movable."""


@store_app.command("upgrade")
def upgrade_command(store: StoreUrl = DEFAULT_STORE) -> None:
    """Bring a database of an older version up to date; an SQLite file is copied first."""
    from study.upgrade import upgrade_store  # noqa: PLC0415

    done = upgrade_store(store, clock=_now)
    if done.before == done.after:
        out().print(f"nothing to do: the schema has revision {done.after} already")
        return
    kept = f"; as it was: {done.backup}" if done.backup else ""
    out().print(f"schema revision {done.before} is now {done.after}{kept}", markup=False)


@store_app.command("check")
def check_command(store: StoreUrl = DEFAULT_STORE) -> None:
    """Check references, ids, coverage, best epochs and metrics against ranks; exit 1 if wrong."""
    from study.check import check  # noqa: PLC0415

    found = check(store)
    looked_at = ", ".join(f"{count:,} {what}" for what, count in found.counts.items())
    out().print(f"checked: {looked_at}", markup=False)
    for problem in found.problems:
        out().print(f"wrong: {problem}", markup=False)
    if found.problems:
        raise typer.Exit(SOME_FAILED)
    out().print("everything holds")


@store_app.command("merge")
def merge_command(
    others: Annotated[
        list[str], typer.Argument(metavar="OTHER..", help="SQLite files or URLs; only read.")
    ],
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Bring the trials of other machines' databases together; safe to repeat, nothing is lost."""
    from study.merge import merge  # noqa: PLC0415

    for other in others:
        address = other if "://" in other else f"sqlite:///{Path(other).absolute()}"
        _tell(other, merge(store, address, clock=_now))


@store_app.command("export")
def export_command(
    to: Annotated[Path, typer.Argument(help="A new folder of Parquet, or a new file *.db.")],
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Write everything to a folder of Parquet with README and JSON schema, or to one SQLite."""
    from study.transfer import export  # noqa: PLC0415

    out().print(str(export(store, to)), markup=False)


@store_app.command("import")
def import_command(
    folder: Annotated[Path, typer.Argument(help="A folder that `store export` wrote.")],
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Bring an exported folder into the database, by the rules of `store merge`."""
    from study.transfer import import_folder  # noqa: PLC0415

    _tell(str(folder), import_folder(store, folder, clock=_now))


def _tell(source: str, done: "Merged") -> None:
    studies = f", studies {', '.join(done.studies)}" if done.studies else ""
    out().print(
        f"{source}: {done.trials} new trials, {done.attempts} new attempts, {done.completed} "
        f"trials complete that were not{studies}"
        if done.changed
        else f"{source}: nothing new",
        markup=False,
    )
    for conflict in done.conflicts:
        out().print(
            f"conflict of {conflict.kind}: {conflict.what}: {conflict.detail}", markup=False
        )


def _now() -> datetime:
    return datetime.now(UTC)
