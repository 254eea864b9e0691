"""A plan is the declared product, cell by cell, and the distinct trials that it comes to.

Pure: no data, no clock, no torch. Every declared cell is listed, whatever becomes of it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from model.config import DatasetConfig
from model.errors import RequestError
from study.cells import Cell, Stage
from study.contenders import Block, Choices, Contender, forbidden
from study.definition import Study, StudyFile
from study.no_ops import NoOp, no_ops
from study.ranges import Range
from study.settings import single_study
from study.space import FACTORS, READ, Point, Subset, Value
from study.trial import Trial, arm

MOST_CELLS = 1_000_000
"""A larger product is a mistake in the file: at one second a trial it would run for days."""


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
        contenders: what the study compares, in the order of the cells.
    """

    study: Study
    cells: tuple[Cell, ...]
    trials: dict[str, Trial]
    no_ops: tuple[NoOp, ...]
    varying: tuple[str, ...]
    contenders: tuple[Contender, ...]

    @cached_property
    def unasked(self) -> tuple[Cell, ...]:
        """Cells whose point is chosen when the results before it are known."""
        return tuple(cell for cell in self.cells if cell.state == "unasked")

    def with_points(self, cells: Mapping[int, Cell], trials: Iterable[Trial]) -> "Plan":
        """Return the plan with some cells in place of those of their index, and their trials."""
        return replace(
            self,
            cells=tuple(cells.get(cell.index, cell) for cell in self.cells),
            trials={**self.trials, **{trial.id: trial for trial in trials}},
        )

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
    made = _Cells()
    contenders: list[Contender] = []
    stage: Stage = "screen" if study.confirm else "final"
    for place in _places(study, file):
        legal = _Feasibility()
        for embeddings in study.subsets(place.model):
            contender = Contender(
                dataset=place.dataset,
                model=place.model,
                embeddings=embeddings,
                choices=place.choices,
                full=place.full,
                tried=Block(len(made.cells), _budget(study, place), study.seeds, stage),
            )
            contenders.append(contender)
            if study.searched:
                made.cells += _places_for_points(contender)
            else:
                made.add_grid(contender, place.points, legal=legal)
    if study.confirm:
        for number, contender in enumerate(contenders):
            block = Block(len(made.cells), study.confirm.best, study.confirm.seeds, "final")
            contenders[number] = replace(contender, confirmed=block)
            made.cells += contender.empty(
                block, range(block.slots), reason=_hopeless(contender, made.cells)
            )
    swept = {name for contender in contenders for name in contender.open}
    varying = tuple(name for name in FACTORS if name in swept | set(_varying(made.cells)))
    return Plan(
        study=study,
        cells=tuple(made.cells),
        trials=made.trials,
        no_ops=no_ops(made.cells, varying=varying),
        varying=varying,
        contenders=tuple(contenders),
    )


class _Cells:
    """The cells and trials of a plan while it is made."""

    def __init__(self) -> None:
        self.cells: list[Cell] = []
        self.trials: dict[str, Trial] = {}
        self._first: dict[str, Cell] = {}

    def add_grid(
        self, contender: Contender, points: Iterable[Point], *, legal: "_Feasibility"
    ) -> None:
        """Add every point of the grid, with each seed."""
        dataset, embeddings = contender.dataset, contender.embeddings
        for factors in points:
            reason = legal.reason(embeddings, factors)
            shared = (
                None
                if reason
                else arm(dataset, contender.model, embeddings=embeddings, factors=factors)
            )
            for seed in contender.tried.seeds:
                trial = shared.trial(seed) if shared else None
                earlier = self._first.get(trial.id) if trial else None
                cell = Cell(
                    index=len(self.cells),
                    dataset=dataset.name,
                    model=contender.model,
                    embeddings=embeddings,
                    factors=factors,
                    seed=seed,
                    state="infeasible" if reason else "duplicate" if earlier else "feasible",
                    reason=reason or (_repeats(factors, earlier) if earlier else ""),
                    trial_id=trial.id if trial else None,
                    stage=contender.tried.stage,
                )
                self.cells.append(cell)
                if trial and not earlier:
                    self.trials[trial.id] = trial
                    self._first[trial.id] = cell


def _budget(study: Study, place: "_Place") -> int:
    if study.searched is None:
        return len(place.points)
    chooses = any(isinstance(v, Range) or len(v) > 1 for v in place.choices.values())
    # A model without a choice, such as popularity, has its one point in the table all the same.
    return study.searched.trials_per_arm if chooses else 1


def _places_for_points(contender: Contender) -> tuple[Cell, ...]:
    """Return the cells that a search will fill, and those that it cannot, for want of points."""
    block = contender.tried
    n_different = contender.n_different(block.slots)
    if n_different == 0:
        anything = contender.point({name: _any(c) for name, c in contender.open.items()})
        lacking = contender.reason(anything) or "no combination of its values is feasible"
    else:
        lacking = (
            f"the search needs {block.slots} different points, this subset has {n_different}; "
            "widen the grid, or lower trials_per_arm"
        )
    return (
        *contender.empty(block, range(n_different)),
        *contender.empty(block, range(n_different, block.slots), reason=lacking),
    )


def _any(choice: tuple[Value, ...] | Range) -> Value:
    return choice.low if isinstance(choice, Range) else choice[0]


def _hopeless(contender: Contender, cells: list[Cell]) -> str:
    """Return why no point of a contender can be confirmed, or nothing if one can."""
    mine = cells[contender.tried.first : contender.tried.end]
    hopeless = all(cell.state == "infeasible" for cell in mine)
    return mine[0].reason if hopeless and mine else ""


def _require_size(study: Study) -> None:
    n_contenders = {model: len(study.subsets(model)) for model in study.models}
    n_points = sum(
        n * (study.searched.trials_per_arm if study.searched else _n_points(study, model))
        for model, n in n_contenders.items()
    )
    n_confirmed = sum(n_contenders.values()) * study.confirm.best if study.confirm else 0
    n_confirming_seeds = len(study.confirm.seeds) if study.confirm else 0
    n_cells = len(study.datasets) * (len(study.seeds) * n_points + n_confirmed * n_confirming_seeds)
    if n_cells > MOST_CELLS:
        raise RequestError(
            f"a study must have at most {MOST_CELLS:,} cells, got {n_cells:,} in {study.name}; "
            "shorten its lists, or declare several studies"
        )


def _n_points(study: Study, model: str) -> int:
    grid = study.grid_of(model)
    return prod(len(values) for values in grid.values() if not isinstance(values, Range))


def is_dynamic(plan: Plan) -> bool:
    """Tell whether what a launch trains depends on its results."""
    study = plan.study
    return study.searched is not None or study.stop_early is not None or study.confirm is not None


def require_trials(plan: Plan) -> None:
    """Refuse a study of which nothing can be trained.

    Raises:
        RequestError: every cell is infeasible; each rule is in the message once.
    """
    if not plan.trials and not plan.unasked:
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
                "stage": cell.stage,
                "state": cell.state,
                "reason": cell.reason,
                "trial": cell.trial_id,
            }
            for cell in plan.cells
        ],
        "trials": len(plan.trials),
        "infeasible": len(plan.infeasible),
        "duplicates": len(plan.duplicates),
        "unasked": len(plan.unasked),
        "no_ops": [no_op.message for no_op in plan.no_ops],
    }


COORDINATES = ("hidden", "heads", "dropout", "weight_decay")
"""Factors that every listing of cells shows, swept or not."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A model on a data set: values for the factors that it reads, and the points of its grid."""

    dataset: DatasetConfig
    model: str
    choices: Choices
    full: Mapping[str, Value]
    points: tuple[dict[str, Value], ...]


def _places(study: Study, file: StudyFile) -> Iterator[_Place]:
    for name, model in product(study.datasets, study.models):
        defaults = {
            **{factor: FACTORS[factor].defaults[model] for factor in READ[model]},
            **file.defaults,
            **file.dataset_defaults[name],
        }
        grid = study.grid_of(model)
        declared: Choices = {f: grid.get(f, (defaults[f],)) for f in READ[model]}
        choices = {f: (study.screen[f],) if f in study.screen else declared[f] for f in declared}
        full = {f: _any(declared[f]) for f in study.screen if f in declared}
        lists = [() if isinstance(v, Range) else v for v in choices.values()]
        points = tuple(dict(zip(choices, point, strict=True)) for point in product(*lists))
        yield _Place(file.datasets[name], model, choices, full, () if study.searched else points)


class _Feasibility:
    """What `forbidden` says for one model, asked once for each subset, width and heads."""

    def __init__(self) -> None:
        self._known: dict[tuple[Subset | None, Value, Value], str | None] = {}

    def reason(self, embeddings: Subset | None, factors: Point) -> str | None:
        if "heads" not in factors:
            return None
        asked = (embeddings, factors["hidden"], factors["heads"])
        if asked not in self._known:
            self._known[asked] = forbidden(embeddings, factors)
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
