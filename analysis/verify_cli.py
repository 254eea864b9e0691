"""The command `meantime verify`: train on planted data and check what is concluded."""

from typing import Annotated

import typer

from study.cli import (
    DEFAULT_FILE,
    DEFAULT_STORE,
    SOME_FAILED,
    StoreUrl,
    StudiesFile,
    launch_command,
)
from study.terminal import out


def verify_command(
    study: Annotated[
        str, typer.Argument(help="A study of planted data sets; planted-truth tests both ways.")
    ] = "planted-truth-small",
    file: StudiesFile = DEFAULT_FILE,
    store: StoreUrl = DEFAULT_STORE,
    serial: Annotated[
        bool, typer.Option("--serial", help="One trial after the other in this process, no Ray.")
    ] = False,
) -> None:
    """Train on data whose useful embedding is known, and check that the product finds it."""
    from analysis.verify import verdict_table, verified  # noqa: PLC0415

    try:
        launch_command(study=study, file=file, store=store, serial=serial)
    except typer.Exit as left:
        if left.exit_code:
            raise
    found = verified(store, study)
    console = out()
    console.print(verdict_table(found))
    wrong = sum(not one.right for one in found)
    console.print(
        f"{len(found) - wrong} of {len(found)} verdicts are the planted ones. Test NDCG@10 among "
        "all items, gained alone over none and lost when left out of all six, with 95% intervals "
        "over users and seeds."
    )
    if wrong:
        raise typer.Exit(SOME_FAILED)
