"""Contenders: what a study compares and a search gives equal budgets, a subset on a data set.

A contender's *points* are choices for the factors that the study sweeps; every point is trained
with each seed. Here are its legal points and the cells that they come to; `study.asking` chooses.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product

from model.config import DatasetConfig, infeasible, uneven
from study.cells import Cell, Stage
from study.ranges import Range
from study.space import Point, Subset, Value, as_heads, label, resolve_heads
from study.trial import Trial, arm

Choices = Mapping[str, tuple[Value, ...] | Range]

Shuffle = Callable[[int], Iterable[int]]

MOST_COUNTED = 10_000
"""A range of more values is treated like one whose values are not counted."""

MOST_TRIED = 200_000
"""So many combinations are looked at to see how many different points there are."""


@dataclass(frozen=True, slots=True)
class Block:
    """Cells that follow each other in a plan: the points of one contender, each seed by seed.

    Attributes:
        first: index of the first cell.
        slots: how many points there is place for.
        seeds: of every point.
        stage: of every cell.
    """

    first: int
    slots: int
    seeds: tuple[int, ...]
    stage: Stage

    @property
    def end(self) -> int:
        """Index after the last cell."""
        return self.first + self.slots * len(self.seeds)


@dataclass(frozen=True)
class Contender:
    """A data set, a model and a subset, with the choices that a study leaves open.

    Attributes:
        dataset: the data set and its preparation.
        model: the model's name.
        embeddings: the subset; None for a model without.
        choices: by factor that the model reads, its one value, its list or its range.
        full: the values of factors that have another one while points are screened.
        tried: the cells of the points that are searched.
        confirmed: the cells of the best of them, trained again in full; None without.
    """

    dataset: DatasetConfig
    model: str
    embeddings: Subset | None
    choices: Choices
    full: Mapping[str, Value]
    tried: Block
    confirmed: Block | None = None

    @property
    def name(self) -> str:
        """Data set, model and subset, such as `ml-1m meantime Day+Pos`."""
        subset = () if self.embeddings is None else (label(self.embeddings),)
        return " ".join((self.dataset.name, self.model, *subset))

    @cached_property
    def open(self) -> dict[str, tuple[Value, ...] | Range]:
        """The factors with more than one value: what a point chooses."""
        return {
            name: values
            for name, values in self.choices.items()
            if isinstance(values, Range) or len(set(values)) > 1
        }

    @cached_property
    def fixed(self) -> dict[str, Value]:
        """The factors with one value, which all of its points share."""
        return {
            name: values[0]
            for name, values in self.choices.items()
            if name not in self.open and not isinstance(values, Range)
        }

    def point(self, chosen: Mapping[str, Value]) -> dict[str, Value]:
        """Return a value for every factor, in order, from those chosen for the open ones."""
        return {n: chosen[n] if n in chosen else self.fixed[n] for n in self.choices}

    def reason(self, point: Point) -> str | None:
        """Return why this point's network cannot be built, or None if it can."""
        return forbidden(self.embeddings, point)

    def trials(self, point: Point, seeds: Iterable[int]) -> tuple[Trial, ...]:
        """Return the trials of a legal point, one a seed."""
        shared = arm(self.dataset, self.model, embeddings=self.embeddings, factors=point)
        return tuple(shared.trial(seed) for seed in seeds)

    def first_id(self, point: Point) -> str:
        """Return what tells points apart: the id of the trial with the first seed."""
        return self.trials(point, self.tried.seeds[:1])[0].id

    def different(self, shuffle: Shuffle | None = None) -> Iterator[dict[str, Value]]:
        """Yield legal points that come to different trials; of an endless range only its ends.

        Args:
            shuffle: returns the first n whole numbers in the order wanted; None: that of the grid.
        """
        seen: set[str] = set()
        for chosen in _combinations([_ends_or_all(c) for c in self.open.values()], shuffle):
            point = self.point(dict(zip(self.open, chosen, strict=True)))
            if self.reason(point) is None and (first := self.first_id(point)) not in seen:
                seen.add(first)
                yield point

    def n_different(self, most: int) -> int:
        """Return how many different points it has, counted up to `most`."""
        found = list(islice(self.different(), most))
        endless = [name for name, choice in self.open.items() if _endless(choice)]
        read = any(self._reads(name, point) for name in endless for point in found)
        return most if read else len(found)

    def _reads(self, name: str, point: Point) -> bool:
        choice = self.open[name]
        ends = [{**point, name: end} for end in _ends_or_all(choice)]
        return len({self.first_id(end) for end in ends if self.reason(end) is None}) > 1

    def cells(
        self, block: Block, slot: int, *, point: Point
    ) -> tuple[tuple[Cell, ...], tuple[Trial, ...]]:
        """Return the cells that a legal point fills, and their trials.

        Args:
            block: `tried` or `confirmed`.
            slot: the point's place in it, from 0.
            point: a value for every factor.
        """
        trials = self.trials(point, block.seeds)
        cells = tuple(
            self._cell(block, slot, place, factors=point, trial=trial)
            for place, trial in enumerate(trials)
        )
        return cells, trials

    def empty(self, block: Block, slots: Iterable[int], *, reason: str = "") -> tuple[Cell, ...]:
        """Return the cells of places without a point: unasked, or infeasible with the reason."""
        return tuple(
            self._cell(block, slot, place, factors=self.fixed, reason=reason)
            for slot in slots
            for place in range(len(block.seeds))
        )

    def _cell(
        self,
        block: Block,
        slot: int,
        place: int,
        *,
        factors: Point,
        trial: Trial | None = None,
        reason: str = "",
    ) -> Cell:
        return Cell(
            index=block.first + slot * len(block.seeds) + place,
            dataset=self.dataset.name,
            model=self.model,
            embeddings=self.embeddings,
            factors=factors,
            seed=block.seeds[place],
            state="feasible" if trial else "infeasible" if reason else "unasked",
            reason=reason,
            trial_id=trial.id if trial else None,
            stage=block.stage,
        )


def forbidden(embeddings: Subset | None, point: Point) -> str | None:
    """Return the rule of `model.config` that forbids a network, or None if it can be built.

    Args:
        embeddings: the subset; None for a model without.
        point: at least `hidden` and `heads` of a model that has heads.
    """
    if "heads" not in point:
        return None
    hidden, heads = int(point["hidden"]), resolve_heads(as_heads(point["heads"]), embeddings)
    if embeddings is None:
        return uneven(hidden=hidden, heads=heads)
    return infeasible(embeddings, hidden=hidden, heads=heads)


def _endless(choice: tuple[Value, ...] | Range) -> bool:
    return isinstance(choice, Range) and (choice.size is None or choice.size > MOST_COUNTED)


def _ends_or_all(choice: tuple[Value, ...] | Range) -> tuple[Value, ...]:
    if not isinstance(choice, Range):
        return tuple(dict.fromkeys(choice))
    return (choice.low, choice.high) if _endless(choice) else choice.values


def _combinations(
    values: list[tuple[Value, ...]], shuffle: Shuffle | None
) -> Iterator[tuple[Value, ...]]:
    total = math.prod(len(some) for some in values)
    if shuffle is None or total > MOST_TRIED:
        yield from islice(product(*values), MOST_TRIED)
        return
    for index in shuffle(total):
        chosen, rest = [], int(index)
        for some in reversed(values):
            rest, place = divmod(rest, len(some))
            chosen.append(some[place])
        yield tuple(reversed(chosen))
