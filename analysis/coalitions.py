"""How each contribution weighs the subsets: Shapley, main effect, leave one out, interaction.

Every quantity is a weighted sum of the subsets' worths, whose weights add up to zero, so that its
value and its error follow from the arms' per-user values alone.

Sources: L. S. Shapley, A value for n-person games, 1953; J. F. Banzhaf, 1965 (its value is the main
effect of the 2^n factorial design); interaction index, M. Grabisch, M. Roubens, International
Journal of Game Theory 28, 1999.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

Kind = Literal["shapley", "main effect", "leave one out", "add one in", "interaction"]

KINDS: dict[Kind, str] = {
    "shapley": "mean gain from adding it, over all orders of adding embeddings (Shapley value)",
    "main effect": "mean gain from adding it, over all subsets of the others (Banzhaf value)",
    "leave one out": "loss when it is taken from the full set",
    "add one in": "gain when it is added to no embedding",
    "interaction": "how much more two give together than one by one (Shapley interaction index)",
}

Weights = Mapping[frozenset[str], float]
"""Subset -> its weight in a quantity; the weights add up to zero."""


class Quantity(NamedTuple):
    """One contribution that is asked for: of whom, which, and how it weighs the subsets."""

    members: tuple[str, ...]
    kind: Kind
    weights: Weights


def quantities(players: Sequence[str]) -> Iterator[Quantity]:
    """Yield every kind for every player, and the interaction of every pair."""
    makers: tuple[tuple[Kind, Callable[[str, Sequence[str]], Weights]], ...] = (
        ("shapley", shapley_weights),
        ("main effect", main_effect_weights),
        ("leave one out", leave_one_out_weights),
        ("add one in", add_one_in_weights),
    )
    for kind, weights in makers:
        for player in players:
            yield Quantity((player,), kind, weights(player, players))
    for pair in itertools.combinations(players, 2):
        yield Quantity(pair, "interaction", interaction_weights(pair, players))


def members_of(subset: str) -> frozenset[str]:
    """Read a label.

    >>> sorted(members_of("Day+Pos")), sorted(members_of("none"))
    (['day', 'pos'], [])
    """
    return frozenset() if subset == "none" else frozenset(subset.lower().split("+"))


def shapley_weights(player: str, players: Sequence[str]) -> Weights:
    """Weigh each subset by the share of orders in which `player` comes right after it."""
    n = len(players)
    return _gains(
        player,
        players,
        lambda size: math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n),
    )


def main_effect_weights(player: str, players: Sequence[str]) -> Weights:
    """Weigh each subset of the others alike: the main effect of the factorial design."""
    return _gains(player, players, lambda _: 0.5 ** (len(players) - 1))


def leave_one_out_weights(player: str, players: Sequence[str]) -> Weights:
    """Compare the full set with the full set without `player`."""
    full = frozenset(players)
    return {full: 1.0, full - {player}: -1.0}


def add_one_in_weights(player: str, players: Sequence[str]) -> Weights:  # noqa: ARG001
    """Compare `player` alone with no embedding."""
    return {frozenset({player}): 1.0, frozenset(): -1.0}


def interaction_weights(pair: tuple[str, str], players: Sequence[str]) -> Weights:
    """Weigh the second differences of a pair over subsets of the others (Grabisch, Roubens)."""
    n = len(players)
    first, second = pair
    weights: dict[frozenset[str], float] = {}
    for others in subsets([player for player in players if player not in pair]):
        size = len(others)
        weight = math.factorial(size) * math.factorial(n - size - 2) / math.factorial(n - 1)
        weights[others | {first, second}] = weight
        weights[others | {first}] = weights[others | {second}] = -weight
        weights[others] = weight
    return weights


def _gains(player: str, players: Sequence[str], weight: Callable[[int], float]) -> Weights:
    weights: dict[frozenset[str], float] = {}
    for others in subsets([name for name in players if name != player]):
        weights[others | {player}] = weight(len(others))
        weights[others] = -weight(len(others))
    return weights


def subsets(players: Sequence[str]) -> list[frozenset[str]]:
    """Return all subsets, small ones first."""
    return [
        frozenset(chosen)
        for size in range(len(players) + 1)
        for chosen in itertools.combinations(players, size)
    ]
