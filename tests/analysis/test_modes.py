import numpy as np
import pytest

from analysis.modes import marginal, same, tuned
from analysis.per_user import Arm
from model.errors import RequestError

POINTS = [(("hidden", "16"),), (("hidden", "32"),), (("hidden", "64"),)]


def arms(means, *, users=200, seeds=2, noise=0.0, seed=0):
    """An arm for each subset and point; `means[subset]` lists its points' means, None = missing."""
    generator = np.random.default_rng(seed)
    found = []
    for subset, row in means.items():
        for point, mean in zip(POINTS, row, strict=True):
            values = (mean or 0.0) + noise * generator.standard_normal((seeds, users))
            found.append(
                Arm(
                    "ml-100k",
                    subset,
                    point,
                    () if mean is None else tuple(range(seeds)),
                    np.zeros((0, 0)) if mean is None else values,
                    seeds,
                )
            )
    return found


VALIDATION = arms({"Pos": [0.2, 0.3, 0.1], "Log": [0.3, 0.25, 0.2], "none": [0.1, 0.1, 0.1]})
# Test would choose otherwise everywhere.
TEST = arms({"Pos": [0.5, 0.2, 0.4], "Log": [0.1, 0.3, 0.6], "none": [0.7, 0.8, 0.9]})


def test_tuned_takes_each_subset_at_its_best_point_on_validation_and_shows_test_there():
    found = tuned(VALIDATION, TEST, np.random.default_rng(0))
    chosen = {
        c.subset: (c.point, round(c.validation, 3), round(c.arm.mean, 3)) for c in found.choices
    }
    assert chosen == {
        "Pos": (POINTS[1], 0.3, 0.2),
        "Log": (POINTS[0], 0.3, 0.1),
        "none": (POINTS[0], 0.1, 0.7),
    }
    assert found.points == tuple(POINTS)
    assert "best of the same 3 hyperparameter points, chosen on validation" in found.sentence


@pytest.mark.parametrize(
    "compare",
    [same, marginal, lambda valid, test: tuned(valid, test, np.random.default_rng(0))],
)
def test_the_best_subset_is_named_by_validation_whatever_test_says(compare):
    found = compare(VALIDATION, TEST)
    means = {choice.subset: choice.arm.mean for choice in found.choices}
    assert max(means, key=means.get) == "none"
    assert found.best in ("Pos", "Log")
    poisoned = [arm._replace(values=1 - arm.values) for arm in TEST]
    again = compare(VALIDATION, poisoned)
    assert (again.best, again.points) == (found.best, found.points)
    assert [c.point for c in again.choices] == [c.point for c in found.choices]


def test_only_points_that_every_subset_has_are_open():
    validation = [
        arm if (arm.subset, arm.point) != ("none", POINTS[0]) else arm._replace(seeds=())
        for arm in VALIDATION
    ]
    found = tuned(validation, TEST, np.random.default_rng(0))
    assert found.points == tuple(POINTS[1:])
    assert found.closed == (POINTS[0],)
    assert {c.subset: c.point for c in found.choices}["Log"] == POINTS[1]
    assert "1 further points are left out" in found.sentence


def test_same_is_one_point_the_best_for_all_together_or_the_one_asked_for():
    # Means over subsets: .2, .217, .133.
    found = same(VALIDATION, TEST)
    assert {choice.point for choice in found.choices} == {POINTS[1]}
    assert found.sentence == "All subsets at one hyperparameter point: hidden 32."
    asked = same(VALIDATION, TEST, POINTS[2])
    assert [round(choice.arm.mean, 3) for choice in asked.choices] == [0.4, 0.6, 0.9]
    with pytest.raises(RequestError, match="got hidden 7; choose hidden 16 or hidden 32"):
        same(VALIDATION, TEST, (("hidden", "7"),))


def test_marginal_is_the_mean_over_the_grid_user_by_user():
    found = marginal(VALIDATION, TEST)
    by_subset = {choice.subset: choice for choice in found.choices}
    assert by_subset["Pos"].arm.mean == pytest.approx((0.5 + 0.2 + 0.4) / 3)
    assert by_subset["Pos"].validation == pytest.approx(0.2)
    assert by_subset["Pos"].arm.values.shape == (2, 200)
    assert found.sentence == "Mean over the same 3 hyperparameter points for every subset."


def test_choosing_among_equal_points_flatters_validation_and_is_shown():
    equal = arms({"Pos": [0.2, 0.2, 0.2]}, noise=0.3, users=100)
    found = tuned(equal, equal, np.random.default_rng(1))
    # The best of three equal means over 100 users and two seeds looks better by about .85 of
    # their standard error, .3 / sqrt(200) = .021; bootstrap draws add their own luck.
    assert 0.01 < found.choices[0].optimism < 0.05
    clear = arms({"Pos": [0.9, 0.1, 0.1]}, noise=0.05, users=100)
    settled = tuned(clear, clear, np.random.default_rng(1))
    assert abs(settled.choices[0].optimism) < 0.002


def test_a_subset_without_results_is_left_out_and_named():
    missing = arms({"Sin": [None, None, None]})
    found = same([*VALIDATION, *missing], [*TEST, *missing])
    assert found.left_out == ("Sin",)
    assert len(found.choices) == 3


def test_nothing_in_common_is_refused():
    first = arms({"Pos": [0.2, None, None]})
    second = arms({"Log": [None, 0.2, None]})
    with pytest.raises(RequestError, match="got 2 subsets and 3 points, none in common"):
        same([*first, *second], [*first, *second])


def test_a_missing_seed_is_said():
    validation = [arm._replace(declared=3) for arm in VALIDATION]
    test = [arm._replace(declared=3) for arm in TEST]
    assert "3 of 3 subsets lack a seed" in same(validation, test).sentence
