"""What a study's comparisons support, in plain sentences that carry their numbers.

A sentence claims an effect only where Holm's p over the family that it names is below 5%; else it
says what was measured and that it is not settled, or why nothing can be claimed.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from analysis.families import against
from analysis.gallery.board import LEVEL, SIGNIFICANT, Board, boards
from analysis.gallery.contributions import ContributionsData, identified
from analysis.material import Material, NotDrawn
from analysis.power import t_needed_sentence
from analysis.shapley import Contribution
from analysis.statistics import MIN_SEEDS, Comparison
from analysis.tables import score


class Findings(NamedTuple):
    """The sentences on one data set and problem."""

    title: str
    sentences: tuple[str, ...]


def findings(material: Material) -> tuple[Findings, ...]:
    """Return the findings of each group that can be compared; none where none can."""
    try:
        compared = boards(material)
    except NotDrawn:
        return ()
    try:
        attributed = {of.group.title: data for of, data in identified(material)}
    except NotDrawn:
        attributed = {}
    return tuple(
        Findings(
            of.group.title,
            (*_best(of), *_contributions(attributed.get(of.group.title)), *_limits(of)),
        )
        for of in compared
    )


def _best(of: Board) -> Iterator[str]:
    """Compare the best by validation with no embedding, and the others with it."""
    best, reference = of.best, of.reference
    yield (
        f"{best.subset} is best by validation among {len(of.arms)} subsets and reaches test "
        f"NDCG@10 {score(best.mean)}."
    )
    if reference.subset != best.subset:
        family = against(reference, of.arms, level=LEVEL, pool=of.pool)
        pair = next(pair for pair in family.pairs if pair.first == best.subset)
        if pair.comparison is not None:
            yield (
                f"Against {_spoken(reference.subset)} that is "
                f"{_change(pair.comparison)}{_verdict(pair.adjusted, family.size)}."
            )
    family = against(best, of.arms, level=LEVEL, pool=of.pool)
    alike = [pair.first for pair in family.pairs if not pair.adjusted < SIGNIFICANT]
    if family.size:
        yield _alike(best.subset, alike, len(family.pairs))


def _alike(best: str, alike: list[str], others: int) -> str:
    """Say which subsets are not told apart from the best."""
    if not alike:
        return f"Each of the other {others} subsets differs from {best} beyond chance."
    if len(alike) <= 3:
        return f"Not told apart from it, of {others} others: {', '.join(alike)}."
    return (
        f"Not told apart from it, of {others} others: {len(alike)}, such as {', '.join(alike[:3])}."
    )


def _contributions(data: ContributionsData | None) -> Iterator[str]:
    """Say for each embedding whether it helps, the largest first, and which pairs interact."""
    if data is None:
        return
    values = sorted(data.found.of("shapley"), key=lambda one: -one.value)
    claims = sum(not math.isnan(one.adjusted) for one in values)
    for one in values:
        if one.comparison is None or one.members == ("con",):
            continue
        yield f"{_effect(one)}{_verdict(one.adjusted, claims)}."
    yield data.found.null_player
    pairs = data.found.of("interaction")
    claims = sum(not math.isnan(one.adjusted) for one in pairs)
    told = sorted(
        (one for one in pairs if one.adjusted < SIGNIFICANT), key=lambda one: -abs(one.value)
    )
    for one in told[:2]:
        names = " and ".join(name.capitalize() for name in one.members)
        how = (
            "give more together than one by one" if one.value > 0 else "replace each other in part"
        )
        yield f"{names} {how}: {_numbers(one)}{_verdict(one.adjusted, claims)}."
    if claims and not told:
        yield f"None of the {claims} pairs of embeddings shows an interaction that is settled."


def _effect(one: Contribution) -> str:
    name = one.members[0].capitalize()
    if one.adjusted < SIGNIFICANT:
        word = "helps" if one.value > 0 else "hurts"
        return f"{name} {word}: {_numbers(one)} on average over all orders of adding embeddings"
    return f"Whether {name} helps is not settled: {_numbers(one)}"


def _numbers(one: Contribution) -> str:
    return "" if one.comparison is None else _change(one.comparison)


def _change(comparison: Comparison) -> str:
    """Write a mean with its interval.

    >>> from analysis.statistics import mean_difference
    >>> import numpy as np
    >>> _change(mean_difference(np.array([[0.01, 0.01], [0.01, 0.01]])))
    '+0.0100 NDCG@10 [+0.0100, +0.0100]'
    """
    low, high = comparison.interval.low, comparison.interval.high
    return f"{comparison.mean:+.4f} NDCG@10 [{low:+.4f}, {high:+.4f}]"


def _verdict(adjusted: float, family: int) -> str:
    """Write Holm's p and its family, or that nothing is claimed."""
    if math.isnan(adjusted):
        return ", users alone varying; one seed supports no claim"
    size = "< 0.001" if adjusted < 0.001 else f"= {adjusted:.2g}"
    return f", Holm p {size} over {family}"


def _limits(of: Board) -> Iterator[str]:
    """Say what the seeds can settle at all."""
    if of.n_seeds < MIN_SEEDS:
        yield (
            "One seed supports no claim about another: how far it would move these numbers is "
            f"unknown. Train at least {MIN_SEEDS}."
        )
    elif of.pool is None:
        yield t_needed_sentence(seeds=of.n_seeds, family=len(of.arms) - 1)
        yield (
            "meantime report --pool-seeds estimates one seeds' error over all arms, which settles "
            "more and assumes more; meantime tables --power says how many seeds would."
        )


def _spoken(subset: str) -> str:
    return "no embedding" if subset == "none" else subset
