import numpy as np
import pytest

from analysis.importance import importance
from analysis.tables import measure, measured_cells
from model.errors import RequestError
from tests.analysis.hand_made import ALL_SUBSETS, study

COLUMN = measure("test_ndcg@10")


def measured(points):
    return measured_cells(*study(points))


def found(points, seed=0):
    return importance(measured(points), COLUMN, np.random.default_rng(seed))


def grid(value):
    return [
        {"embeddings": subset, "hidden": hidden, "value": value(subset, hidden)}
        for subset in ("none", "Day", "Pos", "Day+Pos")
        for hidden in (16, 32)
    ]


def test_shares_are_the_variances_of_an_additive_metric():
    data = found(grid(lambda subset, hidden: 0.1 + 0.2 * ("Pos" in subset) + hidden / 320))
    shares = {one.factor: one for one in data.factors}
    # Two levels each, gains .2 (Pos), .05 (hidden) and 0 (Day): 16 : 1 : 0.
    assert list(shares) == ["pos", "hidden", "day"]
    assert shares["pos"].share == pytest.approx(16 / 17, abs=0.06)
    assert shares["hidden"].share == pytest.approx(1 / 17, abs=0.05)
    assert shares["day"].share == pytest.approx(0, abs=0.02)
    assert data.together == pytest.approx(0, abs=0.05)
    assert shares["pos"].spread > 0


def test_what_two_factors_do_only_together_is_no_factors_share():
    data = found(grid(lambda subset, hidden: 0.1 + 0.1 * (("Pos" in subset) == (hidden == 32))))
    assert sum(one.share for one in data.factors) + data.together == pytest.approx(1)
    assert data.together > 0.5


def test_a_factor_that_is_not_swept_is_none_though_some_subsets_do_not_read_it():
    cells = measured(grid(lambda subset, _: 0.1 + 0.2 * ("Pos" in subset)))
    cells["tau"] = np.where(cells["embeddings"].str.contains("Pos"), 1.0, np.nan)
    data = importance(cells, COLUMN, np.random.default_rng(0))
    assert {one.factor for one in data.factors} == {"day", "pos", "hidden"}
    assert data.factors[0].factor == "pos"


def test_a_swept_factor_takes_no_share_of_what_decides_whether_it_is_read():
    cells = measured(grid(lambda subset, _: 0.1 + 0.2 * ("Pos" in subset)))
    reads = cells["embeddings"].str.contains("Pos")
    cells["tau"] = np.where(reads, np.where(cells["hidden"] == 16, 1.0, 60.0), np.nan)
    shares = {
        one.factor: one.share for one in importance(cells, COLUMN, np.random.default_rng(0)).factors
    }
    assert shares["tau"] == pytest.approx(0, abs=0.02)
    assert shares["pos"] > 0.95


def test_the_generator_decides_the_forests():
    points = [
        {"embeddings": subset, "value": 0.2 + 0.01 * len(subset) + 0.02 * ("Log" in subset)}
        for subset in ALL_SUBSETS[:16]
    ]
    first = found(points)
    assert first == found(points) != found(points, seed=1)
    assert first.used == 16
    assert next(one.factor for one in first.factors) == "log"


def test_rows_that_are_not_used_are_counted_with_the_reason():
    points = grid(lambda subset, hidden: 0.1 + 0.2 * ("Pos" in subset) + hidden / 320)
    points += [
        {"embeddings": "Log", "class": "failed", "reason": "oom"},
        {"embeddings": "Sin", "class": "failed", "reason": "diverged: nan"},
        {"embeddings": "Exp", "class": "censored", "reason": "stopped by asha"},
        {"embeddings": "Con", "hidden": 7, "class": "infeasible", "reason": "odd"},
        {"embeddings": "none", "hidden": 16, "class": "duplicate", "trial": f"{0:016x}"},
    ]
    data = found(points)
    assert (data.used, data.declared) == (8, 13)
    assert dict(data.unused) == {
        "failed": 2,
        "censored": 1,
        "infeasible": 1,
        "repeating another trial": 1,
    }
    assert data.used + sum(count for _, count in data.unused) == data.declared
    assert data.coverage.startswith("8 trials of 13 declared cells; not used: ")
    assert "2 failed" in data.coverage


def test_too_few_rows_or_nothing_that_varies_is_refused():
    with pytest.raises(RequestError, match="got 4 of 4 declared cells"):
        found(grid(lambda *_: 0.2)[:4])
    with pytest.raises(RequestError, match="1 values of test_ndcg@10"):
        found(grid(lambda *_: 0.2))


def test_a_factor_searched_over_a_range_is_a_number():
    points = [
        {"embeddings": "Pos", "dropout": 0.01 * step, "value": 0.1 + 0.002 * step**2}
        for step in range(20)
    ]
    data = found(points)
    assert [one.factor for one in data.factors] == ["dropout"]
    assert data.factors[0].share == pytest.approx(1)


def test_optuna_still_speaks_as_before():
    import optuna

    before = optuna.logging.get_verbosity()
    found(grid(lambda subset, hidden: 0.1 + 0.2 * ("Pos" in subset) + hidden / 320))
    assert optuna.logging.get_verbosity() == before
