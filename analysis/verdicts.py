"""A study's subsets compared: the family, what was assumed, and what its seeds can settle."""

from typing import NamedTuple

import numpy as np
from sqlalchemy import Engine

from analysis import modes
from analysis.captions import candidates
from analysis.families import Family, Pooled, against, all_pairs, pooled
from analysis.material import Material
from analysis.modes import Compared, Mode
from analysis.per_user import Arm, arms_of, per_user
from analysis.power import Reach, reach, separated_by_chance, t_needed_sentence
from analysis.statistics import MIN_SEEDS
from analysis.tables import PROBLEM_FACTORS, SELECTION, Group, Measure, measure
from model.errors import RequestError

MATRIX_ARMS = 20
"""Arms up to which every pair is compared; beyond, each with one reference."""


class Verdicts(NamedTuple):
    """The comparisons of one group of cells.

    Attributes:
        title: data set and problem.
        measure: metric compared.
        compared: the arms and the mode that made them comparable.
        reference: subset that others are compared with; empty where every pair is.
        family: the comparisons.
        reach: of each comparison with a claim, what its seeds can settle.
        notes: sentences: mode, family, pooling, what the seeds can settle, what is refused.
    """

    title: str
    measure: Measure
    compared: Compared
    reference: str
    family: Family
    reach: tuple[Reach | None, ...]
    notes: tuple[str, ...]


def verdicts(
    engine: Engine,
    material: Material,
    *,
    column: Measure,
    mode: Mode,
    reference: str | None,
    pool_seeds: bool,
    generator: np.random.Generator,
) -> tuple[Verdicts, ...]:
    """Compare a study's subsets, each group of comparable cells on its own.

    Args:
        engine: of the store, for the values per user.
        material: the study's rows.
        column: metric to compare; test is read at what validation chose.
        mode: how subsets are made comparable over the grid.
        reference: subset to compare with; default: every pair where there are at most
            `MATRIX_ARMS` arms, else `none`, else the subset that validation names best.
        pool_seeds: estimate the seeds' error over all arms instead of each pair's own.
        generator: draws the users that show how much choosing flatters.

    Raises:
        RequestError: no such reference, or no subsets that can be compared.
    """
    shown = per_user(engine, material.study, column)
    selecting = per_user(engine, material.study, measure(SELECTION))
    factors = [name for name in material.factors if name not in PROBLEM_FACTORS]
    found = []
    for group in material.groups(PROBLEM_FACTORS):
        validation = arms_of(group.cells, selecting, factors, repeats=True)
        test = arms_of(group.cells, shown, factors, repeats=True)
        compared = _compared(mode, validation, test, generator)
        found.append(_verdicts(group, column, compared, reference, pool_seeds=pool_seeds))
    if not any(one.family.pairs for one in found):
        subsets = {choice.subset: None for one in found for choice in one.compared.choices}
        raise RequestError(
            f"subsets are compared where at least two have complete trials, {material.study} has "
            f"{', '.join(subsets) or 'none'}; use --kind models, main or hyperparameters"
        )
    return tuple(found)


def _compared(
    mode: Mode,
    validation: tuple[Arm, ...],
    test: tuple[Arm, ...],
    generator: np.random.Generator,
) -> Compared:
    match mode:
        case "same":
            return modes.same(validation, test)
        case "tuned":
            return modes.tuned(validation, test, generator)
        case "marginal":
            return modes.marginal(validation, test)


def _verdicts(
    group: Group,
    column: Measure,
    compared: Compared,
    reference: str | None,
    *,
    pool_seeds: bool,
) -> Verdicts:
    by_subset = {choice.subset: choice.arm for choice in compared.choices}
    if reference is not None and reference not in by_subset:
        raise RequestError(
            f"--reference is a subset with complete trials, got {reference}; "
            f"use one of {', '.join(by_subset)}"
        )
    if reference is None and len(by_subset) > MATRIX_ARMS:
        reference = "none" if "none" in by_subset else compared.best
    pool = pooled(compared.arms) if pool_seeds else None
    family = (
        all_pairs(compared.arms, pool=pool)
        if reference is None
        else against(by_subset[reference], compared.arms, pool=pool)
    )
    found = tuple(
        reach(pair.comparison.components, family=family.size)
        if pair.comparison is not None and not pair.reason
        else None
        for pair in family.pairs
    )
    notes = _notes(group, column, compared, family, pool)
    return Verdicts(group.title, column, compared, reference or "", family, found, notes)


def _notes(
    group: Group, column: Measure, compared: Compared, family: Family, pool: Pooled | None
) -> tuple[str, ...]:
    seeds = max((len(arm.seeds) for arm in compared.arms), default=0)
    sentences = [
        f"{column.split.capitalize()} {column.title}, {candidates(column.protocol, group.cells)}.",
        compared.sentence,
        "Paired by user and seed; intervals and p let users and seeds vary (variance components, "
        "docs/statistics.md); 'higher for' is the share of user-seed pairs, ties half; 'effect' is "
        "the mean over the users' standard deviation.",
        f"Holm over the {family.size} comparisons shown. {family.pooling}",
    ]
    if compared.left_out:
        sentences.append(f"Without a complete trial: {', '.join(compared.left_out)}.")
    if any(pair.comparison is not None and pair.seeds == 0 for pair in family.pairs):
        sentences.append("Seeds 0: the arms share no seed; users are paired, seeds are not.")
    refused = sorted({pair.reason for pair in family.pairs if pair.reason})
    sentences += [f"No claim: {reason}." for reason in refused]
    if family.size and pool is None:
        sentences.append(t_needed_sentence(seeds=seeds, family=family.size))
        if seeds in range(MIN_SEEDS, 5):
            sentences.append(
                f"All {seeds} seeds of one arm lie above all of an equal one in 1 of "
                f"{separated_by_chance(seeds)} cases: that the seeds separate proves nothing."
            )
    return tuple(sentences)
