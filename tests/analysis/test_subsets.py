import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.coverage import CLASSES
from analysis.gallery.subsets import COLUMNS, METRICS, NEVER_AVERAGED, ROWS
from analysis.style import HATCHES
from analysis.tables import FACTORS
from study.space import label
from tests.analysis.hand_made import (
    ALL_SUBSETS,
    figures_of,
    full_study,
    only_panel,
    panels_of_study,
    study,
)


def panel(points, *, metric="test_ndcg@10"):
    return only_panel(*study(points), metric=metric)


def cell_of(data, subset):
    return next(cell for row in data.cells for cell in row if cell.subset == subset)


def notes(data):
    return " ".join(data.notes)


def test_rows_are_absolute_and_columns_relative_subsets_and_together_all_64():
    assert [label(row) for row in ROWS] == [
        "none", "Pos", "Con", "Pos+Con", "Day", "Day+Pos", "Day+Con", "Day+Pos+Con",
    ]  # fmt: skip
    assert [label(column) for column in COLUMNS] == [
        "none", "Sin", "Exp", "Log", "Sin+Exp", "Sin+Log", "Exp+Log", "Sin+Exp+Log",
    ]  # fmt: skip
    shown = [cell.subset for row in panel([{"embeddings": "Pos"}]).cells for cell in row]
    assert sorted(shown) == sorted(ALL_SUBSETS)
    assert len(set(shown)) == 64


def test_a_cell_is_the_mean_over_its_seeds():
    data = panel(
        [{"embeddings": "Day+Log", "seed": s, "value": v} for s, v in enumerate([0.2, 0.3])]
    )
    cell = cell_of(data, "Day+Log")
    assert cell.value == pytest.approx((0.2 + 0.3) / 2)
    assert (cell.text, cell.state, cell.reasons) == (".250", "complete", ())
    assert data.cells[4][3] == cell


def test_over_a_grid_each_point_counts_once_however_many_of_its_seeds_are_done():
    data = panel(
        [
            {"embeddings": "Pos", "hidden": 16, "seed": 0, "value": 0.1},
            {"embeddings": "Pos", "hidden": 16, "seed": 1, "value": 0.3},
            {"embeddings": "Pos", "hidden": 32, "seed": 0, "value": 0.4},
            {"embeddings": "Pos", "hidden": 32, "seed": 1, "class": "pending"},
        ]
    )
    cell = cell_of(data, "Pos")
    assert cell.value == pytest.approx(((0.1 + 0.3) / 2 + 0.4) / 2)
    assert (cell.state, cell.text) == ("partial", ".300<br>3/4")
    assert (
        "Mode marginal: mean over the grid: 2 hyperparameter points, each the mean over 2 seeds"
        in notes(data)
    )
    assert "hidden 16, 32" in notes(data)
    assert "n/N in a cell" in notes(data)


def test_a_grid_with_one_seed_says_so():
    data = panel([{"embeddings": "Pos", "hidden": hidden} for hidden in (16, 32, 64)])
    assert "Mode marginal: mean over the grid: 3 hyperparameter points, one seed each" in notes(
        data
    )


def test_an_infeasible_cell_is_hatched_with_its_rule():
    data = panel(
        [
            {"embeddings": "Pos"},
            {"embeddings": "Day+Pos+Sin", "class": "infeasible", "reason": "3 embeddings, 2 heads"},
        ]
    )
    cell = cell_of(data, "Day+Pos+Sin")
    assert math.isnan(cell.value)
    assert (cell.state, cell.text) == ("infeasible", "")
    assert cell.reasons == ("infeasible: 3 embeddings, 2 heads",)
    assert data.coverage == "1 of 2 cells (1 complete, 1 infeasible)"


def test_a_subset_that_the_study_does_not_declare_says_so_and_does_not_count():
    data = panel([{"embeddings": "Pos"}])
    assert cell_of(data, "none").state == "undeclared"
    assert cell_of(data, "none").reasons == ("not declared by this study",)
    assert data.coverage == "1 of 1 cells"


@pytest.mark.parametrize("state", ["failed", "running", "pending", "censored"])
def test_a_cell_without_a_result_says_why(state):
    data = panel(
        [{"embeddings": "Pos", "seed": s, "class": state, "reason": "because"} for s in (0, 1)]
    )
    cell = cell_of(data, "Pos")
    assert cell.state == state
    assert cell.reasons == (f"2 x {HATCHES[state].label}: because",)
    assert (data.n_counted, data.n_declared) == (0, 2)


def test_of_several_reasons_the_most_pressing_is_shown_and_all_are_told():
    data = panel(
        [
            {"embeddings": "Pos", "seed": 0, "class": "pending"},
            {"embeddings": "Pos", "seed": 1, "class": "failed", "reason": "oom: 80 GB"},
        ]
    )
    cell = cell_of(data, "Pos")
    assert cell.state == "failed"
    assert set(cell.reasons) == {"pending", "failed: oom: 80 GB"}


def test_a_duplicate_counts_with_the_value_of_its_trial():
    data = panel(
        [
            {"embeddings": "Pos", "tau": 1.0, "value": 0.2, "trial": "a" * 16},
            {"embeddings": "Pos", "tau": 60.0, "class": "duplicate", "trial": "a" * 16},
        ]
    )
    assert cell_of(data, "Pos").value == pytest.approx(0.2)
    assert data.coverage == "2 of 2 cells (1 complete, 1 duplicate)"


def test_a_metric_that_was_not_stored_is_told_from_a_trial_that_is_missing():
    results, cells = study([{"embeddings": "Pos"}, {"embeddings": "Day"}])
    results.loc[0, "test_recall@10"] = math.nan
    data = only_panel(results, cells, metric="test_recall@10")
    assert cell_of(data, "Pos").state == "unmeasured"
    assert data.coverage == "1 of 2 cells (2 complete)"


def test_the_whole_study_by_hand_has_121_of_128_cells():
    data = only_panel(*full_study())
    # Failed: Day+Sin twice and Con+Exp+Log once; two pending; two censored.
    assert (data.n_counted, data.n_declared) == (128 - 3 - 2 - 2, 128)
    assert Counter(cell.state for row in data.cells for cell in row) == {
        "complete": 60, "partial": 1, "failed": 1, "pending": 1, "censored": 1,
    }  # fmt: skip
    assert data.coverage == "121 of 128 cells (121 complete, 2 pending, 3 failed, 2 censored)"


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(ALL_SUBSETS), st.integers(0, 2), st.sampled_from(sorted(CLASSES))
        ),
        min_size=1,
        max_size=12,
        unique_by=lambda cell: cell[:2],
    )
)
def test_every_declared_cell_is_counted_once_whatever_became_of_it(declared):
    data = panel([{"embeddings": e, "seed": s, "class": c} for e, s, c in declared])
    assert sum(count for _, count in data.classes) == data.n_declared == len(declared)
    assert sum(cell.declared for row in data.cells for cell in row) == len(declared)
    assert data.n_counted == sum(c == "complete" for _, _, c in declared)


@pytest.mark.parametrize(
    ("factor", "levels"),
    [
        ("heads", ["6", "per-embedding"]),
        ("target_time", ["actual", "last"]),
        ("repeats", ["excluded", "allowed"]),
        ("protocol", ["popular-100", "uniform-100"]),
        ("model", ["meantime", "sasrec"]),
    ],
)
def test_levels_that_answer_different_questions_get_panels_of_their_own(factor, levels):
    results, cells = study([{"embeddings": "Log", factor: value} for value in levels])
    found = panels_of_study(results, cells, metrics=["test_ndcg@10"])
    assert [data.held for data in found] == [((factor, value),) for value in levels]
    assert [data.n_declared for data in found] == [1, 1]
    assert found[1].title == f"Test NDCG@10 on ml-100k, {factor.replace('_', ' ')} {levels[1]}"
    assert len({data.name for data in found}) == 2


def test_what_is_never_averaged_is_a_factor():
    assert len(NEVER_AVERAGED) == 5
    assert set(NEVER_AVERAGED) <= set(FACTORS)


def test_each_data_set_and_metric_has_a_panel():
    results, cells = study([{"embeddings": "Pos", "dataset": name} for name in ("ml-100k", "game")])
    found = panels_of_study(results, cells)
    assert [(data.dataset, data.measure.column) for data in found] == [
        (name, metric) for name in ("ml-100k", "game") for metric in METRICS
    ]
    assert len(METRICS) == 3


def test_a_metric_that_no_trial_has_is_left_out_but_an_unfinished_study_is_still_drawn():
    results, cells = study([{"embeddings": "Pos"}])
    results["test_full_ndcg@10"] = math.nan
    drawn = figures_of(results, cells, "subsets")
    assert [figure.title for figure in drawn] == [
        "Test NDCG@10 on ml-100k", "Test Recall@10 on ml-100k",
    ]  # fmt: skip
    results, cells = study([{"embeddings": "Pos", "class": "pending"}])
    (only,) = figures_of(results, cells, "subsets")
    assert only.caption[0] == "0 of 1 cells (1 pending)."


def test_the_caption_states_protocol_epoch_seeds_setting_and_target_time():
    text = notes(panel([{"embeddings": "Log", "seed": s} for s in (0, 1, 2)]))
    assert "NDCG@10, test, read at the best validation epoch" in text
    assert "protocol popular-100 (up to 100 negatives per user, by popularity)" in text
    assert "Mode same: mean over 3 seeds; hidden 48; heads 6; dropout 0.2; weight decay 0" in text
    assert "† sees the target's time, which is an input of the problem; the outlined" in text


def test_one_seed_is_not_called_a_mean():
    assert "Mode same: one seed, no mean" in notes(panel([{"embeddings": "Log"}]))


def test_the_full_protocol_is_named():
    text = notes(panel([{"embeddings": "Log"}], metric="test_full_ndcg@10"))
    assert "protocol full (all items except those the user already had)" in text


def test_a_study_at_the_last_known_time_says_so():
    text = notes(panel([{"embeddings": "Log", "target_time": "last"}]))
    assert "(here replaced by the time of the last known interaction)" in text


def test_one_head_per_embedding_is_called_confounded():
    assert "subsets differ in capacity" in notes(
        panel([{"embeddings": "Log", "heads": "per-embedding"}])
    )
    assert "capacity" not in notes(panel([{"embeddings": "Log", "heads": "6"}]))


def test_only_four_subsets_are_blind_to_the_targets_time_and_they_share_a_corner():
    data = panel([{"embeddings": "Pos"}])
    blind = [
        (i, j) for i, row in enumerate(data.cells) for j, cell in enumerate(row) if not cell.timed
    ]
    assert blind == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_every_class_without_a_value_has_a_hatch():
    assert set(CLASSES) - {"complete", "duplicate"} <= set(HATCHES)
    assert len({hatch.shape + hatch.colour for hatch in HATCHES.values()}) == len(HATCHES) == 7


def test_a_problem_that_ranks_all_items_has_one_panel_for_each_metric():
    points = [{"embeddings": "Log", "protocol": "full"}]
    metrics = ("test_ndcg@10", "test_full_ndcg@10")
    (shown,) = panels_of_study(*study(points), metrics=metrics)
    assert shown.measure.column == "test_ndcg@10"
    assert "protocol full" in notes(shown)
    assert len(panels_of_study(*study([{"embeddings": "Log"}]), metrics=metrics)) == 2
