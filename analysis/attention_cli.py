"""The command `meantime attention`: where the heads of one trained trial look."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.formats import FigureFormat, FigureSize
from study.cli import DEFAULT_STORE, SOME_FAILED, StoreUrl
from study.terminal import err, out

if TYPE_CHECKING:
    from model.data.split import HeldOut
    from model.results import EpochReport


def attention_command(
    trial: Annotated[str, typer.Argument(help="A complete trial's id, or its first digits.")],
    folder: Annotated[Path, typer.Option("--out", help="Where the files go.")] = Path("figures"),
    formats: Annotated[
        list[FigureFormat] | None, typer.Option("--format", help="Beside HTML; may be repeated.")
    ] = None,
    size: Annotated[
        FigureSize, typer.Option("--size", help="Of PDF, SVG and PNG: alone, or for a paper.")
    ] = FigureSize.whole,
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="Whose history is mapped; else a short one.")
    ] = None,
    test: Annotated[
        bool, typer.Option("--test", help="Read the test inputs, not those of validation.")
    ] = False,
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Train a trial of MEANTIME again, and draw where each of its heads looks.

    Results keep ranks, not weights. The weights are kept as OUT/ID.checkpoint for the next time.
    """
    from analysis.export import export  # noqa: PLC0415
    from analysis.frames import open_reader  # noqa: PLC0415
    from analysis.gallery.attention import About, figures  # noqa: PLC0415
    from analysis.stamp import source  # noqa: PLC0415
    from analysis.stored_trial import compared, stored_trial  # noqa: PLC0415
    from model.data.prepare import load_prepared  # noqa: PLC0415
    from model.data.sources import data_folder  # noqa: PLC0415
    from study.again import look  # noqa: PLC0415

    engine = open_reader(store)
    stored = stored_trial(engine, trial)
    config = stored.trial.config()
    data = load_prepared(config.dataset, data_folder(os.environ))
    epochs = stored.trial.factors["epochs"]

    def report(epoch: "EpochReport") -> None:
        if epoch.epoch % 10 == 0:
            err().print(f"epoch {epoch.epoch} of at most {epochs}", markup=False)

    err().print(f"{stored.trial.id} {stored.trial.title}: trained again", markup=False)
    split: HeldOut = "test" if test else "validation"
    looked = look(
        stored.trial,
        data,
        weights=folder / f"{stored.trial.id}.checkpoint",
        split=split,
        user=user,
        threads=stored.threads,
        report=report,
    )
    sameness = compared(stored.ranks, looked.ranks)
    out().print(sameness, markup=False)
    exported = export(
        figures(
            looked.maps,
            About(
                trial=stored.trial.id,
                dataset=stored.trial.dataset,
                subset=stored.trial.label,
                best_epoch=stored.best_epoch,
                target_time=config.evaluation.target_time,
                sameness=sameness,
                commit=stored.commit,
            ),
        ),
        folder,
        source=source(f"trial {stored.trial.id}", engine.url.render_as_string(hide_password=True)),
        formats=[f.value for f in formats or []],
        size=size,
    )
    for path in exported.files:
        out().print(str(path), markup=False)
    if exported.missing:
        err().print(exported.missing, markup=False)
        raise typer.Exit(SOME_FAILED)
