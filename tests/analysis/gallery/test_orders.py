import pytest

from analysis.gallery.orders import draw, figures
from analysis.gallery.time_unit import draw as draw_time_unit
from analysis.gallery.time_unit import time_unit_data
from analysis.material import NotDrawn
from tests.analysis.hand_made import ALL_SUBSETS, report_source, study


def orders_of(points):
    from analysis.gallery.orders import orders_data

    material = report_source(*study(points))
    return orders_data(list(material.groups(())), factors=material.factors)


def test_subsets_are_ordered_by_their_mean_rank_over_data_sets():
    values = {"a": {"Pos": 0.3, "Log": 0.2, "Day": 0.1}, "b": {"Pos": 0.2, "Log": 0.3, "Day": 0.1}}
    data = orders_of(
        [
            {"dataset": name, "embeddings": subset, "value": value}
            for name, own in values.items()
            for subset, value in own.items()
        ]
    )
    assert data.subsets == ("Pos", "Log", "Day")
    assert data.ranks == ((1, 2, 3), (2, 1, 3))
    (one,) = data.pairs
    assert one.kendall == pytest.approx((2 - 1) / 3)


def test_a_subset_without_a_value_somewhere_is_left_out_and_counted():
    points = [
        {"dataset": name, "embeddings": subset, "value": 0.1 + place / 100}
        for name in ("a", "b")
        for place, subset in enumerate(("Pos", "Log", "Day"))
    ]
    points[-1] |= {"class": "failed", "reason": "oom"}
    data = orders_of(points)
    assert data.subsets == ("Log", "Pos")
    assert "1 subsets without a value on every data set are left out." in data.notes


def test_sixty_four_subsets_are_columns_of_dots_without_labels():
    data = orders_of(
        [
            {"dataset": name, "embeddings": subset, "value": 0.1 + place / 100}
            for name in ("a", "b")
            for place, subset in enumerate(ALL_SUBSETS)
        ]
    )
    figure = draw(data)
    (dots,) = figure.select_traces({"type": "scatter", "mode": "markers"})
    assert len(dots.x) == 6 * 32  # each embedding is in half of the subsets
    assert figure.layout.xaxis2.showticklabels is False
    assert list(figure.layout.yaxis2.ticktext) == ["Day†", "Pos", "Con", "Sin†", "Exp†", "Log†"]


def test_one_data_set_has_nothing_to_agree_with():
    with pytest.raises(NotDrawn, match="two data sets"):
        figures(report_source(*study([{"embeddings": "Pos"}, {"embeddings": "Log"}])))


def test_the_subset_that_tau_moves_most_comes_first_and_others_stand_as_a_line():
    points = [
        {"embeddings": subset, "tau": tau, "value": value, "trial": f"{subset}{tau}"}
        for subset, values in (("Log", (0.3, 0.31)), ("Sin", (0.3, 0.2)), ("Pos", (0.25, 0.25)))
        for tau, value in zip((1.0, 86400.0), values, strict=True)
    ]
    material = report_source(*study(points))
    (group,) = material.groups(())
    data = time_unit_data(group, factors=material.factors)
    assert [line.subset for line in data.lines] == ["Sin", "Log"]
    assert data.lines[0].reach == pytest.approx(0.1)
    assert data.unaffected == pytest.approx(0.25)
    assert "Most sensitive: Sin, whose means differ by .100." in " ".join(data.notes)
    assert list(draw_time_unit(data).layout.xaxis.ticktext) == ["1 s", "1 day"]
