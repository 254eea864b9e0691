import math

import pytest

from analysis.gallery.grid import draw, figures, grid_data
from analysis.material import NotDrawn
from tests.analysis.hand_made import report_source, study


def data_of(points):
    material = report_source(*study(points))
    (group,) = material.groups(())
    return grid_data(group, factors=material.factors)


def point(subset="Pos", hidden=16, dropout=0.2, value=0.2, **more):
    return {"embeddings": subset, "hidden": hidden, "dropout": dropout, "value": value, **more}


def test_a_cell_is_the_mean_over_seeds_then_subsets():
    data = data_of(
        [
            point(hidden=16, value=0.1),
            point(hidden=16, value=0.3, seed=1),
            point("Log", hidden=16, value=0.4),
            point("Log", hidden=16, value=0.4, seed=1),
            *(point(subset, hidden=32, value=0.5) for subset in ("Pos", "Log")),
            *(point(subset, hidden=hidden, dropout=0.5, value=0.6)
              for subset in ("Pos", "Log") for hidden in (16, 32)),
        ]
    )  # fmt: skip
    (panel,) = data.panels
    assert (panel.down, panel.across) == ("hidden", "dropout")
    assert (panel.rows, panel.columns) == (("16", "32"), ("0.2", "0.5"))
    assert panel.values[0][0] == pytest.approx(((0.1 + 0.3) / 2 + 0.4) / 2)
    assert panel.values[1] == pytest.approx((0.5, 0.6))


def test_only_subsets_with_a_value_everywhere_enter():
    everywhere = [point(hidden=h, dropout=d) for h in (16, 32) for d in (0.2, 0.5)]
    data = data_of([*everywhere, point("Log", value=0.9)])
    (panel,) = data.panels
    assert panel.n_subsets == 1
    assert panel.values[0][0] == pytest.approx(0.2)
    assert "Only subsets with a value in every cell of a panel enter: 1." in data.notes


def test_every_declared_level_is_shown_and_a_gap_says_why():
    data = data_of(
        [
            point(hidden=8),
            point(hidden=16),
            point(hidden=8, dropout=0.5),
            point(hidden=16, dropout=0.5, **{"class": "failed", "reason": "oom"}),
        ]
    )
    (panel,) = data.panels
    assert panel.rows == ("8", "16")  # in the order of numbers, not of text
    assert math.isnan(panel.values[1][1])
    assert (panel.states[1][1], panel.reasons[1][1]) == ("failed", "1 failed; oom")
    names = [trace.name for trace in draw(data).select_traces({"fill": "toself"})]
    assert names == ["failed (1)"]


def test_words_come_after_numbers_and_every_pair_has_a_panel():
    data = data_of(
        [
            point(hidden=hidden, dropout=dropout, heads=heads)
            for hidden in (16, 32)
            for dropout in (0.2, 0.5)
            for heads in ("per-embedding", "12", "6")
        ]
    )
    assert [(panel.down, panel.across) for panel in data.panels] == [
        ("hidden", "heads"), ("hidden", "dropout"), ("heads", "dropout"),
    ]  # fmt: skip
    assert data.panels[0].columns == ("6", "12", "per-embedding")
    axis = draw(data).layout.xaxis
    assert list(axis.tickvals) == [0, 1, 2]


def test_one_swept_factor_is_no_grid():
    with pytest.raises(NotDrawn, match="at least two swept hyperparameters"):
        figures(report_source(*study([point(hidden=h) for h in (16, 32)])))
