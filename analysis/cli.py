"""The console script `meantime`: the commands of `study.cli` and those that read the store."""

import json
import os
import sys
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from analysis.attention_cli import attention_command
from analysis.formats import FigureFormat, FigureSize, ModeChoice
from analysis.query_cli import query_command
from analysis.tables_cli import tables_command
from analysis.verify_cli import verify_command
from model.errors import RequestError
from study.cli import (
    DEFAULT_STORE,
    SOME_FAILED,
    StoreUrl,
    StudyName,
    app,
)
from study.store_cli import store_app
from study.terminal import err, out

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.coverage import Coverage

WRONG_REQUEST = 2

WATCH_SECONDS = 2.0
"""Between two looks of `status --watch`: a look costs a store of 50,000 trials 0.1 s."""

app.add_typer(store_app, name="store")
app.command("query")(query_command)
app.command("tables")(tables_command)
app.command("verify")(verify_command)
app.command("attention")(attention_command)


class ReadFormat(StrEnum):
    """How `coverage` and `status` print."""

    table = "table"
    json = "json"


ModeOption = Annotated[
    ModeChoice, typer.Option("--mode", help="One point for all, each tuned, or grid means.")
]
PoolOption = Annotated[
    bool, typer.Option("--pool-seeds", help="One seeds' error for all arms (an assumption).")
]
ReadFormatOption = Annotated[ReadFormat, typer.Option("--format", help="How to print.")]


def main() -> None:
    """Run the console script; a refused request is one message and exit code 2."""
    try:
        app()
    except RequestError as error:
        _refuse(str(error))
    except BrokenPipeError:
        # The reader of a pipe, such as `head`, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        from sqlalchemy.exc import DBAPIError  # noqa: PLC0415

        if not isinstance(error, DBAPIError):
            raise
        reason = str(error.orig).strip().splitlines()[0]
        _refuse(
            f"the database must be readable, got: {reason}; check the file or server of --store"
        )


def _refuse(message: str) -> NoReturn:
    console = err()
    console.print(f"error: {message}", markup=False, style="red" if console.is_terminal else "")
    sys.exit(WRONG_REQUEST)


@app.command("status")
def status_command(
    study: Annotated[
        str | None, typer.Argument(help="Only this study; default: every study in the store.")
    ] = None,
    trial: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="One trial instead: configuration, attempts, failures and logs."
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Again and again, until no launch is alive or Ctrl-C.")
    ] = False,
    store: StoreUrl = DEFAULT_STORE,
    output: ReadFormatOption = ReadFormat.table,
) -> None:
    """Show where each study in the store stands, also while it runs elsewhere."""
    from dataclasses import asdict  # noqa: PLC0415
    from datetime import UTC, datetime  # noqa: PLC0415

    from analysis.coverage import stale_note  # noqa: PLC0415
    from analysis.status import lines, status, studies_in, trial_lines  # noqa: PLC0415
    from model.data.sources import data_folder  # noqa: PLC0415
    from study.engine import is_claimed, reading  # noqa: PLC0415
    from study.staleness import in_folder  # noqa: PLC0415

    engine = reading(store)
    if trial is not None:
        for line in trial_lines(engine, trial):
            out().print(line, markup=False)
        return
    now = in_folder(data_folder(os.environ))
    names = [study] if study else studies_in(engine)
    if output is ReadFormat.json:
        if watch:
            raise RequestError("--watch draws a table again and again: it takes no --format json")
        claimed = is_claimed(store)
        _write_json(
            [
                {
                    **standing.coverage.as_dict(),
                    "seconds_left": standing.seconds_left,
                    "best": standing.best,
                    "running": [
                        {**asdict(one), "started_at": one.started_at.isoformat()}
                        for one in standing.running
                    ],
                    "claimed": claimed,
                }
                for standing in (status(engine, name, now=now) for name in names)
            ]
        )
        return

    def told(*, claimed: bool) -> str:
        said = []
        for standing in (status(engine, name, now=now) for name in names):
            said.append(_sum(standing.coverage))
            said += filter(None, [stale_note(standing.coverage)])
            # What runs without a launch was left by its death.
            said += lines(standing, now=datetime.now(UTC), claimed=claimed)
        return "\n".join(said)

    if watch:
        _watch(told, alive=lambda: is_claimed(store))
    else:
        out().print(told(claimed=is_claimed(store)), markup=False)


def _watch(
    told: "Callable[..., str]",
    *,
    alive: "Callable[[], bool]",
    wait: "Callable[[float], None]" = time.sleep,
) -> None:
    """Show what is told, anew every `WATCH_SECONDS`, until no launch is alive or Ctrl-C."""
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    with suppress(KeyboardInterrupt), Live(console=out(), auto_refresh=False) as live:
        while True:
            claimed = alive()
            live.update(Text(told(claimed=claimed)), refresh=True)
            if not claimed:
                return
            wait(WATCH_SECONDS)


@app.command("coverage")
def coverage_command(
    study: StudyName,
    store: StoreUrl = DEFAULT_STORE,
    output: ReadFormatOption = ReadFormat.table,
) -> None:
    """Prove that the classes of cells add up to the declared product; exit 1 if any is missing."""
    from analysis.coverage import (  # noqa: PLC0415
        coverage,
        left_behind,
        left_behind_note,
        stale_note,
    )
    from model.data.sources import data_folder  # noqa: PLC0415
    from study.engine import reading  # noqa: PLC0415
    from study.staleness import in_folder  # noqa: PLC0415

    engine = reading(store)
    standing = coverage(engine, study, now=in_folder(data_folder(os.environ)))
    if output is ReadFormat.json:
        _write_json(standing.as_dict())
    else:
        out().print(_sum(standing), markup=False)
    if standing.counts["running"] and (dead := left_behind(engine, store)):
        err().print(left_behind_note(dead), markup=False)
    if standing.stale:
        err().print(stale_note(standing), markup=False)
    if standing.missing:
        raise typer.Exit(SOME_FAILED)


@app.command("figures")
def figures_command(
    study: StudyName,
    folder: Annotated[Path, typer.Option("--out", help="Where the files go.")] = Path("figures"),
    formats: Annotated[
        list[FigureFormat] | None, typer.Option("--format", help="Beside HTML; may be repeated.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="One kind of figure; may be repeated."),
    ] = None,
    size: Annotated[
        FigureSize, typer.Option("--size", help="Of PDF, SVG and PNG: alone, or for a paper.")
    ] = FigureSize.whole,
    mode: ModeOption = ModeChoice.tuned,
    pool_seeds: PoolOption = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse to draw while cells lack a result.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Draw nothing: say which files the store outdated.")
    ] = False,
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Draw a study's figures from the store; exit 1 if a format asked for could not be drawn."""
    from analysis.figures import check_figures, study_figures  # noqa: PLC0415
    from model.data.sources import data_folder  # noqa: PLC0415

    if check:
        if formats or only or strict:
            raise RequestError("--check draws nothing: it takes no --format, --only or --strict")
        found = check_figures(store, study, folder=folder, data_folder=data_folder(os.environ))
        for finding in found:
            detail = f": {finding.detail}" if finding.detail else ""
            out().print(f"{finding.state:9} {finding.figure}{detail}", markup=False)
        if any(finding.state != "current" for finding in found):
            raise typer.Exit(SOME_FAILED)
        return
    exported, not_drawn = study_figures(
        store,
        study,
        folder=folder,
        data_folder=data_folder(os.environ),
        formats=[f.value for f in formats or []],
        only=only or [],
        size=size,
        mode=mode.value,
        pool_seeds=pool_seeds,
        strict=strict,
    )
    for path in exported.files:
        out().print(str(path), markup=False)
    for kind, reason in not_drawn.items():
        err().print(f"not drawn: {kind}: {reason}", markup=False)
    if exported.missing:
        err().print(exported.missing, markup=False)
        raise typer.Exit(SOME_FAILED)


@app.command("report")
def report_command(
    study: StudyName,
    path: Annotated[Path, typer.Option("--out", help="The HTML file to write.")] = Path(
        "report.html"
    ),
    mode: ModeOption = ModeChoice.tuned,
    pool_seeds: PoolOption = False,
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Write one self-contained HTML page: question, plan, coverage, results, figures, failures."""
    from analysis.report import write_report  # noqa: PLC0415
    from model.data.sources import data_folder  # noqa: PLC0415

    write_report(
        store,
        study,
        path,
        data_folder=data_folder(os.environ),
        mode=mode.value,
        pool_seeds=pool_seeds,
    )
    out().print(str(path), markup=False)


def _sum(standing: "Coverage") -> str:
    """Return the classes of a study's cells as a sum: `quick: 16 declared = 8 complete + ..`."""
    parts = [f"{count:,} {name}" for name, count in standing.counts.items() if count]
    failures = ", ".join(f"{count} {failure}" for failure, count in standing.failures.items())
    failed = f"; failed: {failures}" if failures else ""
    return f"{standing.study}: {standing.declared:,} declared = {' + '.join(parts) or 0}{failed}"


def _write_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, indent=1) + "\n")
