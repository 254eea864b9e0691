"""What a study's comparisons support, in plain sentences that carry their numbers.

A sentence claims an effect only where Holm's p over the family that it names is below 5%; else it
says what was measured and that it is not settled, or why nothing can be claimed.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from analysis.captions import own_protocol
from analysis.families import against
from analysis.gallery.board import LEVEL, SIGNIFICANT, Board, boards
from analysis.gallery.contributions import NOT_IDENTIFIED, ContributionsData, identified
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
            (
                *_best(of),
                *_against_reference(of),
                *_contributions(
                    attributed.get(of.group.title),
                    _quantity(of),
                    any_identified=bool(attributed),
                ),
                *_limits(of),
            ),
        )
        for of in compared
    )


def _quantity(of: Board) -> str:
    """Name what every difference is of: metric, split and protocol."""
    return f"test NDCG@10 ({own_protocol('popular-100', of.group.cells)})"


def _best(of: Board) -> Iterator[str]:
    """Name the best by validation, compare it with no embedding, and the others with it."""
    best, reference, quantity = of.best, of.reference, _quantity(of)
    yield (
        f"{best.subset} is best by validation NDCG@10 among {len(of.arms)} subsets (mode: "
        f"{of.mode}) and reaches {score(best.mean)} {quantity}, {_seeds(len(best.seeds))}."
    )
    if reference.subset != best.subset:
        family = against(reference, of.arms, level=LEVEL, pool=of.pool)
        pair = next(pair for pair in family.pairs if pair.first == best.subset)
        if pair.comparison is not None:
            yield (
                f"Against {_spoken(reference.subset)} that is "
                f"{_change(pair.comparison, quantity)}{_verdict(pair.adjusted, family.size)}."
            )
    family = against(best, of.arms, level=LEVEL, pool=of.pool)
    alike = [pair.first for pair in family.pairs if not pair.adjusted < SIGNIFICANT]
    if family.size:
        yield _alike(best.subset, alike, len(family.pairs), f"{quantity}, Holm over {family.size}")


def _alike(best: str, alike: list[str], others: int, where: str) -> str:
    """Say which subsets are not told apart from the best, and in what."""
    if not alike:
        return f"Each of the other {others} subsets differs from {best} beyond chance in {where}."
    if len(alike) == others:
        return f"None of the other {others} subsets is told apart from {best} in {where}."
    named = ", ".join(alike[:3])
    if len(alike) <= 3:
        return f"Of {others} others, not told apart from {best} in {where}: {named}."
    return (
        f"Of {others} others, {len(alike)} are not told apart from {best} in {where}, such as "
        f"{named}."
    )


def _against_reference(of: Board) -> Iterator[str]:
    """Say how many subsets differ from no embedding, and by how much the first of them."""
    reference = of.reference
    if reference.subset != "none":
        return
    family = against(reference, of.arms, level=LEVEL, pool=of.pool)
    told = [pair for pair in family.pairs if pair.adjusted < SIGNIFICANT]
    if not family.size or {pair.first for pair in told} <= {of.best.subset}:
        return
    first = max(told, key=lambda pair: abs(pair.comparison.mean) if pair.comparison else 0.0)
    differ = "differs" if len(told) == 1 else "differ"
    sentence = (
        f"Of {family.size} subsets compared with no embedding, {len(told)} {differ} from it beyond "
        f"chance in {_quantity(of)}, Holm over {family.size}"
    )
    if first.first == of.best.subset or first.comparison is None:
        yield f"{sentence}."
        return
    which = "it is" if len(told) == 1 else "the most"
    yield (
        f"{sentence}; {which} {first.first}: {_change(first.comparison, _quantity(of))}"
        f"{_verdict(first.adjusted, family.size)}."
    )


def _contributions(
    data: ContributionsData | None, quantity: str, *, any_identified: bool
) -> Iterator[str]:
    """Say for each embedding whether it helps, the largest first, and which pairs interact."""
    if data is None:
        if any_identified:
            yield f"What each embedding adds is not identified here: {NOT_IDENTIFIED}."
        return
    values = sorted(data.found.of("shapley"), key=lambda one: -one.value)
    claims = sum(not math.isnan(one.adjusted) for one in values)
    for one in values:
        if one.comparison is None or one.members == ("con",):
            continue
        yield f"{_effect(one, quantity)}{_verdict(one.adjusted, claims)}."
    yield data.found.null_player
    pairs = data.found.of("interaction")
    claims = sum(not math.isnan(one.adjusted) for one in pairs)
    told = sorted(
        (one for one in pairs if one.adjusted < SIGNIFICANT), key=lambda one: -abs(one.value)
    )
    for one in told[:2]:
        if one.comparison is None:
            continue
        names = " and ".join(name.capitalize() for name in one.members)
        how = (
            "give more together than one by one" if one.value > 0 else "replace each other in part"
        )
        change = _change(one.comparison, quantity)
        yield f"{names} {how}: interaction {change}{_verdict(one.adjusted, claims)}."
    if claims and not told:
        yield f"None of the {claims} pairs of embeddings shows an interaction that is settled."


def _effect(one: Contribution, quantity: str) -> str:
    """Say what adding an embedding does to a subset, over all orders of adding them."""
    name = one.members[0].capitalize()
    verb = "helps" if one.value > 0 else "hurts"
    claim = f"{name} {verb}" if one.adjusted < SIGNIFICANT else f"Whether {name} helps is open"
    change = "" if one.comparison is None else _change(one.comparison, quantity)
    return f"{claim}: {change} against the same subset without it, mean over all orders of adding"


def _change(comparison: Comparison, quantity: str) -> str:
    """Write a mean with its interval.

    >>> from analysis.statistics import mean_difference
    >>> import numpy as np
    >>> _change(mean_difference(np.array([[0.01, 0.01], [0.01, 0.01]])), "NDCG@10")
    '+0.0100 NDCG@10 [+0.0100, +0.0100]'
    """
    low, high = comparison.interval.low, comparison.interval.high
    return f"{comparison.mean:+.4f} {quantity} [{low:+.4f}, {high:+.4f}]"


def _verdict(adjusted: float, family: int) -> str:
    """Write Holm's p and its family, or that nothing is claimed."""
    if math.isnan(adjusted):
        return ", users alone varying; one seed supports no claim"
    size = "< 0.001" if adjusted < 0.001 else f"= {adjusted:.2g}"
    settled = "" if adjusted < SIGNIFICANT else ", not settled"
    return f", Holm p {size} over {family}{settled}"


def _seeds(count: int) -> str:
    return "one seed" if count == 1 else f"the mean over {count} seeds"


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
