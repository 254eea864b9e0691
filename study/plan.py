"""A plan is the declared product, cell by cell, and the distinct trials that it comes to.

Pure: no data, no clock, no torch. Every declared cell is listed, whatever becomes of it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, Literal

from model.config import DatasetConfig, infeasible, uneven
from model.errors import RequestError
from study.definition import Study, StudyFile
from study.no_ops import NoOp, no_ops
from study.settings import single_study
from study.space import FACTORS, READ, Heads, Point, Subset, Value, as_heads, label, resolve_heads
from study.trial import Arm, Trial, arm

MOST_CELLS = 1_000_000
"""A larger product is a mistake in the file: at one second a trial it would run for days."""

State = Literal["feasible", "infeasible", "duplicate"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the declared product.

    Attributes:
        index: place in the declared product, from 0; also part of the store's key.
        dataset: name of the data set.
        model: name of the model.
        embeddings: the subset in canonical order; None for a model without temporal embeddings.
        factors: the declared value (heads unresolved) of every factor that the model may read;
            shared between cells, read-only.
        seed: the replicate.
        state: `feasible` cells have a trial of their own, a `duplicate` shares an earlier one's.
        reason: the rule that makes the cell infeasible, or which cell it repeats; else empty.
        trial_id: the trial that answers the cell; None where infeasible.
    """

    index: int
    dataset: str
    model: str
    embeddings: Subset | None
    factors: Point
    seed: int
    state: State
    reason: str
    trial_id: str | None

    @property
    def label(self) -> str:
        """The subset's label, e.g. `Day+Pos+Sin+Log`, or `none`; empty for another model."""
        return "" if self.embeddings is None else label(self.embeddings)

    @property
    def heads(self) -> Heads | None:
        """Heads as declared: a number or `per-embedding`; None for a model without."""
        declared = self.factors.get("heads")
        return None if declared is None else as_heads(declared)


@dataclass(frozen=True)
class Plan:
    """What a study asks for: every cell, and each distinct trial once.

    Attributes:
        study: the definition that was planned.
        cells: the whole declared product, in a fixed order: data set, model, subset,
            factors, seed.
        trials: distinct trials by id, in order of their first cell.
        no_ops: swept factors that change nothing, for all or for some subsets.
        varying: names of the factors that take more than one value over the cells.
    """

    study: Study
    cells: tuple[Cell, ...]
    trials: dict[str, Trial]
    no_ops: tuple[NoOp, ...]
    varying: tuple[str, ...]

    @cached_property
    def infeasible(self) -> tuple[Cell, ...]:
        """Cells that no network can answer, each with its reason."""
        return tuple(cell for cell in self.cells if cell.state == "infeasible")

    @cached_property
    def duplicates(self) -> tuple[Cell, ...]:
        """Cells whose trial an earlier cell of this study already asks for."""
        return tuple(cell for cell in self.cells if cell.state == "duplicate")

    @cached_property
    def infeasible_reasons(self) -> dict[str, int]:
        """How many cells each rule forbids, by the rule's sentence with its advice."""
        return dict(Counter(cell.reason for cell in self.infeasible))


def plan(study: Study, file: StudyFile) -> Plan:
    """Return the declared product of a study and the trials that it comes to.

    A factor's values are those that the study declares for the model, else for all its models,
    else the data set's default, else the file's, else the model's. Only factors that the model may
    read make cells. Cells are ordered by data set, model, subset, factors as in
    `study.space.FACTORS`, seed.

    Raises:
        RequestError: the product has more than `MOST_CELLS` cells.
    """
    _require_size(study)
    cells: list[Cell] = []
    trials: dict[str, Trial] = {}
    first_cell: dict[str, Cell] = {}
    for place in _places(study, file):
        legal = _Feasibility()
        for embeddings in study.subsets(place.model):
            for factors in place.points:
                reason = legal.reason(embeddings, factors)
                shared = None if reason else place.arm(embeddings, factors)
                for seed in study.seeds:
                    trial = shared.trial(seed) if shared else None
                    earlier = first_cell.get(trial.id) if trial else None
                    cell = Cell(
                        index=len(cells),
                        dataset=place.dataset.name,
                        model=place.model,
                        embeddings=embeddings,
                        factors=factors,
                        seed=seed,
                        state="infeasible" if reason else "duplicate" if earlier else "feasible",
                        reason=reason or (_repeats(factors, earlier) if earlier else ""),
                        trial_id=trial.id if trial else None,
                    )
                    cells.append(cell)
                    if trial and not earlier:
                        trials[trial.id] = trial
                        first_cell[trial.id] = cell
    varying = _varying(cells)
    return Plan(study, tuple(cells), trials, no_ops(cells, varying=varying), varying)


def _require_size(study: Study) -> None:
    n_points = sum(
        len(study.subsets(model)) * prod(map(len, study.grid_of(model).values()))
        for model in study.models
    )
    n_cells = len(study.datasets) * len(study.seeds) * n_points
    if n_cells > MOST_CELLS:
        raise RequestError(
            f"a study must have at most {MOST_CELLS:,} cells, got {n_cells:,} in {study.name}; "
            "shorten its lists, or declare several studies"
        )


def require_trials(plan: Plan) -> None:
    """Refuse a study of which nothing can be trained.

    Raises:
        RequestError: every cell is infeasible; each rule is in the message once.
    """
    if not plan.trials:
        rules = "\n".join(
            f"  {count} cells: {reason}" for reason, count in plan.infeasible_reasons.items()
        )
        raise RequestError(
            f"a study must have a feasible cell, got none of {len(plan.cells)} "
            f"in {plan.study.name}; change embeddings or grid:\n{rules}"
        )


def single_trial(file: StudyFile, settings: Iterable[str]) -> Trial:
    """Return the trial that `KEY=VALUE` settings name, the file's defaults filled in.

    Raises:
        RequestError: a setting is wrong, or the network that they name cannot be built.
    """
    one = plan(single_study(file, settings), file)
    if not one.trials:
        raise RequestError(one.cells[0].reason)
    return next(iter(one.trials.values()))


def as_json(plan: Plan) -> dict[str, Any]:
    """Return the plan as plain values: the study's name, every cell, and counts."""
    more = [name for name in plan.varying if name not in COORDINATES]
    return {
        "study": plan.study.name,
        "cells": [
            {
                "index": cell.index,
                "dataset": cell.dataset,
                "model": cell.model,
                "embeddings": cell.label or None,
                **{name: cell.factors.get(name) for name in (*COORDINATES, *more)},
                "seed": cell.seed,
                "state": cell.state,
                "reason": cell.reason,
                "trial": cell.trial_id,
            }
            for cell in plan.cells
        ],
        "trials": len(plan.trials),
        "infeasible": len(plan.infeasible),
        "duplicates": len(plan.duplicates),
        "no_ops": [no_op.message for no_op in plan.no_ops],
    }


COORDINATES = ("hidden", "heads", "dropout", "weight_decay")
"""Factors that every listing of cells shows, swept or not."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A model on a data set, and the points of its grid: values for the factors that it reads."""

    dataset: DatasetConfig
    model: str
    points: tuple[dict[str, Value], ...]

    def arm(self, embeddings: Subset | None, factors: Point) -> Arm:
        return arm(self.dataset, self.model, embeddings=embeddings, factors=factors)


def _places(study: Study, file: StudyFile) -> Iterator[_Place]:
    for name, model in product(study.datasets, study.models):
        defaults = {
            **{factor: FACTORS[factor].defaults[model] for factor in READ[model]},
            **file.defaults,
            **file.dataset_defaults[name],
        }
        grid = study.grid_of(model)
        values = [grid.get(factor, (defaults[factor],)) for factor in READ[model]]
        points = tuple(dict(zip(READ[model], point, strict=True)) for point in product(*values))
        yield _Place(file.datasets[name], model, points)


class _Feasibility:
    """The rules of `model.config` for one model, asked once for each subset, width and heads."""

    def __init__(self) -> None:
        self._known: dict[tuple[Subset | None, Value, Value], str | None] = {}

    def reason(self, embeddings: Subset | None, factors: Point) -> str | None:
        if "heads" not in factors:
            return None
        asked = (embeddings, factors["hidden"], factors["heads"])
        if asked not in self._known:
            hidden, heads = int(factors["hidden"]), as_heads(factors["heads"])
            resolved = resolve_heads(heads, embeddings)
            self._known[asked] = (
                uneven(hidden=hidden, heads=resolved)
                if embeddings is None
                else infeasible(embeddings, hidden=hidden, heads=resolved)
            )
        return self._known[asked]


def _repeats(factors: Point, earlier: Cell) -> str:
    """Say which earlier cell has the same trial, by the values in which the two differ."""
    differing = [
        f"{name}={value}" for name, value in earlier.factors.items() if value != factors[name]
    ]
    how = f" ({', '.join(differing)})" if differing else " (declared twice)"
    return f"the same trial as cell {earlier.index}{how}"


def _varying(cells: Iterable[Cell]) -> tuple[str, ...]:
    values: dict[str, set[Value]] = {name: set() for name in FACTORS}
    for factors in {id(cell.factors): cell.factors for cell in cells}.values():
        for name, value in factors.items():
            values[name].add(value)
    return tuple(name for name, taken in values.items() if len(taken) > 1)
