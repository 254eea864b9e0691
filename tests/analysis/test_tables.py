import math
import statistics

import pandas as pd
import pytest

from analysis.tables import (
    FACTORS,
    PROBLEM_FACTORS,
    SELECTION,
    arm_table,
    arms,
    level,
    measure,
    measured_cells,
    metric_columns,
    score,
    separated,
    swept,
)
from model.config import EvaluationConfig
from model.errors import RequestError
from model.results import SELECTED_BY
from tests.analysis.hand_made import METRICS, full_study, study


def arms_of(results, cells):
    return arms(measured_cells(results, cells), swept(cells))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("test_ndcg@10", ("test", "popular-100", "ndcg@10", "NDCG@10")),
        ("validation_full_recall@5", ("validation", "full", "recall@5", "Recall@5")),
        ("test_full_mrr", ("test", "full", "mrr", "MRR")),
    ],
)
def test_a_metric_column_says_split_protocol_and_metric(column, expected):
    read = measure(column)
    assert (read.split, read.protocol, read.metric, read.title) == expected


def test_a_metric_without_a_split_is_refused():
    with pytest.raises(RequestError, match="got 'ndcg@10'; write for example test_ndcg@10"):
        measure("ndcg@10")


def test_the_columns_of_the_view_that_hold_metrics_are_found():
    results, _ = full_study()
    assert metric_columns(results) == METRICS
    assert len(METRICS) == 2 * 2 * 5


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.25, ".250"), (1.0, "1.000"), (0.0, ".000"), (0.0006, ".001"), (math.nan, "–")],
)
def test_scores_are_written_with_three_digits_and_no_zero_before_the_point(value, text):
    assert score(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (64, "64"),
        (1e-5, "1e-05"),
        (0.0, "0"),
        ("per-embedding", "per-embedding"),
        (None, "–"),
        (math.nan, "–"),
        (pd.NA, "–"),
    ],
)
def test_levels_of_factors_are_written_plainly(value, text):
    assert level(value) == text


def test_an_arm_averages_its_seeds_and_states_their_spread():
    results, cells = study(
        [
            {"embeddings": "Pos", "seed": seed, "value": value}
            for seed, value in enumerate([0.20, 0.22, 0.27])
        ]
    )
    (arm,) = arms_of(results, cells).to_dict("records")
    assert (arm["seeds"], arm["declared"]) == (3, 3)
    assert arm["test_ndcg@10"] == pytest.approx((0.20 + 0.22 + 0.27) / 3)
    assert arm["test_ndcg@10 sd"] == pytest.approx(statistics.stdev([0.20, 0.22, 0.27]))
    assert arm["n_parameters"] == 181_000


def test_one_seed_has_no_spread():
    results, cells = study([{"embeddings": "Pos", "value": 0.25}])
    table = arms_of(results, cells)
    assert math.isnan(table.loc[0, "test_ndcg@10 sd"])
    printed = arm_table(table, protocol="popular-100", factors=[])
    assert printed.rows[0][printed.heading.index("test NDCG@10")] == ".250"


@pytest.mark.parametrize("state", ["failed", "pending", "running", "censored"])
def test_only_complete_trials_give_values_and_the_others_are_counted(state):
    results, cells = study(
        [
            {"embeddings": "Pos", "seed": 0, "value": 0.2},
            {"embeddings": "Pos", "seed": 1, "class": state, "reason": "why"},
        ]
    )
    # Poison: a censored trial has numbers in the store, and they must not be read.
    results.loc[results["state"] == state, "test_ndcg@10"] = 0.9
    table = arms_of(results, cells)
    assert table.loc[0, "test_ndcg@10"] == pytest.approx(0.2)
    printed = arm_table(table, protocol="popular-100", factors=[])
    assert printed.rows[0][printed.heading.index("seeds")] == "1 of 2"


def test_arms_are_ordered_by_validation_even_where_test_disagrees():
    results, cells = study(
        [{"embeddings": "Pos", "value": 0.3}, {"embeddings": "Day", "value": 0.2}]
    )
    results["validation_ndcg@10"] = [0.1, 0.4]
    assert list(arms_of(results, cells)["embeddings"]) == ["Day", "Pos"]


def test_arms_without_a_value_come_last():
    results, cells = study(
        [{"embeddings": "Pos", "class": "pending"}, {"embeddings": "Day", "value": 0.2}]
    )
    table = arms_of(results, cells)
    assert list(table["embeddings"]) == ["Day", "Pos"]
    assert list(table["seeds"]) == [1, 0]


def test_a_duplicate_cell_has_the_value_of_the_trial_that_it_repeats_but_no_row_of_its_own():
    results, cells = study(
        [
            {"embeddings": "Pos", "heads": "1", "value": 0.2, "trial": "a" * 16},
            {
                "embeddings": "Pos",
                "heads": "per-embedding",
                "class": "duplicate",
                "reason": "repeats heads=1",
                "trial": "a" * 16,
            },
        ]
    )
    joined = measured_cells(results, cells)
    assert list(joined["counted"]) == [True, True]
    assert list(joined["test_ndcg@10"]) == [0.2, 0.2]
    assert list(arms_of(results, cells)["heads"]) == ["1"]


@pytest.mark.parametrize("state", ["failed", "running", "pending", "censored"])
def test_a_duplicate_shares_the_fate_of_its_trial(state):
    results, cells = study(
        [
            {"embeddings": "Pos", "class": state, "trial": "a" * 16},
            {"embeddings": "Pos", "heads": "1", "class": "duplicate", "trial": "a" * 16},
        ]
    )
    joined = measured_cells(results, cells)
    assert list(joined["outcome"]) == [state, state]
    assert not joined["counted"].any()


def test_heads_stay_as_they_were_declared():
    results, cells = study([{"embeddings": "Pos", "heads": "per-embedding"}])
    assert list(results["heads"]) == [6]
    assert list(measured_cells(results, cells)["heads"]) == ["per-embedding"]


def test_results_of_two_preparations_are_never_put_together():
    results, cells = study([{"embeddings": "Pos"}, {"embeddings": "Day"}])
    results["fingerprint"] = ["a" * 64, "b" * 64]
    with pytest.raises(RequestError, match="several fingerprints of ml-100k"):
        arms_of(results, cells)


def test_a_trial_that_two_studies_share_counts_once():
    results, cells = study([{"embeddings": "Pos", "value": 0.2}])
    twice = pd.concat([results, results.assign(study="another")], ignore_index=True)
    assert list(arms_of(twice, cells)["declared"]) == [1]


def test_the_protocols_never_share_a_table():
    results, cells = full_study()
    table = arms_of(results, cells)
    sampled = arm_table(table, protocol="popular-100", factors=[])
    full = arm_table(table, protocol="full", factors=[])
    place = sampled.heading.index("test NDCG@10")
    assert sampled.heading == full.heading
    # By hand, `full` is 0.3 of the sampled metric: no column of one is found in the other.
    assert [row[0] for row in sampled.rows] == [row[0] for row in full.rows]
    assert all(a[place] != b[place] for a, b in zip(sampled.rows[:60], full.rows[:60], strict=True))


def test_the_largest_mean_of_a_column_is_marked():
    results, cells = study(
        [{"embeddings": "Pos", "value": 0.3}, {"embeddings": "Day", "value": 0.2}]
    )
    results["validation_ndcg@10"] = [0.1, 0.4]
    printed = arm_table(arms_of(results, cells), protocol="popular-100", factors=[])
    validation, test = (
        printed.heading.index(name) for name in ("validation NDCG@10", "test NDCG@10")
    )
    assert {(0, validation), (1, test)} <= printed.best
    assert (0, test) not in printed.best
    assert printed.rows_between(1, 2).best >= {(0, test)}


def test_swept_factors_get_a_column_and_others_do_not():
    results, cells = study(
        [{"embeddings": "Pos", "hidden": hidden, "lr": 1e-3} for hidden in (16, 32)]
    )
    assert swept(cells) == ["hidden"]
    printed = arm_table(arms_of(results, cells), protocol="popular-100", factors=["hidden"])
    assert printed.heading[:3] == ("subset", "hidden", "seeds")
    assert [row[1] for row in printed.rows] == ["16", "32"]


def test_every_factor_of_a_trial_is_known():
    assert len(FACTORS) == 30
    assert {"hidden", "heads", "tau", "target_time", "patience", "lr", "precision"} <= set(FACTORS)
    assert not {"seed", "embeddings", "name"} & set(FACTORS)


def test_the_metric_that_chooses_epochs_orders_arms():
    assert f"validation_{SELECTED_BY}" == SELECTION == "validation_ndcg@10"


def test_cells_are_separated_by_data_set_and_level_in_declared_order():
    results, cells = study(
        [
            {"embeddings": "Log", "dataset": name, "repeats": level}
            for name in ("ml-1m", "game")
            for level in ("excluded", "allowed")
        ]
    )
    found = list(separated(measured_cells(results, cells), ["repeats"]))
    assert [group.title for group in found] == [
        "ml-1m, repeats excluded", "ml-1m, repeats allowed",
        "game, repeats excluded", "game, repeats allowed",
    ]  # fmt: skip
    assert [len(group.cells) for group in found] == [1, 1, 1, 1]


def test_a_duplicate_stands_for_its_trial_where_the_trials_own_cell_is_in_another_group():
    # Pos reads no target's time: at `last` its cells repeat the trial at `actual`, twice here.
    results, cells = study(
        [
            {"embeddings": "Pos", "target_time": "actual", "tau": 1.0, "value": 0.2, "trial": "a"},
            {"embeddings": "Pos", "target_time": "actual", "tau": 9.0, "class": "duplicate",
             "trial": "a"},
            {"embeddings": "Pos", "target_time": "last", "tau": 1.0, "class": "duplicate",
             "trial": "a"},
            {"embeddings": "Pos", "target_time": "last", "tau": 9.0, "class": "duplicate",
             "trial": "a"},
            {"embeddings": "Log", "target_time": "last", "tau": 9.0, "value": 0.1},
        ]
    )  # fmt: skip
    groups = separated(measured_cells(results, cells), ["target_time"])
    actual, last = (arms(group.cells, ["tau"]) for group in groups)
    assert actual[["embeddings", "tau", "test_ndcg@10"]].to_numpy().tolist() == [["Pos", 1.0, 0.2]]
    assert last[["embeddings", "tau", "test_ndcg@10"]].to_numpy().tolist() == [
        ["Pos", 1.0, 0.2], ["Log", 9.0, 0.1],
    ]  # fmt: skip
    assert last["seeds"].tolist() == [1, 1]


def test_what_poses_another_problem_is_the_evaluation_section():
    assert tuple(EvaluationConfig.model_fields) == PROBLEM_FACTORS
    assert len(PROBLEM_FACTORS) == 3
