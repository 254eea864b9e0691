"""The commands that define, plan and dispatch studies; `analysis.cli` adds the reading ones.

Only this layer prints. Heavy libraries are imported inside the command that needs them, so that
every other command starts fast.
"""

import os
import sys
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from model.errors import Diverged, RequestError
from study import completion
from study.data_cli import data_app
from study.durations import duration
from study.terminal import err, out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from model.config import DatasetConfig
    from model.sizes import DataSize
    from study.checkpoints import Checkpoints
    from study.definition import Resources
    from study.dispatch import Datasets, Dispatcher
    from study.estimates import Estimator, Finished
    from study.execute import Failure
    from study.launch import Backlog
    from study.needs import Needs
    from study.plan import Plan
    from study.progress import Progress
    from study.store import Standing, Store
    from study.trial import Trial

app = typer.Typer(
    name="meantime",
    help="Ablation and hyperparameter studies of MEANTIME, a time-aware sequential recommender.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data_app, name="data")

SOME_FAILED = 1
"""Exit code when a study is left with trials that are not complete."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell gives it."""

StudyName = Annotated[
    str, typer.Argument(help="A study's name in the file.", autocompletion=completion.studies)
]
StudiesFile = Annotated[
    Path, typer.Option("--file", "-f", help="The file that declares data sets and studies.")
]
StoreUrl = Annotated[
    str,
    typer.Option(
        "--store", envvar="MEANTIME_STORE", help="The results database: an SQLAlchemy URL."
    ),
]
DEFAULT_FILE = Path("studies.yaml")
DEFAULT_STORE = "sqlite:///results.db"


class PlanFormat(StrEnum):
    """How `plan` prints."""

    table = "table"
    json = "json"


class RetryClass(StrEnum):
    """Failed trials of earlier launches that a launch runs again."""

    all = "all"
    none = "none"
    oom = "oom"
    diverged = "diverged"
    error = "error"


def planned(study: str, file: Path) -> "Plan":
    """Read the file and plan the study that it declares.

    Raises:
        RequestError: the file has mistakes, or no study of that name.
    """
    from study.definition import load_studies, study_named  # noqa: PLC0415
    from study.plan import plan  # noqa: PLC0415

    declared = load_studies(file)
    return plan(study_named(declared, study), declared)


@app.command("plan")
def plan_command(
    study: StudyName,
    file: StudiesFile = DEFAULT_FILE,
    store: StoreUrl = DEFAULT_STORE,
    output: Annotated[PlanFormat, typer.Option("--format", help="How to print.")] = (
        PlanFormat.table
    ),
) -> None:
    """Count and list a study's cells and trials, and what they cost; trains nothing.

    Trials that have finished in the store make the estimate better; it need not exist.
    """
    import json  # noqa: PLC0415
    from dataclasses import asdict  # noqa: PLC0415

    from study.estimates import estimate  # noqa: PLC0415
    from study.plan import as_json  # noqa: PLC0415

    what = planned(study, file)
    resources = what.study.resources
    at_once = _slots(resources, serial=False, max_concurrent=None)
    cost = estimate(what, _estimator(what, store), at_once=at_once)
    if output is PlanFormat.json:
        costs = {**asdict(cost), "wall_seconds": cost.wall_seconds}
        sys.stdout.write(json.dumps({**as_json(what), "estimate": costs}) + "\n")
        return
    from study.plan_table import plan_table  # noqa: PLC0415

    out().print(plan_table(what, cost))


def _estimator(what: "Plan", store: str) -> "Estimator":
    """Return the estimator of a plan's trials; it learns from the store, if there is one."""
    from study.estimates import Estimator  # noqa: PLC0415

    resources = what.study.resources
    names = dict.fromkeys(cell.dataset for cell in what.cells)
    sizes: dict[DatasetConfig, DataSize] = {}
    finished: list[Finished] = []
    with suppress(RequestError):  # a store that is not there yet, or of another version
        from study.past import past  # noqa: PLC0415

        sizes, finished = past(store, datasets=names)
    return Estimator(sizes, finished=finished, threads=resources.cpus, gpu=bool(resources.gpus))


def _needs(what: "Plan", datasets: "Datasets", *, store: str) -> "Needs":
    """Return what the plan's trials are expected to need on the data at hand."""
    from study.estimates import size_of  # noqa: PLC0415

    estimator = _estimator(what, store)
    estimator.sizes |= {config: size_of(data) for config, data in datasets.items()}
    needs = {trial_id: estimator.need(trial) for trial_id, trial in what.trials.items()}
    return {trial_id: need for trial_id, need in needs.items() if need is not None}


@app.command("launch")
def launch_command(
    study: StudyName,
    file: StudiesFile = DEFAULT_FILE,
    store: StoreUrl = DEFAULT_STORE,
    address: Annotated[
        str | None,
        typer.Option(help="host:port of an existing Ray cluster, or auto; default: this machine."),
    ] = None,
    max_concurrent: Annotated[
        int | None, typer.Option(min=1, help="At most so many trials at once.")
    ] = None,
    retry: Annotated[
        RetryClass, typer.Option(help="Which failed trials of earlier launches to run again.")
    ] = RetryClass.all,
    serial: Annotated[
        bool, typer.Option("--serial", help="One trial after the other in this process, no Ray.")
    ] = False,
) -> None:
    """Train every trial of a study that is not complete; safe to interrupt and to repeat."""
    from model.data.sources import data_folder  # noqa: PLC0415
    from study.checkpoints import place  # noqa: PLC0415
    from study.execute import FAILURES  # noqa: PLC0415
    from study.launch import (  # noqa: PLC0415
        RETRIED,
        backlog,
        launch,
        make_room,
    )
    from study.persistence import Persistence  # noqa: PLC0415
    from study.plan import is_dynamic, require_trials  # noqa: PLC0415
    from study.progress import Progress, trial_name  # noqa: PLC0415
    from study.store import Store  # noqa: PLC0415

    what = planned(study, file)
    require_trials(what)
    resources = what.study.resources
    classes: tuple[Failure, ...] = {
        RetryClass.all: RETRIED,
        RetryClass.none: (),
    }.get(retry, tuple(f for f in FAILURES if f == retry.value))
    console = err()

    def say(line: str) -> None:
        console.print(line, markup=False)

    persistence = Persistence(say=say)
    if serial:
        _require_serial(what, address=address, max_concurrent=max_concurrent)
    with Store.open(store) as opened, opened.claim():
        checkpoints = place(
            what.study.storage,
            database=opened.path,
            url=opened.url,
            on_cluster=address is not None,
            data=data_folder(os.environ),
        )
        datasets = _prepared(what, opened, say=say)
        dispatcher = _dispatcher(
            resources,
            serial=serial,
            address=address,
            max_concurrent=max_concurrent,
            checkpoints=checkpoints,
            needs=_needs(what, datasets, store=store),
            trials=what.trials,
            say=say,
        )
        supply, handed_out = None, what.trials.__getitem__
        if is_dynamic(what):
            from study.search import search_supply  # noqa: PLC0415

            supply = search_supply(what, opened, persistence=persistence)
            what = supply.plan
        left = backlog(what, opened, datasets=datasets, retry=classes)
        if supply:
            supply.start()
            handed_out = supply.trial
        for line in _found(left, retry):
            say(line)
        stands = opened.standing(study)
        if supply.finished if supply else not left.trials:
            say(
                f"Nothing to start: {stands.complete} of {stands.wanted} trials of {study} are "
                f"complete{_stopped(stands)} in {opened.url}."
            )
            raise typer.Exit(SOME_FAILED if stands.missing else 0)

        def named(trial_id: str) -> str:
            known = what.trials.get(trial_id)
            return trial_name(known or handed_out(trial_id), what)

        _check_evaluator()
        make_room(left, what, store=opened, datasets=datasets, checkpoints=checkpoints)
        progress = Progress(
            console,
            total=stands.wanted,
            complete=stands.wanted - stands.missing,
            label=named,
            opening=f"{study}: {stands.wanted} trials, {stands.complete} complete, "
            f"{stands.missing} to run; results go to {opened.url}",
            slots=_slots(resources, serial=serial, max_concurrent=max_concurrent),
        )
        summarise = partial(_summarised, opened, study, progress=progress, named=named, say=say)
        with _even_if_refused(summarise), progress:
            outcome = launch(
                supply or left.trials,
                store=opened,
                dispatcher=dispatcher,
                datasets=datasets,
                watch=progress,
                retries=what.study.retries,
                checkpoints=checkpoints,
                persistence=persistence,
            )
        stands = summarise()
    if outcome.interrupted:
        say(f"Interrupted. `meantime launch {study}` continues with the trials that are left.")
    if outcome.interrupted or stands.missing:
        raise typer.Exit(INTERRUPTED if outcome.interrupted else SOME_FAILED)


def _summarised(
    opened: "Store",
    study: str,
    *,
    progress: "Progress",
    named: "Callable[[str], str]",
    say: "Callable[[str], None]",
) -> "Standing":
    """Say where the study stands and what failed in this launch; return where it stands."""
    stands = opened.standing(study)
    say(
        f"{stands.complete} of {stands.wanted} trials complete{_stopped(stands)} in "
        f"{duration(progress.seconds)}."
    )
    for trial_id, failed in progress.failed.items():
        say(f"failed: {trial_id} {named(trial_id)}: {failed.failure}: {failed.message}")
    return stands


@contextmanager
def _even_if_refused(summarise: "Callable[[], object]") -> "Iterator[None]":
    """Say what there is before why it ends, where the last node dies or the store stays away."""
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415

    try:
        yield
    except RequestError:
        with suppress(DBAPIError):
            summarise()
        raise


def _prepared(what: "Plan", opened: "Store", *, say: "Callable[[str], None]") -> "Datasets":
    """Return the plan's data, prepared; without them a complete study has nothing to start.

    Raises:
        RequestError: data are missing and a trial is not complete.
        typer.Exit: data are missing and nothing needs them.
    """
    from model.data.sources import data_folder  # noqa: PLC0415
    from study.launch import few_negatives, prepare_datasets  # noqa: PLC0415
    from study.plan import is_dynamic  # noqa: PLC0415

    try:
        prepared = prepare_datasets(what, data_folder(os.environ))
        for line in few_negatives(what, prepared):
            say(line)
        return prepared
    except RequestError:
        states = opened.states(list(what.trials))
        if is_dynamic(what) or any(states.get(trial) != "complete" for trial in what.trials):
            raise
    opened.record_plan(what)
    say(
        f"Nothing to start: all trials of {what.study.name} are complete in {opened.url}. Its "
        "data are not here, so that their fingerprint was not compared."
    )
    raise typer.Exit


def _check_evaluator() -> None:
    from model.selftest import check_evaluator  # noqa: PLC0415  it brings torch

    check_evaluator()


def _found(left: "Backlog", retry: RetryClass) -> "Iterator[str]":
    """Yield what is to be said of the trials that an earlier launch left."""
    if left.lost:
        yield f"{len(left.lost)} attempts of a launch that died are marked lost."
    if left.stale:
        yield f"{len(left.stale)} results belong to other data (fingerprint) and run again."
    if left.left_failed:
        yield f"{len(left.left_failed)} failed trials stay as they are (--retry {retry.value})."


def _stopped(stands: "Standing") -> str:
    return f", {stands.censored} stopped early" if stands.censored else ""


def _slots(resources: "Resources", *, serial: bool, max_concurrent: int | None) -> int:
    """Return how many trials this machine would train at once, for the estimate of time left."""
    if serial:
        return 1
    cpus = (os.cpu_count() or 1) // resources.cpus
    return min(max(1, cpus), max_concurrent or cpus)


def _require_serial(what: "Plan", *, address: str | None, max_concurrent: int | None) -> None:
    if address is not None or max_concurrent is not None:
        raise RequestError(
            "--serial trains in this process: it takes neither --address nor "
            "--max-concurrent; leave them out"
        )
    if what.study.stop_early is not None:
        raise RequestError(
            "stop_early needs Ray, got --serial; leave --serial out, or write stop_early: null"
        )


def _dispatcher(
    resources: "Resources",
    *,
    serial: bool,
    address: str | None,
    max_concurrent: int | None,
    checkpoints: "Checkpoints | None",
    needs: "Needs",
    trials: "Mapping[str, Trial]",
    say: "Callable[[str], None]",
) -> "Dispatcher":
    """Return what runs the trials: this process, or Ray."""
    if serial:
        from study.dispatch import SerialDispatcher  # noqa: PLC0415

        return SerialDispatcher(resources, checkpoints=checkpoints)
    from study.cluster import RayDispatcher  # noqa: PLC0415
    from study.needs import largest  # noqa: PLC0415

    return RayDispatcher(
        resources,
        address=address,
        max_concurrent=max_concurrent,
        checkpoints=checkpoints,
        needs=needs,
        rehearsed={kind: trials[trial_id] for kind, trial_id in largest(needs).items()},
        say=say,
    )


@app.command("train")
def train_command(
    settings: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="A factor, e.g. embeddings=day+pos."),
    ],
    file: StudiesFile = DEFAULT_FILE,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    device: Annotated[str, typer.Option(help="A torch device.")] = "cpu",
) -> None:
    """Train one trial here and now, print each epoch, store nothing: for a look or a debugger."""
    from model.data.prepare import load_prepared  # noqa: PLC0415
    from model.data.sources import data_folder  # noqa: PLC0415
    from model.results import EpochReport  # noqa: PLC0415
    from model.train import train  # noqa: PLC0415
    from study.definition import load_studies  # noqa: PLC0415
    from study.execute import require_device  # noqa: PLC0415
    from study.plan import single_trial  # noqa: PLC0415

    trial = single_trial(load_studies(file), settings)
    require_device(device)
    config = trial.config()
    data = load_prepared(config.dataset, data_folder(os.environ))
    console = out()
    console.print(f"{trial.id} {trial.title}")

    def report(epoch: EpochReport) -> None:
        values = "  ".join(f"{m.split} {m.metric} {m.value:.4f}" for m in epoch.metrics)
        console.print(f"epoch {epoch.epoch}  {values}  {epoch.seconds:.1f} s")

    try:
        result = train(config, data, report=report, threads=threads, device=device)
    except Diverged as error:
        err().print(f"failed: diverged: {error}", markup=False)
        raise typer.Exit(SOME_FAILED) from None
    console.print(
        f"best epoch {result.best_epoch} of {result.epochs} (stopped by {result.stopped_by}), "
        f"{result.n_parameters} parameters, {result.seconds:.1f} s"
    )
    for metric in result.metrics:
        console.print(f"{metric.split} {metric.protocol} {metric.metric} {metric.value:.4f}")
