"""How a study's points are chosen, cut short and confirmed: values of `search` to `screen`.

A *point* is a choice for every factor that the study sweeps. Each subset of embeddings, on each
data set and with each model, gets the same number of points: its arm's budget.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from model.config import MOST, Section
from study.declared import OrEmpty, Seeds
from study.mistakes import broken

Sampler = Literal["tpe", "gp", "random", "qmc", "brute"]


class Search(Section):
    """Points asked of Optuna, in one Optuna study for each arm.

    Attributes:
        optuna: the sampler; `brute` goes through the grid in a random order.
        trials_per_arm: points of each arm, every one trained with all of the study's seeds.
        seed: of the sampler.
        failed: whether a point that failed is `counted`, or `replaced` by another one, at most
            `trials_per_arm` times an arm.
    """

    optuna: Sampler
    trials_per_arm: int = Field(ge=1, le=MOST)
    seed: int = Field(default=0, ge=0, lt=2**32)
    failed: Literal["counted", "replaced"] = "counted"


class Asha(Section):
    """Asynchronous successive halving.

    Attributes:
        grace: epochs that every trial trains at least.
        reduction: at epochs `grace`, `grace * reduction`, .. the best `1 / reduction` go on.
    """

    grace: int = Field(default=10, ge=1, le=MOST)
    reduction: int = Field(default=3, ge=2, le=MOST)


class Hyperband(Asha):
    """Asynchronous Hyperband: an arm's trials take turns in races of different grace.

    Attributes:
        brackets: number of races; the grace of each is `reduction` times that of the one before.
    """

    brackets: int = Field(default=3, ge=1, le=20)


class StopEarly(Section):
    """One rule that stops trials which do worse than others of their arm at the same epoch."""

    asha: OrEmpty[Asha | None] = None
    hyperband: OrEmpty[Hyperband | None] = None

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        if (self.asha is None) == (self.hyperband is None):
            raise broken("must name one rule, asha or hyperband", "write {asha: {grace: 10}}")
        return self

    @property
    def rule(self) -> Hyperband:
        """The rule as Hyperband, of which asha is the case of one race."""
        if self.hyperband is not None:
            return self.hyperband
        asha = self.asha or Asha()
        return Hyperband(grace=asha.grace, reduction=asha.reduction, brackets=1)


class Confirm(Section):
    """The best points of each arm, trained in full with new seeds; only these are compared.

    Attributes:
        best: how many points of each arm, by their mean validation NDCG@10 over the study's seeds.
        seeds: of the confirming trials; none of them chose the points.
    """

    best: int = Field(default=1, ge=1, le=MOST)
    seeds: Seeds


def _grid_or_search(value: object) -> object:
    if not isinstance(value, Mapping) and value != "grid":
        raise broken(
            "must be grid, or a sampler and a budget",
            "write for example {optuna: tpe, trials_per_arm: 16}",
        )
    return value


def _which(value: object) -> str:
    return "[search]" if isinstance(value, (Mapping, Search)) else "[grid]"


Chosen = Annotated[
    Annotated[Literal["grid"], Tag("[grid]")] | Annotated[Search, Tag("[search]")],
    Discriminator(_which),
    BeforeValidator(_grid_or_search),
]
"""`grid`: every point of the grid; or a `Search`."""


def _each_once(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(seeds)) < len(seeds):
        raise broken("each seed must be given once", "remove the repeated one")
    return seeds


DistinctSeeds = Annotated[Seeds, AfterValidator(_each_once)]
