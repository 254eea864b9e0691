import math

import numpy as np
import pytest

from analysis.gallery import contributions, differences, ranking, shares, user_groups
from analysis.gallery.board import board, boards, uncertainty
from analysis.material import NotDrawn
from analysis.traits import UserTraits
from analysis.traits import user_groups as groups_of
from tests.analysis.hand_made import ALL_SUBSETS, full_study, plausible, report_source, study

SOME = ("none", "Pos", "Log", "Pos+Log")


def board_of(points, **changes):
    material = report_source(*study(points), **changes)
    (group,) = material.groups(())
    return board(group, material)


def some(*, seeds=(0, 1, 2), subsets=SOME):
    return [
        {"embeddings": subset, "seed": seed, "value": plausible(subset, seed)}
        for subset in subsets
        for seed in seeds
    ]


@pytest.fixture(scope="module")
def whole():
    """64 subsets, 2 seeds, nothing missing, one seeds' error for all."""
    return report_source(*full_study(gaps=False), pool_seeds=True)


def test_the_ranking_orders_by_test_and_names_the_best_by_validation():
    material = report_source(*study(some()))
    # Validation prefers Log, test Pos+Log.
    better = {
        trial: values + 0.5
        for trial, values in material.validation.items()
        if trial in set(material.cells.loc[material.cells["embeddings"] == "Log", "trial"])
    }
    of = board_of(some(), validation={**material.validation, **better})
    data = ranking.ranking_data(of)
    assert [one.subset for one in data.ranked] == ["Pos+Log", "Pos", "Log", "none"]
    assert data.best == "Log"
    assert data.family == 3
    assert "Pos+Log has a larger test mean, which was not known when choosing." in data.notes
    best = next(one for one in data.ranked if one.subset == "Log")
    assert best.low == best.high == best.mean


def test_sixty_four_arms_are_readable_columns_of_dots(whole):
    (figure,) = ranking.figures(whole)
    dots = [t for t in figure.page.data if t.mode == "markers" and t.yaxis == "y2"]
    assert len(dots[0].x) == 6 * 32
    assert figure.page.layout.xaxis.showticklabels is False
    drawn = sum(len(t.x) for t in figure.page.data if t.mode == "markers" and t.yaxis != "y2")
    assert drawn == 64


def test_with_one_seed_no_difference_is_claimed_and_the_reason_is_said():
    of = board_of(some(seeds=(0,)))
    data = ranking.ranking_data(of)
    assert not any(one.apart for one in data.ranked)
    text = " ".join(data.notes)
    assert "No difference is tested." in text
    assert "One seed: intervals let users vary alone" in text


def test_two_seeds_say_how_large_a_t_holm_asks_for():
    (sentence, needed) = uncertainty(board_of(some(seeds=(0, 1))), family=3)
    assert "The seeds' error is each pair's own." in sentence
    assert "|t|" in needed


def test_differences_are_paired_with_none_and_marked_by_holm(whole):
    (of,) = boards(whole)
    data = differences.differences_data(of)
    cells = {cell.subset: cell for row in data.cells for cell in row}
    assert data.reference == "none"
    assert data.family == 63
    # `plausible`: Pos adds .09, Day+Con .01 - .004.
    assert cells["Pos"].value == pytest.approx(0.09)
    assert cells["Day+Con"].value == pytest.approx(0.01 - 0.004)
    assert cells["Pos"].low < 0.09 < cells["Pos"].high
    assert cells["Pos"].significant
    assert cells["none"].reason == "reference"
    texts = next(t for t in differences.draw(data).data if t.type == "scatter" and t.mode == "text")
    assert "+90*" in texts.text
    assert "ref." in texts.text


def test_a_subset_that_cannot_be_compared_is_hatched_with_its_reason():
    points = some()
    for point in points:
        if point["embeddings"] == "Log":
            point |= {"class": "failed", "reason": "oom"}
    data = differences.differences_data(board_of(points))
    cells = {cell.subset: cell for row in data.cells for cell in row}
    assert math.isnan(cells["Log"].value)
    assert (cells["Log"].state, cells["Log"].reason) == ("failed", "failed")
    assert cells["Day"].reason == "not declared"
    names = [t.name for t in differences.draw(data).select_traces({"fill": "toself"})]
    assert names == ["failed (1)", "not declared (60)"]


def test_bars_are_shapley_values_with_their_interval_and_the_control_is_named(whole):
    (of,) = boards(whole)
    data = contributions.contributions_data(of)
    values = {one.members[0]: one.value for one in data.found.of("shapley")}
    # `plausible` adds Pos .09, Log .05, Exp .03, Day .01; a `+` costs .004 and the first
    # embedding has none, so that each pays .004 * 5 / 6 by symmetry.
    for name, gain in {
        "pos": 0.09,
        "log": 0.05,
        "exp": 0.03,
        "day": 0.01,
        "con": 0,
        "sin": 0,
    }.items():
        assert values[name] == pytest.approx(gain - 0.004 * 5 / 6)
    figure = contributions.draw_bars(data)
    (bars,) = figure.select_traces({"type": "bar"})
    assert bars.y == pytest.approx([values[name] for name in data.found.players])
    assert "Con<br>control" in figure.layout.xaxis.ticktext[2]
    assert "different from zero" in " ".join(data.notes).lower()


def test_interactions_stand_below_the_diagonal(whole):
    (figure,) = contributions.pair_figures(whole)
    (text,) = figure.page.select_traces({"mode": "text"})
    assert len(text.text) == 15
    assert list(figure.page.layout.xaxis.ticktext) == ["Day†", "Pos", "Con", "Sin†", "Exp†"]


def test_without_all_subsets_the_contributions_say_what_they_need():
    material = report_source(*study(some()))
    with pytest.raises(NotDrawn, match="needs all 64 subsets, none included"):
        contributions.bar_figures(material)


def test_groups_of_users_split_by_history_span_and_the_targets_time():
    traits = UserTraits(
        history=np.arange(90),
        span=np.arange(90) * 86_400,
        same_time=np.arange(90) % 2 == 0,
    )
    found = groups_of(traits)
    # Thirds of 0..89 end at 29.67 and 59.33.
    assert [(group.trait, int(group.members.sum())) for group in found] == [
        ("history", 30), ("history", 30), ("history", 30),
        ("time span", 30), ("time span", 30), ("time span", 30),
        ("target's time", 45), ("target's time", 45),
    ]  # fmt: skip
    assert found[0].label == "up to 29.7 events"
    assert [group.trait for group in groups_of(traits, fewest=31)] == ["target's time"] * 2


def test_an_effect_is_told_among_the_users_of_each_group(whole):
    early = np.arange(40) < 20
    traits = UserTraits(history=np.arange(40), span=np.arange(40), same_time=early)
    # Only early users gain from Pos, twice as much as all gain on average.
    chosen = dict(zip(whole.cells["trial"], whole.cells["embeddings"], strict=True))
    values = {
        trial: own + (0.09 if "Pos" in chosen[trial] else 0) * np.where(early, 1, -1)
        for trial, own in whole.values.items()
    }
    (of,) = boards(report_source(*full_study(gaps=False), values=values))
    data = user_groups.user_groups_data(of, traits)
    pos = {group.label: group.effects[1] for group in data.groups}
    assert pos["same as the event before"].value == pytest.approx(0.18 - 0.004 * 5 / 6)
    assert pos["later"].value == pytest.approx(-0.004 * 5 / 6)
    assert {group.trait for group in data.groups} == {"target's time"}  # thirds are too small
    figure = user_groups.draw(data)
    assert len(figure.data) == 2


def test_without_the_data_the_groups_say_where_they_should_be(whole):
    with pytest.raises(NotDrawn, match="must be stored here; fetch it"):
        user_groups.figures(whole)


def test_importance_says_its_rows_and_why_others_are_missing():
    points = [
        {"embeddings": subset, "hidden": hidden, "value": plausible(subset) + hidden / 1000}
        for subset in ALL_SUBSETS[:10]
        for hidden in (16, 32)
    ]
    points[3] |= {"class": "failed", "reason": "oom"}
    (figure,) = shares.figures(report_source(*study(points)))
    assert figure.caption[0] == "19 trials of 20 declared cells; not used: 1 failed."
    (bars,) = figure.page.select_traces({"type": "bar"})
    assert list(bars.x) == sorted(bars.x, reverse=True)
    assert "hidden" in figure.page.layout.yaxis.ticktext
