"""What one study's figures and report are made from: its rows, read once and read-only."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import pandas as pd
from sqlalchemy.engine import make_url

from analysis import frames
from analysis.modes import Mode
from analysis.per_user import PerUser, per_user
from analysis.tables import SELECTION, Group, level, measure, measured_cells, separated, swept
from analysis.traits import UserTraits, user_traits
from model.config import DatasetConfig
from model.data.describe import Description, describe
from model.data.prepare import PreparedData, load_prepared
from model.errors import RequestError

PLAIN_COLUMNS = ("number", "dataset", "model", "embeddings", "hidden", "heads", "dropout",
                 "weight_decay", "seed")  # fmt: skip
"""Columns of every declared cell that a figure's rows hold beside what the figure shows."""


class NotDrawn(Exception):
    """A study's rows do not support a figure; the message says what they lack."""


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """The frames of `analysis.frames` for one study.

    Attributes:
        study: name of the study.
        question: what it asks.
        store: URL of the database, for the reader; without a password.
        cells: one row per declared cell.
        results: one row per trial.
        attempts: one row per attempt, with the environment's columns.
        datasets: one row per prepared data set.
        curves: `trial, epoch, metric, value` of validation NDCG@10 and training loss.
        values: test NDCG@10 per user of each complete trial.
        validation: validation NDCG@10 per user, which alone chooses.
        traits: of a data set's users by its fingerprint; RequestError where it is not here.
        description: of a data set by its fingerprint; RequestError where it is not here.
        mode: how subsets are made comparable over the grid.
        pool_seeds: estimate the seeds' error over all arms of a figure, not each pair's own.
    """

    study: str
    question: str
    store: str
    cells: pd.DataFrame
    results: pd.DataFrame
    attempts: pd.DataFrame
    datasets: pd.DataFrame
    curves: pd.DataFrame
    values: PerUser
    validation: PerUser
    traits: Callable[[str], UserTraits]
    description: Callable[[str], Description]
    mode: Mode = "tuned"
    pool_seeds: bool = False

    @property
    def factors(self) -> list[str]:
        """The factors that the study sweeps; the columns of its other cells may vary, too."""
        return swept(self.cells)

    def groups(self, factors: tuple[str, ...], *, baselines: bool = False) -> Iterator[Group]:
        """Split the measured cells by data set and by each level of those factors that are swept.

        Args:
            factors: what is held.
            baselines: keep models without temporal embeddings, which have no place among subsets.

        Raises:
            RequestError: the results are of several preparations of a data set.
        """
        held = [name for name in self.factors if name in factors]
        measured = measured_cells(self.results, self.cells)
        if not baselines:
            measured = measured[measured["embeddings"] != ""]
        yield from separated(measured, held)

    def rows(self, group: Group, *columns: str) -> tuple[pd.DataFrame, str]:
        """Return the rows of the store that a figure of a group rests on, and SQL for them.

        Args:
            group: the cells that the figure shows.
            columns: those of the view `results` that it shows.
        """
        shown = [name for name in dict.fromkeys((*columns, "commit")) if name in group.cells]
        others = [name for name in self.factors if name not in PLAIN_COLUMNS]
        kept = group.cells[[*PLAIN_COLUMNS, *others, "class", "trial", *shown]]
        cell_names = [name for name in PLAIN_COLUMNS if name != "trial"]
        selected = [*(f"cell.{name}" for name in cell_names), "cell.trial", "results.state"]
        selected += [f'results."{name}"' for name in shown]
        wanted = [f"cell.study = {_text(self.study)}", f"cell.dataset = {_text(group.dataset)}"]
        wanted += [_holds(name, group.cells[name].iloc[0]) for name, _ in group.held]
        query = (
            f"SELECT {', '.join(selected)} FROM cell LEFT JOIN results "
            "ON results.trial = cell.trial AND results.study = cell.study "
            f"WHERE {' AND '.join(wanted)} ORDER BY cell.number"
        )
        return kept, query


def read_material(
    store: str,
    study: str,
    *,
    data_folder: Path | None = None,
    mode: Mode = "tuned",
    pool_seeds: bool = False,
) -> Material:
    """Read a study's rows from the store.

    Args:
        store: URL of the results database, opened read-only.
        study: name of the study.
        data_folder: where data sets are stored, for what is known of their users.
        mode: how subsets are made comparable over the grid.
        pool_seeds: estimate the seeds' error over all arms of a figure, not each pair's own.

    Raises:
        RequestError: no such store or study.
    """
    engine = frames.open_reader(store)
    try:
        # Cells first: a trial that completes in between is still shown as missing, never half.
        cells = frames.cells(engine, study)
        declared = frames.studies(engine).set_index("study")
        datasets = frames.datasets(engine)
        prepared = cache(partial(_stored, datasets, data_folder))
        return Material(
            study=study,
            question=str(declared.loc[study, "question"]),
            store=make_url(store).render_as_string(hide_password=True),
            cells=cells,
            results=frames.results(engine, study),
            attempts=frames.attempts(engine, study),
            datasets=datasets,
            curves=frames.training_curves(engine, study),
            values=per_user(engine, study, measure("test_ndcg@10")),
            validation=per_user(engine, study, measure(SELECTION)),
            traits=lambda fingerprint: user_traits(prepared(fingerprint)),
            description=cache(lambda fingerprint: describe(prepared(fingerprint))),
            mode=mode,
            pool_seeds=pool_seeds,
        )
    finally:
        engine.dispose()


def _stored(datasets: pd.DataFrame, folder: Path | None, fingerprint: str) -> PreparedData:
    """Prepare a data set again, as its row in the store says."""
    if folder is None:
        raise RequestError("data are described from the prepared set, whose folder is not known")
    row = datasets.set_index("fingerprint").loc[fingerprint]
    data = load_prepared(DatasetConfig.model_validate_json(str(row["preparation"])), folder)
    if data.fingerprint != fingerprint:
        raise RequestError(
            f"the users of {row['name']} must be those that results were computed on, the data "
            f"in {folder} are others ({data.fingerprint[:8]} instead of {fingerprint[:8]})"
        )
    return data


def _holds(factor: str, value: object) -> str:
    """Return SQL that a cell's factor has this level; factors without a column stand in JSON."""
    if factor in PLAIN_COLUMNS:
        return f"cell.{factor} = {_text(level(value)) if isinstance(value, str) else value}"
    text = f'"{value}"' if isinstance(value, str) else f"{value}"
    return f"cell.others LIKE {_text(f'%{chr(34)}{factor}{chr(34)}: {text}%')}"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
