import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.gallery.cost import cost_data, draw, pareto_front
from tests.analysis.hand_made import report_source, study

points = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12)


@given(points)
def test_a_point_is_on_the_front_exactly_if_no_cheaper_one_is_as_good(chosen):
    costs, values = [cost for cost, _ in chosen], [value for _, value in chosen]
    front = {chosen[place] for place in pareto_front(costs, values)}
    beaten = {
        (cost, value)
        for cost, value in chosen
        if any(c <= cost and v >= value and (c, v) != (cost, value) for c, v in chosen)
    }
    assert front == set(chosen) - beaten


def test_arms_are_means_over_seeds_with_a_front_for_each_cost():
    results, cells = study(
        [
            {"embeddings": subset, "seed": seed, "value": value}
            for subset, value in (("Pos", 0.2), ("Log", 0.4))
            for seed in (0, 1)
        ]
    )
    results["seconds"] = [10.0, 30.0, 50.0, 50.0]
    results["n_parameters"] = [100, 100, 90, 90]
    material = report_source(results, cells)
    (group,) = material.groups(())
    data = cost_data(group, factors=material.factors)
    seconds, parameters = data.fronts
    assert {arm.name: arm.cost for arm in seconds.arms} == {"Pos": (10 + 30) / 2, "Log": 50}
    assert [seconds.arms[place].name for place in seconds.front] == ["Pos", "Log"]
    assert [parameters.arms[place].name for place in parameters.front] == ["Log"]
    # A digit beside the axis would read as one more of its tick labels.
    assert "Front by seconds: A Pos; B Log." in data.notes
    assert "Front by parameters: C Log." in data.notes
    written = [t.text for t in draw(data).data if t.mode == "text"]
    assert [[text[3] for text in texts] for texts in written] == [["A", "B"], ["C"]]
    assert "no mode: no hyperparameter point is chosen or averaged" in " ".join(data.notes)


def test_a_long_front_names_its_ends_and_largest_steps():
    results, cells = study(
        [{"embeddings": "Pos", "hidden": h, "value": 0.1 + 0.01 * h} for h in range(20)]
    )
    results["seconds"] = [float(10 + h) for h in range(20)]
    material = report_source(results, cells)
    (group,) = material.groups(())
    front = cost_data(group, factors=material.factors).fronts[0]
    assert len(front.front) == 20
    assert len(front.named) == 6
    assert (front.named[0], front.named[-1]) == (front.front[0], front.front[-1])


def test_nothing_complete_has_no_front():
    material = report_source(*study([{"embeddings": "Pos", "class": "pending"}]))
    (group,) = material.groups(())
    assert cost_data(group, factors=[]) is None
    assert pareto_front([2.0], [1.0]) == pytest.approx((0,))
