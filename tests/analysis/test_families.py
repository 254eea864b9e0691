import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from analysis.families import OWN_SEEDS, against, all_pairs, pooled
from analysis.per_user import Arm
from analysis.statistics import TOO_FEW_SEEDS, compare
from analysis.unpaired import compare_unpaired
from model.errors import RequestError


def made(generator, subsets, *, seeds=3, users=200, seed_sd=0.005):
    """Arms with a common seed effect, an own one, and users that they share."""
    user = generator.normal(0.2, 0.1, users)
    common = generator.normal(0, 0.05, (seeds, 1))
    return [
        Arm(
            "ml-100k",
            subset,
            (),
            tuple(range(seeds)),
            user
            + common
            + shift
            + generator.normal(0, seed_sd, (seeds, 1))
            + generator.normal(0, 0.05, (seeds, users)),
            seeds,
        )
        for subset, shift in subsets.items()
    ]


SUBSETS = {"none": 0.0, "Day": 0.0, "Pos": 0.09, "Log": 0.05}


def test_each_arm_is_compared_with_the_reference_and_holm_counts_those_shown():
    none, *others = made(np.random.default_rng(0), SUBSETS)
    family = against(none, [none, *others])
    assert [pair.first for pair in family.pairs] == ["Day", "Pos", "Log"]
    assert {pair.second for pair in family.pairs} == {"none"}
    assert family.size == 3
    p = [pair.comparison.p for pair in family.pairs]
    assert p == [compare(arm.values, none.values).p for arm in others]
    assert [pair.adjusted for pair in family.pairs] == pytest.approx(
        multipletests(p, method="holm")[1]
    )
    assert family.pooling == OWN_SEEDS


def test_all_pairs_of_four_arms_are_six():
    family = all_pairs(made(np.random.default_rng(1), SUBSETS))
    assert family.size == len(family.pairs) == 6
    assert ("Pos", "Log") in {(pair.first, pair.second) for pair in family.pairs}


def test_a_single_seed_claims_nothing_and_does_not_count():
    one, two, *_ = made(np.random.default_rng(2), SUBSETS, seeds=1)
    family = against(one, [two])
    assert (family.size, family.pairs[0].reason) == (0, TOO_FEW_SEEDS)
    assert math.isnan(family.pairs[0].adjusted)


def test_arms_without_a_common_seed_are_compared_without_pairing_seeds():
    first, second, third, _ = made(np.random.default_rng(3), SUBSETS)
    family = against(first, [second._replace(seeds=(7, 8, 9)), third])
    expected = compare_unpaired(second.values, first.values)
    assert (family.pairs[0].seeds, family.pairs[0].comparison) == (0, expected)
    assert family.size == 2


def test_one_seed_each_and_none_in_common_stays_in_the_family_with_the_reason():
    first, second, third, _ = made(np.random.default_rng(3), SUBSETS)
    other = second._replace(seeds=(7,), values=second.values[:1])
    family = against(first, [other, third])
    assert family.pairs[0].comparison is None
    assert family.pairs[0].reason == "no seed in common: 1 and 3 are complete"
    assert family.size == 1
    assert family.pairs[1].adjusted == family.pairs[1].comparison.p


def test_pooling_is_the_two_way_analysis_of_arms_and_seeds():
    arms = made(np.random.default_rng(4), SUBSETS, seeds=2)
    means = np.array([arm.values.mean(axis=1) for arm in arms])
    differences = means[:, 0] - means[:, 1]
    pool = pooled(arms)
    # With two seeds the interaction's mean square is half the variance of their differences.
    assert pool.variance == pytest.approx(np.var(differences, ddof=1) / 2)
    assert (pool.df, pool.seeds, pool.arms) == (3, 2, 4)
    assert pool.error(2) == (pytest.approx(pool.variance), 3)


def test_what_a_seed_does_to_all_arms_is_not_their_error():
    calm = pooled(made(np.random.default_rng(5), SUBSETS, seed_sd=0.0))
    # Seeds move all arms by .05, each arm's own rest is .05 / sqrt(200 users).
    assert math.sqrt(calm.variance) == pytest.approx(0.05 / math.sqrt(200), rel=0.5)


def test_pooled_comparisons_say_what_they_assume():
    arms = made(np.random.default_rng(6), SUBSETS, seeds=2)
    family = against(arms[0], arms[1:], pool=pooled(arms))
    assert "pooled over 4 arms (3 degrees of freedom)" in family.pooling
    assert "assumes that seeds move all arms equally far" in family.pooling
    assert {pair.comparison.components.error.seed_df for pair in family.pairs} == {3}


def test_bartletts_test_is_scipys():
    arms = made(np.random.default_rng(7), SUBSETS, seeds=4)
    means = np.array([arm.values.mean(axis=1) for arm in arms])
    expected = stats.bartlett(*(means - means.mean(axis=0))).pvalue
    assert pooled(arms).bartlett == pytest.approx(expected)


def test_pooling_needs_arms_and_seeds():
    arms = made(np.random.default_rng(8), SUBSETS, seeds=1)
    with pytest.raises(RequestError, match="got 4 arms with 1"):
        pooled(arms)
