"""What each embedding contributes: Shapley values and their relatives over measured subsets.

A subset's worth is its metric, per user and seed, so that every quantity here is a weighted sum
of arms with the same error analysis as a difference of two arms. All of them rest on the same
seeds and users (one resample serves all coalitions), and nothing is imputed: a quantity that needs
a subset that was not measured is not identified, and says so.

`analysis.coalitions` has the weights and their sources.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.coalitions import Kind, Quantity, Weights, members_of, quantities, subsets
from analysis.families import OWN_SEEDS, Pooled, pooling_sentence
from analysis.per_user import Arm
from analysis.resampling import Resample
from analysis.statistics import Comparison, SeedError, Values, holm, mean_difference
from model.config import EMBEDDINGS
from model.errors import RequestError
from study.space import label


class Contribution(NamedTuple):
    """One quantity.

    Attributes:
        members: the embedding, or the two of an interaction.
        kind: which quantity, see `KINDS`.
        comparison: mean, interval and p-value; None where it is not identified.
        adjusted: Holm's p over the contributions of this kind; NaN without a claim.
        missing: subsets that it needs and that were not measured, as labels.
        reason: why there is no value or no claim; empty where there are both.
    """

    members: tuple[str, ...]
    kind: Kind
    comparison: Comparison | None
    adjusted: float
    missing: tuple[str, ...]
    reason: str

    @property
    def value(self) -> float:
        """The quantity in the metric's unit, NaN where it is not identified."""
        return math.nan if self.comparison is None else self.comparison.mean


class Attribution(NamedTuple):
    """All contributions of a set of embeddings on one data set.

    Attributes:
        players: the embeddings, in canonical order.
        contributions: every kind for every embedding, and the interaction of every pair.
        total: worth of the full set minus that of `none`; NaN where either is missing.
        seeds: the seeds that all measured subsets share.
        users: number of users.
        missing: subsets without a complete trial on the shared seeds.
        pooling: how the seeds' error was estimated, a sentence.
        null_player: Con's Shapley value against its known truth of zero, a sentence.
    """

    players: tuple[str, ...]
    contributions: tuple[Contribution, ...]
    total: float
    seeds: tuple[int, ...]
    users: int
    missing: tuple[str, ...]
    pooling: str
    null_player: str

    def of(self, kind: Kind) -> tuple[Contribution, ...]:
        """Return the contributions of one kind, in canonical order."""
        return tuple(found for found in self.contributions if found.kind == kind)


class Game(NamedTuple):
    """Measured subsets on shared seeds and users.

    Attributes:
        players: the embeddings, in canonical order.
        worth: subset -> values of shape (seeds, users).
        seeds: the shared seeds.
    """

    players: tuple[str, ...]
    worth: Mapping[frozenset[str], Values]
    seeds: tuple[int, ...]


def game(arms: Sequence[Arm], players: Sequence[str] = EMBEDDINGS) -> Game:
    """Collect arms that differ in their subset alone, on the seeds that all of them have.

    Arms without a complete trial are left out; arms with members that do not play, too.

    Raises:
        RequestError: two arms have one subset, or no seed is shared.
    """
    chosen: dict[frozenset[str], Arm] = {}
    for arm in arms:
        members = members_of(arm.subset)
        if not arm.seeds or not members <= set(players):
            continue
        if members in chosen:
            raise RequestError(
                f"contributions compare subsets at one hyperparameter point, got {arm.subset} at "
                f"several, such as {arm.name}; choose a point, or average over the grid"
            )
        chosen[members] = arm
    owned = [set(arm.seeds) for arm in chosen.values()]
    shared = sorted(set.intersection(*owned)) if owned else []
    if not shared:
        raise RequestError(
            "contributions need subsets with a complete seed in common, got "
            f"{len(chosen)} subsets and none; launch the study until they share one"
        )
    worth = {
        members: arm.values[[arm.seeds.index(seed) for seed in shared]]
        for members, arm in chosen.items()
    }
    return Game(tuple(players), worth, tuple(shared))


def attribution(played: Game, *, level: float = 0.95, pool: Pooled | None = None) -> Attribution:
    """Return every contribution with its interval.

    Args:
        played: from `game`.
        level: of the intervals.
        pool: a seeds' error common to all arms (`analysis.families.pooled`), which two or three
            seeds need before anything can be settled.
    """
    players = played.players
    found = [
        _contribution(played, quantity, level=level, pool=pool) for quantity in quantities(players)
    ]
    contributions = _adjusted(found)
    full, nothing = frozenset(players), frozenset[str]()
    total = math.nan
    if full in played.worth and nothing in played.worth:
        total = float((played.worth[full] - played.worth[nothing]).mean())
    users = next(iter(played.worth.values())).shape[1]
    return Attribution(
        players=players,
        contributions=contributions,
        total=total,
        seeds=played.seeds,
        users=users,
        missing=tuple(label(chosen) for chosen in subsets(players) if chosen not in played.worth),
        pooling=OWN_SEEDS if pool is None else pooling_sentence(pool),
        null_player=_null_player(contributions),
    )


def resampled(played: Game, weights: Weights, drawn: Resample) -> NDArray[np.float64]:
    """Return a quantity under each draw, shape (repeats,); one `drawn` serves all quantities.

    Raises:
        RequestError: a subset that it needs was not measured.
    """
    missing = [label(chosen) for chosen in weights if chosen not in played.worth]
    if missing:
        raise RequestError(f"needs subsets that were not measured: {', '.join(missing)}")
    return drawn.means(_weighted(played, weights))


def _weighted(played: Game, weights: Weights) -> Values:
    total = np.zeros_like(next(iter(played.worth.values())))
    for chosen, weight in weights.items():
        total = total + weight * played.worth[chosen]
    return total


def _contribution(
    played: Game, quantity: Quantity, *, level: float, pool: Pooled | None
) -> Contribution:
    members, kind, weights = quantity
    missing = tuple(label(chosen) for chosen in weights if chosen not in played.worth)
    if missing:
        shown = ", ".join(missing[:5]) + (", .." if len(missing) > 5 else "")
        reason = (
            f"not identified: needs {len(weights)} subsets, of which {len(missing)} have no "
            f"complete trial ({shown})"
        )
        return Contribution(members, kind, None, math.nan, missing, reason)
    seed_error = None
    if pool is not None and len(played.seeds) > 1:
        squares = sum(weight**2 for weight in weights.values())
        seed_error = SeedError(squares * pool.variance / len(played.seeds), pool.df)
    comparison = mean_difference(_weighted(played, weights), level=level, seed_error=seed_error)
    return Contribution(members, kind, comparison, math.nan, (), comparison.reason)


def _adjusted(found: list[Contribution]) -> tuple[Contribution, ...]:
    """Fill in Holm's p, each kind being a family of its own."""
    result = []
    for _, members in itertools.groupby(found, key=lambda contribution: contribution.kind):
        family = list(members)
        p = np.array([one.comparison.p if one.comparison else math.nan for one in family])
        result += [
            one._replace(adjusted=float(value)) for one, value in zip(family, holm(p), strict=True)
        ]
    return tuple(result)


def _null_player(contributions: tuple[Contribution, ...]) -> str:
    """Say whether Con, whose true contribution is zero, is measured as zero."""
    for one in contributions:
        if one.kind == "shapley" and one.members == ("con",) and one.comparison is not None:
            low, high = one.comparison.interval.low, one.comparison.interval.high
            verdict = "covers" if low <= 0 <= high else "does not cover"
            return (
                "Con is the negative control, a constant that the network can do without: its "
                f"interval [{low:+.4f}, {high:+.4f}] {verdict} 0."
            )
    return "Con, the built-in negative control, was not measured."
