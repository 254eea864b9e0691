import itertools
import math

import pandas as pd
import pytest

from analysis.gallery.pairs import (
    Pair,
    PairsData,
    agreement,
    draw,
    pair,
    protocols_data,
    target_time_data,
)
from tests.analysis.hand_made import figures_of, report_source, study


def group_of(results, cells):
    material = report_source(results, cells)
    (group,) = material.groups(())
    return group, material.factors


def test_kendalls_tau_is_agreeing_minus_disagreeing_pairs():
    first = pd.Series({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0})
    second = pd.Series({"a": 1.0, "b": 3.0, "c": 2.0, "d": 4.0, "e": 9.0})
    one = pair(first, second, names=("x", "y"), same=False)
    signs = [
        (first[i] - first[j]) * (second[i] - second[j])
        for i, j in itertools.combinations("abcd", 2)
    ]
    assert one.kendall == pytest.approx((sum(s > 0 for s in signs) - sum(s < 0 for s in signs)) / 6)
    assert one.subsets == ("a", "b", "c", "d")
    assert "the same one in about 83% of cases" in agreement(one)  # (4/6 + 1) / 2


def test_two_subsets_have_no_rank_correlation():
    two = pd.Series({"a": 1.0, "b": 2.0})
    one = pair(two, two, names=("x", "y"), same=False)
    assert math.isnan(one.kendall)
    assert agreement(one) == "too few subsets (2) for a rank correlation"


def test_the_protocols_of_the_same_trials_are_compared():
    results, cells = study(
        [{"embeddings": s, "value": v} for s, v in (("Pos", 0.1), ("Log", 0.2), ("Day", 0.3))]
    )
    results["test_full_ndcg@10"] = [0.3, 0.2, 0.1]
    group, factors = group_of(results, cells)
    (one,) = protocols_data(group, factors=factors).pairs
    assert (one.across, one.up, one.kendall) == ("popular-100", "full", -1)
    assert one.x == pytest.approx((0.1, 0.2, 0.3))


def test_axes_name_metric_and_protocol_and_the_caption_says_what_each_protocol_ranks():
    results, cells = study(
        [{"embeddings": s, "value": v} for s, v in (("Pos", 0.1), ("Log", 0.2), ("Day", 0.3))]
    )
    results["test_full_ndcg@10"] = [0.3, 0.2, 0.1]
    group, factors = group_of(results, cells)
    data = protocols_data(group, factors=factors)
    figure = draw(data)
    assert figure.layout.xaxis.title.text == "test NDCG@10, popular-100"
    assert figure.layout.annotations[0].text.startswith("test NDCG@10, full")
    assert (
        "Candidates: popular-100 (up to 100 negatives per user, by popularity); full (all items "
        "except those the user already had)."
    ) in data.notes


def test_a_study_that_sweeps_the_protocol_compares_all_of_them():
    results, cells = study(
        [
            {"embeddings": s, "protocol": p, "value": v}
            for p in ("popular-100", "uniform-100")
            for s, v in (("Pos", 0.1), ("Log", 0.2), ("Day", 0.3))
        ]
    )
    group, factors = group_of(results, cells)
    data = protocols_data(group, factors=[*factors, "protocol"])
    assert [(one.across, one.up) for one in data.pairs] == [
        ("popular-100", "full"), ("popular-100", "uniform-100"), ("full", "uniform-100"),
    ]  # fmt: skip
    assert len(draw(data).layout.annotations) == 3


def test_withholding_the_targets_time_is_said_with_its_range():
    points = [
        {"embeddings": s, "target_time": t, "value": v}
        for s, actual, last in (("Pos", 0.2, 0.2), ("Log", 0.3, 0.25), ("Day", 0.3, 0.28))
        for t, v in (("actual", actual), ("last", last))
    ]
    group, factors = group_of(*study(points))
    data = target_time_data(group, factors=factors)
    (one,) = data.pairs
    assert dict(zip(one.subsets, zip(one.x, one.y, strict=True), strict=True)) == {
        "Pos": (0.2, 0.2), "Log": (0.3, 0.25), "Day": (0.3, 0.28),
    }  # fmt: skip
    # (.25 - .30 + .28 - .30) / 2 = -.035
    assert (
        "changes the mean over the 2 subsets that see it by -0.035 NDCG@10 "
        "(from -0.050 to -0.020)." in " ".join(data.notes)
    )


def test_a_study_of_one_target_time_says_what_the_figure_needs():
    results, cells = study([{"embeddings": "Pos"}])
    material = report_source(results, cells)
    from analysis.figures import draw_all

    drawn = draw_all(material)
    assert "target_time: last" in drawn.not_drawn["target-time"]
    assert {figure.kind for figure in figures_of(results, cells)} == {"subsets", "curves", "cost"}


def test_names_of_near_points_stand_apart():
    near = Pair(
        across="x",
        up="y",
        subsets=("none", "Day", "Log"),
        x=(0.147, 0.148, 0.25),
        y=(0.0474, 0.0471, 0.09),
        kendall=0.3,
        p_value=1.0,
        same_scale=False,
    )
    figure = draw(PairsData(title="t", metric="m", pairs=(near,), notes=()))
    names = next(trace for trace in figure.data if trace.mode == "markers+text")
    found = dict(zip(names.text, names.textposition, strict=True))
    # To their right both would stand on one line.
    assert found == {"none": "top right", "Day": "middle right", "Log": "middle left"}
