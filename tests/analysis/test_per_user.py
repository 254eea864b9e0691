import numpy as np
import pytest

from analysis.frames import cells, open_reader, results
from analysis.per_user import Arm, arms_of, paired, per_user, values_of
from analysis.tables import measure, measured_cells
from model import metrics
from model.errors import RequestError
from tests.stored import fill


@pytest.fixture
def engine(tmp_path):
    url = f"sqlite:///{tmp_path / 'results.db'}"
    fill(url, tmp_path)
    return open_reader(url)


def arm(name, seeds, values):
    return Arm("ml-100k", name, (), seeds, np.asarray(values, dtype=float), len(seeds))


def test_values_follow_the_tie_rule_of_the_stored_means():
    greater, equal = np.array([0, 3, 12]), np.array([0, 2, 100])
    assert values_of("recall@5", greater, equal).tolist() == pytest.approx([1, 2 / 3, 0])
    assert values_of("ndcg@20", greater, equal) == pytest.approx(
        metrics.ndcg_at(20, greater, equal=equal)
    )
    assert values_of("mrr", greater, equal)[0] == 1


@pytest.mark.parametrize("metric", ["loss", "ndcg", "ndcg@0", "recall@x", "mrr@5"])
def test_another_metric_has_no_value_per_user(metric):
    with pytest.raises(RequestError, match="ndcg@K, recall@K or mrr, got"):
        values_of(metric, np.array([0]), np.array([0]))


def test_every_complete_trial_has_its_users(engine):
    values = per_user(engine, "small", measure("test_ndcg@10"))
    assert len(values) == 2
    # The store's trials: users 0, 1, 2 with so many items above and seven equal.
    expected = values_of("ndcg@10", np.arange(3), np.full(3, 7))
    for found in values.values():
        assert found == pytest.approx(expected)


def test_an_arm_holds_its_complete_seeds_and_knows_what_is_missing(engine):
    measured = measured_cells(results(engine, "small"), cells(engine, "small"))
    values = per_user(engine, "small", measure("validation_full_recall@10"))
    arms = arms_of(measured, values, ["heads"])
    first = arms[0]
    assert (first.name, first.seeds, first.declared) == ("none, heads 1", (0, 1), 2)
    assert first.values.shape == (2, 3)
    others = {found.seeds for found in arms[1:]}
    assert others == {()}
    assert np.isnan(arms[-1].mean)
    # Of 3 subsets x heads 1 and 2 one is infeasible; per-embedding only repeats trials of these.
    assert [found.name for found in arms[1:]] == [
        "none, heads 2",
        "Pos, heads 1",
        "Pos, heads 2",
        "Pos+Log, heads 2",
    ]


def test_arms_are_paired_on_the_seeds_that_both_have():
    first = arm("Pos", (0, 1, 3), [[0.0], [1.0], [3.0]])
    second = arm("Log", (1, 2, 3), [[10.0], [20.0], [30.0]])
    left, right = paired(first, second)
    assert left.ravel().tolist() == [1, 3]
    assert right.ravel().tolist() == [10, 30]


def test_arms_without_a_common_seed_are_refused():
    with pytest.raises(RequestError, match=r"Pos has \[0\] and Log \[1\]"):
        paired(arm("Pos", (0,), [[0.0]]), arm("Log", (1,), [[0.0]]))


def test_trials_that_a_scheduler_stopped_early_are_kept_out_of_arms_and_counted():
    from tests.analysis.hand_made import study

    results_frame, cells_frame = study(
        [
            {"embeddings": "Pos", "seed": 0},
            {"embeddings": "Pos", "seed": 1, "class": "censored", "reason": "stopped at epoch 4"},
            {"embeddings": "Pos", "seed": 2, "class": "failed", "reason": "oom"},
        ]
    )
    # A censored trial has ranks, too; they belong to a model that was not trained to its end.
    values = {f"{index:016x}": np.full(4, 0.1 * index) for index in range(3)}
    (found,) = arms_of(measured_cells(results_frame, cells_frame), values, [])
    assert (found.seeds, found.declared) == ((0,), 3)
    assert found.mean == 0
