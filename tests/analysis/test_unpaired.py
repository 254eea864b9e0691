import numpy as np
import pytest
from scipy import stats

from analysis.unpaired import compare_unpaired
from model.errors import RequestError


def test_where_only_seeds_differ_it_is_welchs_test_of_the_seeds():
    first, second = np.array([0.31, 0.35, 0.30, 0.33]), np.array([0.28, 0.30, 0.24])
    found = compare_unpaired(np.tile(first[:, None], (1, 5)), np.tile(second[:, None], (1, 5)))
    expected = stats.ttest_ind(first, second, equal_var=False)
    assert found.t == pytest.approx(expected.statistic)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-4)
    low, high = expected.confidence_interval(0.95)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), rel=1e-4)
    assert found.components.error.seed_df == pytest.approx(expected.df)


def test_where_only_users_differ_it_is_the_paired_test_of_users():
    generator = np.random.default_rng(0)
    user, gain = generator.random(60), generator.normal(0.02, 0.1, 60)
    found = compare_unpaired(np.tile(user + gain, (3, 1)), np.tile(user, (2, 1)))
    expected = stats.ttest_1samp(gain, 0.0)
    assert found.t == pytest.approx(expected.statistic)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-4)
    assert found.improved == (gain > 0).mean()


def test_the_order_of_seeds_changes_nothing():
    generator = np.random.default_rng(1)
    first, second = generator.random((4, 50)), generator.random((4, 50))
    assert compare_unpaired(first, second[::-1]).p == pytest.approx(
        compare_unpaired(first, second).p
    )


@pytest.mark.parametrize("seed_sd", [0.0, 0.03])
def test_equal_arms_are_called_different_about_as_often_as_the_test_says(seed_sd):
    generator = np.random.default_rng(2)
    user = generator.normal(0.3, 0.2, (1, 80))
    p = [
        compare_unpaired(
            *(
                user
                + seed_sd * generator.standard_normal((4, 1))
                + generator.normal(0, 0.1, (4, 80))
                for _ in range(2)
            )
        ).p
        for _ in range(250)
    ]
    assert np.mean(np.array(p) < 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 250)
    assert min(p) < 0.1


def test_other_users_or_too_few_seeds_are_refused():
    values = np.ones((2, 3))
    with pytest.raises(RequestError, match="the same two users or more"):
        compare_unpaired(values, np.ones((2, 4)))
    with pytest.raises(RequestError, match="at least 2 seeds each, got 1 and 2"):
        compare_unpaired(values[:1], values)
