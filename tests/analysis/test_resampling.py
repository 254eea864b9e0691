import itertools

import numpy as np
import pytest
from scipy import stats

from analysis.resampling import crossed_bootstrap, resample, sign_flip, wilcoxon
from model.errors import RequestError

TABLE = np.random.default_rng(0).normal(0.02, 0.2, (6, 90))


def test_the_crossed_bootstrap_is_the_plain_double_loop():
    drawn = resample(np.random.default_rng(1), seeds=3, users=4, repeats=20)
    values = np.random.default_rng(2).random((3, 4))
    means = drawn.means(values)
    for seed_counts, user_counts, mean in zip(drawn.seeds, drawn.users, means, strict=True):
        total = sum(
            seed_counts[s] * user_counts[u] * values[s, u]
            for s, u in itertools.product(range(3), range(4))
        )
        assert mean == pytest.approx(total / 12)
        assert (seed_counts.sum(), user_counts.sum()) == (3, 4)


def test_one_resample_is_shared_by_all_arms():
    drawn = resample(np.random.default_rng(3), seeds=6, users=90, repeats=50)
    both = drawn.means(np.stack([TABLE, TABLE + 0.1]))
    assert both.shape == (50, 2)
    assert both[:, 1] - both[:, 0] == pytest.approx(np.full(50, 0.1))


def test_the_bootstrap_says_what_varies_and_follows_its_generator():
    first = crossed_bootstrap(TABLE, np.random.default_rng(4))
    again = crossed_bootstrap(TABLE, np.random.default_rng(4))
    other = crossed_bootstrap(TABLE, np.random.default_rng(5))
    assert first == again != other
    assert first.varies == "users and seeds"
    assert first.low < TABLE.mean() < first.high


def test_too_few_seeds_to_resample_are_refused():
    with pytest.raises(RequestError, match="at least 5 of them, got 3"):
        crossed_bootstrap(TABLE[:3], np.random.default_rng(0))


def test_sign_flips_agree_with_scipys_exact_permutation_test():
    gains = np.array([0.3, 0.1, -0.05, 0.2, 0.4, 0.15, -0.1, 0.25])
    found = sign_flip(gains[None, :], np.random.default_rng(0))
    expected = stats.permutation_test(
        (gains, np.zeros(8)), lambda a, b, axis: (a - b).mean(axis), permutation_type="samples",
        vectorized=True,
    )  # fmt: skip
    assert found.p == pytest.approx(expected.pvalue)
    assert found.smallest_p == 2 / 2**8
    assert found.varies == "users"


def test_many_users_are_flipped_at_random_and_the_observed_pattern_counts():
    shifted = np.random.default_rng(7).normal(1.0, 0.1, (2, 60))
    found = sign_flip(shifted, np.random.default_rng(0), repeats=999)
    assert found.p == found.smallest_p == 1 / 1000


def test_flips_of_three_seeds_can_never_give_less_than_a_quarter():
    found = sign_flip(np.ones((3, 5)), np.random.default_rng(0), varies="seeds")
    assert found.p == found.smallest_p == 0.25
    assert found.varies == "seeds"
    with pytest.raises(RequestError, match="users or seeds"):
        sign_flip(TABLE, np.random.default_rng(0), varies="users and seeds")


def test_the_signed_rank_test_carries_its_warning():
    zeros = np.concatenate([np.zeros(60), TABLE[0, :40]])[None, :]
    found = wilcoxon(zeros)
    assert found.p == pytest.approx(stats.wilcoxon(TABLE[0, :40]).pvalue)
    assert "not the mean" in found.warning
    assert "60% of users are zeros" in found.warning
    assert wilcoxon(np.zeros((2, 4))).p == 1
