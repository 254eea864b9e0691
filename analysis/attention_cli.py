"""The command `meantime attention`: where the heads of one trained trial look."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from analysis.formats import FigureFormat, FigureSize
from model.data.split import HeldOut
from model.errors import RequestError
from study.cli import DEFAULT_STORE, SOME_FAILED, StoreUrl
from study.terminal import err, out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Engine

    from model.results import EpochReport, Ranks
    from study.trial import Trial


class Stored(NamedTuple):
    """A complete trial in the store.

    Attributes:
        trial: its configuration.
        threads: CPU threads that it was trained with.
        commit: of the code that trained it; None if unknown.
        best_epoch: the epoch that validation chose.
        ranks: (split, protocol) -> users' counts of candidates above and beside the target.
    """

    trial: "Trial"
    threads: int
    commit: str | None
    best_epoch: int
    ranks: dict[tuple[str, str], tuple[NDArray[np.int32], NDArray[np.int32]]]


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


def stored_trial(engine: "Engine", first_digits: str) -> Stored:
    """Read a complete trial by its id, or enough of its first digits.

    Raises:
        RequestError: no trial, or several, begin so, or it has no result.
    """
    from sqlalchemy import and_, select  # noqa: PLC0415

    from analysis.status import trial_named  # noqa: PLC0415
    from study.packing import unpack  # noqa: PLC0415
    from study.schema import (  # noqa: PLC0415
        AttemptRow,
        EnvironmentRow,
        RankRow,
        ResultRow,
        TrialRow,
    )
    from study.trial import Trial  # noqa: PLC0415

    result = ResultRow.__table__.c
    with engine.connect() as connection:
        found = trial_named(connection, first_digits)
        attempt = and_(
            AttemptRow.trial == TrialRow.id, AttemptRow.number == TrialRow.result_attempt
        )
        row = connection.execute(
            select(
                TrialRow.effective,
                TrialRow.result_attempt,
                EnvironmentRow.threads,
                EnvironmentRow.commit,
                result.best_epoch,
            )
            .join(AttemptRow, attempt)
            .join(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment)
            .join(
                ResultRow.__table__,
                and_(result.trial == TrialRow.id, result.attempt == TrialRow.result_attempt),
            )
            .where(TrialRow.id == found)
        ).one_or_none()
        if row is None:
            raise RequestError(
                f"attention is drawn of a complete trial, {found} has no result; launch its study"
            )
        counted = connection.execute(
            select(RankRow.split, RankRow.protocol, RankRow.greater, RankRow.equal).where(
                RankRow.trial == found, RankRow.attempt == row.result_attempt
            )
        ).all()
    return Stored(
        Trial(found, json.loads(row.effective)),
        row.threads,
        row.commit,
        row.best_epoch,
        {(one.split, one.protocol): (unpack(one.greater), unpack(one.equal)) for one in counted},
    )


def compared(
    stored: dict[tuple[str, str], tuple[NDArray[np.int32], NDArray[np.int32]]],
    ranks: "Sequence[Ranks]",
) -> str:
    """Say whether a second training gave the ranks of the first."""
    differing: set[int] = set()
    for one in ranks:
        greater, equal = stored[one.split, one.protocol]
        moved = (greater != one.greater) | (equal != one.equal)
        differing |= set(np.flatnonzero(moved).tolist())
    if not differing:
        return "Its ranks are those in the store: these weights are behind its numbers."
    users = len(ranks[0].greater)
    return (
        f"Trained again it ranks otherwise for {len(differing):,} of {users:,} users than in the "
        "store (another machine, or versions): its numbers are not exactly these weights'."
    )
