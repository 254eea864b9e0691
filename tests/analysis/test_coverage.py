import numpy as np
import pytest

from analysis.statistics import compare
from analysis.unpaired import compare_unpaired
from benchmarks.aa_study import RATE, halves, split_study
from benchmarks.bench_coverage import World, residual_share, setting, simulated, user_standard_error

STUDIES = 250
ARMS = 9


def test_simulated_arms_share_their_users_and_differ_by_nothing_in_truth():
    world, generator = World(), np.random.default_rng(0)
    values = simulated(generator, world, arms=3, seeds=2, users=200_000, seed_sd=0.0)
    means = values.mean(axis=(1, 2))
    assert means == pytest.approx(np.full(3, means[0]), abs=0.003)
    assert np.corrcoef(values[0, 0], values[1, 0])[0, 1] > 0.3
    assert 0.2 < (values == 0).mean() < 0.8
    assert 0.4 < residual_share(world) < 0.8
    # A quarter of the users, twice the standard error.
    assert user_standard_error(world, 100) == pytest.approx(2 * user_standard_error(world, 400))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("ratio", [0.0, 1.5])
def test_intervals_cover_and_holm_keeps_its_rate_at_few_seeds(seeds, ratio):
    found = setting(
        np.random.default_rng([seeds, round(10 * ratio)]),
        World(),
        studies=STUDIES,
        arms=ARMS,
        seeds=seeds,
        users=300,
        ratio=ratio,
        draws=0,
    )
    assert 0.93 <= found["coverage"]["components"] <= 0.99
    # 5% and what 250 studies can be off by: three standard errors.
    bound = RATE + 3 * np.sqrt(RATE * (1 - RATE) / STUDIES)
    assert found["false_positives"]["components"] <= bound
    assert found["false_positives"]["pooled"] <= bound
    if ratio > 0:
        # What is refused as the default: users alone vary, or a seed counts as so many users.
        assert found["coverage"]["users"] < 0.93
        assert found["coverage"]["mixed"] < 0.8


def test_eight_seeds_have_35_halves():
    splits = list(halves(8))
    assert len(splits) == len({tuple(first) for first, _ in splits}) == 35
    assert all(sorted(first + second) == list(range(8)) for first, second in splits)


def test_halves_of_one_arm_share_no_seed_and_are_compared_so_and_in_every_pairing():
    values = np.random.default_rng(3).random((4, 30))
    rows = split_study(values, np.random.default_rng(0))
    assert len(rows) == 3
    assert rows[0]["unpaired"] == compare_unpaired(values[[0, 1]], values[[2, 3]]).p
    expected = [compare(values[[0, 1]], values[order]).p for order in ([2, 3], [3, 2])]
    assert rows[0]["paired"] == pytest.approx(expected)
