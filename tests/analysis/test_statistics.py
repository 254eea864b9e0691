import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from analysis.statistics import (
    TOO_FEW_SEEDS,
    SeedError,
    compare,
    components,
    holm,
    interval,
)
from model.errors import RequestError

# Seeds x users. Row means .2 and .4, column means .1, .3, .5: no residual, mean .3.
ADDITIVE = np.array([[0.0, 0.2, 0.4], [0.2, 0.4, 0.6]])


def crossed(generator, *, seeds, users, seed_sd=0.0, user_sd=0.2, rest_sd=0.2, mean=0.0):
    return (
        mean
        + seed_sd * generator.standard_normal((seeds, 1))
        + user_sd * generator.standard_normal((1, users))
        + rest_sd * generator.standard_normal((seeds, users))
    )


def test_an_additive_table_is_split_between_seeds_and_users():
    found = components(ADDITIVE)
    assert found.mean == pytest.approx(0.3)
    assert found.residual == pytest.approx(0)
    assert found.between_seeds == pytest.approx(np.var([0.2, 0.4], ddof=1))
    assert found.between_users == pytest.approx(np.var([0.1, 0.3, 0.5], ddof=1))
    assert found.error.seed_part == pytest.approx(np.var([0.2, 0.4], ddof=1) / 2)
    assert found.error.user_part == pytest.approx(np.var([0.1, 0.3, 0.5], ddof=1) / 3)
    assert (found.error.seed_df, found.error.user_df) == (1, 2)


def test_mean_squares_agree_with_plain_loops():
    table = crossed(np.random.default_rng(1), seeds=3, users=5, seed_sd=0.3)
    mean = sum(table[s, u] for s in range(3) for u in range(5)) / 15
    rows = [sum(table[s, u] for u in range(5)) / 5 for s in range(3)]
    columns = [sum(table[s, u] for s in range(3)) / 3 for u in range(5)]
    rest = sum(
        (table[s, u] - rows[s] - columns[u] + mean) ** 2 for s in range(3) for u in range(5)
    ) / (2 * 4)
    by_user = 3 * sum((column - mean) ** 2 for column in columns) / 4
    found = components(table)
    assert found.residual == pytest.approx(rest)
    assert found.between_users == pytest.approx(max(0.0, by_user - rest) / 3)
    assert found.error.seed_part == pytest.approx(sum((row - mean) ** 2 for row in rows) / 2 / 3)


def test_where_only_seeds_differ_it_is_the_paired_t_test_of_seeds():
    gains = np.array([0.01, 0.03, 0.02, 0.05])
    second = np.full((4, 6), 0.2)
    first = second + gains[:, None]
    found = compare(first, second)
    expected = stats.ttest_1samp(gains, 0.0)
    assert found.t == pytest.approx(expected.statistic)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-4)
    low, high = expected.confidence_interval(0.95)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), rel=1e-4)
    assert found.interval.varies == "users and seeds"
    assert found.improved == 1


def test_where_only_users_differ_it_is_the_paired_t_test_of_users():
    gains = np.random.default_rng(2).normal(0.01, 0.1, 80)
    first = np.tile(gains, (3, 1))
    found = compare(first, np.zeros((3, 80)))
    expected = stats.ttest_1samp(gains, 0.0)
    assert found.t == pytest.approx(expected.statistic)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-4)
    assert found.effect == pytest.approx(gains.mean() / gains.std(ddof=1))
    assert found.improved == (gains > 0).mean()


def test_swapping_the_arms_changes_the_sign_and_nothing_else():
    generator = np.random.default_rng(3)
    first = crossed(generator, seeds=3, users=50, mean=0.02)
    second = crossed(generator, seeds=3, users=50)
    there, back = compare(first, second), compare(second, first)
    assert back.mean == pytest.approx(-there.mean)
    assert back.p == pytest.approx(there.p)
    assert back.interval.low == pytest.approx(-there.interval.high)


def test_one_seed_gives_an_interval_over_users_and_no_claim():
    first = np.random.default_rng(4).normal(0.5, 0.1, (1, 40))
    found = compare(first, np.zeros((1, 40)))
    assert found.reason == TOO_FEW_SEEDS
    assert "one seed" in found.reason
    assert math.isnan(found.p)
    assert math.isnan(found.t)
    assert found.interval.varies == "users"
    low, high = stats.ttest_1samp(first[0], 0.0).confidence_interval(0.95)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))


def test_a_seed_error_from_elsewhere_takes_the_place_of_the_pairs_own():
    table = crossed(np.random.default_rng(5), seeds=2, users=100, seed_sd=0.05)
    own = compare(table, np.zeros_like(table))
    pooled = compare(table, np.zeros_like(table), seed_error=SeedError(0.0004, 40.0))
    assert pooled.components.error.seed_part == 0.0004
    assert pooled.components.error.user_part == own.components.error.user_part
    assert pooled.components.error.seed_df == 40


def test_identical_arms_differ_by_nothing_with_p_1():
    values = np.full((2, 5), 0.3)
    found = compare(values, values)
    assert (found.mean, found.t, found.p, found.improved) == (0, 0, 1, 0.5)
    assert (found.interval.low, found.interval.high) == (0, 0)


def test_intervals_over_users_or_seeds_alone_say_so():
    over_seeds = interval(ADDITIVE, varies="seeds")
    low, high = stats.ttest_1samp([0.2, 0.4], 0.0).confidence_interval(0.95)
    assert (over_seeds.low, over_seeds.high) == pytest.approx((low, high))
    assert (over_seeds.varies, interval(ADDITIVE).varies) == ("seeds", "users")
    with pytest.raises(RequestError, match="needs at least two, got 1"):
        interval(ADDITIVE[:1], varies="seeds")


def test_arms_without_common_seeds_and_users_are_refused():
    with pytest.raises(RequestError, match=r"got \(2, 3\) and \(3, 3\)"):
        compare(ADDITIVE, np.zeros((3, 3)))
    with pytest.raises(RequestError, match="at least two users"):
        compare(ADDITIVE[:, :1], ADDITIVE[:, :1])


def test_holm_agrees_with_statsmodels():
    generator = np.random.default_rng(6)
    for size in (1, 2, 17, 62):
        p = generator.random(size) ** 3
        expected = multipletests(p, method="holm")[1]
        assert holm(p) == pytest.approx(expected)


def test_holm_leaves_out_what_claims_nothing():
    adjusted = holm(np.array([0.01, math.nan, 0.04]))
    assert adjusted[0] == pytest.approx(0.02)
    assert math.isnan(adjusted[1])
    assert adjusted[2] == pytest.approx(0.04)
