import numpy as np
import pytest
from scipy import integrate, stats

from analysis.error_distribution import TwoPartError, distance_at, two_sided


def convolved(distance, error):
    """The same probability by adaptive integration of scipy's density and tail."""
    wide, narrow = np.sqrt(error.seed_part), np.sqrt(error.user_part)

    def tail(z):
        beyond = stats.t.sf((distance - narrow * z) / wide, error.seed_df)
        return stats.t.pdf(z, error.user_df) * beyond

    places = [min(distance / narrow, 59.0)]
    found, _ = integrate.quad(tail, -60, 60, points=places, limit=2000, epsabs=1e-13, epsrel=1e-9)
    return 2 * found


@pytest.mark.parametrize("seed_part", [1e-4, 0.1, 1.0, 10.0, 1000.0])
@pytest.mark.parametrize("seed_df", [1, 2, 9])
def test_tails_agree_with_adaptive_integration(seed_part, seed_df):
    error = TwoPartError(seed_part, seed_df, 1.0, 299)
    for distance in (0.5, 2.0, 5.0, 30.0):
        expected = convolved(distance, error)
        if expected > 1e-6:
            assert float(two_sided(distance, error)) == pytest.approx(expected, rel=1e-3)


def test_few_users_have_heavy_tails_too():
    error = TwoPartError(0.5, 2, 1.0, 3)
    assert float(two_sided(4.0, error)) == pytest.approx(convolved(4.0, error), rel=1e-3)


@pytest.mark.parametrize("df", [1, 2, 4, 60])
def test_without_one_part_it_is_student_t(df):
    for error in (TwoPartError(4.0, df, 0.0, 7), TwoPartError(0.0, 7, 4.0, df)):
        assert float(two_sided(6.0, error)) == pytest.approx(2 * stats.t.sf(3.0, df), rel=1e-3)
        assert float(distance_at(0.05, error)) == pytest.approx(
            2 * stats.t.isf(0.025, df), rel=1e-4
        )


def test_with_many_degrees_of_freedom_it_is_normal():
    error = TwoPartError(0.36, 1e6, 0.64, 1e6)
    assert float(distance_at(0.05, error)) == pytest.approx(1.95996, rel=1e-4)


def test_a_distance_is_exceeded_with_the_probability_asked_for():
    error = TwoPartError(np.array([0.0, 0.2, 3.0]), 2.0, np.array([1.0, 1.0, 0.5]), 942.0)
    for probability in (0.2, 0.05, 0.05 / 62):
        reached = two_sided(distance_at(probability, error), error)
        assert reached == pytest.approx(np.full(3, probability), rel=1e-4)


def test_no_error_at_all_leaves_no_distance():
    nothing = TwoPartError(0.0, 1.0, 0.0, 9.0)
    assert float(distance_at(0.05, nothing)) == 0
    assert two_sided(np.array([0.0, 0.1]), nothing).tolist() == [1.0, 0.0]


def test_satterthwaites_df_matches_the_two_moments():
    # (1 + 3)^2 / (1 / 2 + 9 / 100) = 16 / .59
    assert TwoPartError(1.0, 2, 3.0, 100).satterthwaite_df == pytest.approx(16 / 0.59)
