"""Which embeddings a study finds: one rule that knows no truth, held against what was planted.

Two ways measure what an embedding gives: added to `none`, and left out of all six. An embedding is
**found** where the lower bound of every measured way exceeds `WORTH`. Any other gives **nothing**
where each of its upper bounds stays below half of what the found one gives the same way or, where
none is found, below `NOTHING`. Everything else is **undecided**: more seeds or users would tell.

Exp and Log are functions of the same gap. Where both help alone, leaving one out shows little,
because the other stays; then both are judged by leaving out both.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from analysis.families import pooled
from analysis.per_user import Arm, paired
from analysis.statistics import Comparison, compare
from model.config import EMBEDDINGS, Embedding
from model.errors import RequestError
from study.space import label

WORTH = 0.05
"""Test NDCG@10 that an embedding must give, whatever users and seeds, to count as found."""

NOTHING = 0.02
"""Test NDCG@10 that an embedding must stay below where nothing is found."""

SUBSTITUTES: tuple[Embedding, Embedding] = ("exp", "log")

Way = Literal["alone", "left out"]
Ruling = Literal["found", "nothing", "undecided"]


class Verdict(NamedTuple):
    """What one embedding gives on one data set.

    Attributes:
        dataset: the data set.
        embedding: the embedding.
        ruling: by the rule above.
        alone: its arm minus `none`.
        left_out: all six minus the five without it (or, of substitutes, minus the four without
            both); None where the study lacks these arms.
        as_group: whether it was judged together with its substitute.
    """

    dataset: str
    embedding: Embedding
    ruling: Ruling
    alone: Comparison
    left_out: Comparison | None
    as_group: bool

    @property
    def ways(self) -> tuple[tuple[Way, Comparison], ...]:
        """The measured ways."""
        left: tuple[tuple[Way, Comparison], ...] = (
            (("left out", self.left_out),) if self.left_out else ()
        )
        return (("alone", self.alone), *left)


def rulings(arms: Sequence[Arm]) -> tuple[Verdict, ...]:
    """Judge every embedding on every data set, in the order of the arms.

    Args:
        arms: one arm a subset and data set, of one problem and one hyperparameter point: `none`,
            the singles, and, for the second way, all six and those without one.

    Raises:
        RequestError: a subset stands twice, or `none` or a single is missing.
    """
    found: list[Verdict] = []
    for dataset in dict.fromkeys(arm.dataset for arm in arms):
        own = [arm for arm in arms if arm.dataset == dataset]
        by_subset = {arm.subset: arm for arm in own if arm.seeds}
        wanted = ["none", *(label([name]) for name in EMBEDDINGS)]
        missing = [name for name in wanted if name not in by_subset]
        if missing or len({arm.subset for arm in own}) < len(own):
            raise RequestError(
                f"verdicts need each of {', '.join(wanted)} once on {dataset}, got "
                f"{', '.join(arm.name for arm in own) or 'nothing'}; launch the study until they "
                "are complete, with one value for every factor"
            )
        found += _ruled(dataset, by_subset)
    return tuple(found)


def planted_ruling(verdict: Verdict, planted: Embedding | None) -> bool:
    """Tell whether a verdict is the one that was planted.

    What was planted is found and nothing else is; a substitute of it may be found with it.
    """
    if verdict.embedding == planted:
        return verdict.ruling == "found"
    together = verdict.as_group and planted in SUBSTITUTES
    return verdict.ruling == "nothing" or (together and verdict.ruling == "found")


def _ruled(dataset: str, arms: Mapping[str, Arm]) -> Iterable[Verdict]:
    pool = pooled(list(arms.values())) if _poolable(arms.values()) else None

    def gain(first: str, second: str) -> Comparison | None:
        if first not in arms or second not in arms:
            return None
        with_it, without = paired(arms[first], arms[second])
        error = pool.error(len(with_it)) if pool else None
        return compare(with_it, without, seed_error=error)

    alone = {name: gain(label([name]), "none") for name in EMBEDDINGS}
    everything = label(EMBEDDINGS)
    left_out = {
        name: gain(everything, label(e for e in EMBEDDINGS if e != name)) for name in EMBEDDINGS
    }
    both = gain(everything, label(e for e in EMBEDDINGS if e not in SUBSTITUTES))
    grouped = both is not None and all(_low(alone[name]) > WORTH for name in SUBSTITUTES)
    if grouped:
        left_out |= dict.fromkeys(SUBSTITUTES, both)
    helps = [
        name
        for name in EMBEDDINGS
        if _low(alone[name]) > WORTH and (left_out[name] is None or _low(left_out[name]) > WORTH)
    ]
    for name in EMBEDDINGS:
        ways = [(alone, alone[name]), (left_out, left_out[name])]
        ruling: Ruling = "undecided"
        if name in helps:
            ruling = "found"
        elif all(
            measured.interval.high < _limit(of, helps)
            for of, measured in ways
            if measured is not None
        ):
            ruling = "nothing"
        grouped_here = grouped and name in SUBSTITUTES
        single = alone[name]
        assert single is not None  # its arms are there: `verdicts` has looked
        yield Verdict(dataset, name, ruling, single, left_out[name], grouped_here)


def _low(comparison: Comparison | None) -> float:
    """Return the lower bound; one seed supports no claim about others, so it has none."""
    if comparison is None or comparison.reason:
        return float("-inf")
    return comparison.interval.low


def _limit(
    gains: Mapping[Embedding, Comparison | None],
    helps: Sequence[Embedding],
) -> float:
    """Return what an embedding without effect must stay below, measured one way."""
    means = [found.mean for name in helps if (found := gains[name]) is not None]
    return max(means) / 2 if means else NOTHING


def _poolable(arms: Iterable[Arm]) -> bool:
    seeds = [set(arm.seeds) for arm in arms]
    return len(set.intersection(*seeds)) >= 2
