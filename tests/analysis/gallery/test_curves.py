import numpy as np
import pandas as pd
import pytest

from analysis.gallery.curves import curves_data, draw, figures
from analysis.material import NotDrawn
from tests.analysis.hand_made import ALL_SUBSETS, report_source, study


def rows(trial, values, metric="ndcg@10"):
    return [
        {"trial": trial, "epoch": epoch, "metric": metric, "value": value}
        for epoch, value in enumerate(values, start=1)
    ]


def data_of(points, curves):
    material = report_source(*study(points), curves=pd.DataFrame(curves))
    (group,) = material.groups(())
    return curves_data(group, material.curves, factors=material.factors)


def test_a_line_is_the_mean_over_seeds_and_ends_with_the_first_seed_that_ended():
    data = data_of(
        [{"embeddings": "Pos", "seed": seed, "trial": f"{seed}" * 16} for seed in (0, 1)],
        rows("0" * 16, [0.1, 0.2, 0.3]) + rows("1" * 16, [0.3, 0.4]),
    )
    (curve,) = data.curves["ndcg@10"]
    assert curve.mean == pytest.approx([(0.1 + 0.3) / 2, (0.2 + 0.4) / 2])
    assert curve.low == pytest.approx([0.1, 0.2])
    assert curve.high == pytest.approx([0.3, 0.4])
    assert curve.n_seeds == 2
    assert data.curves["loss"] == ()
    assert "bands reach from the lowest to the highest seed" in " ".join(data.notes)


def test_over_a_grid_each_subset_is_shown_at_its_best_point_by_validation():
    points = [
        {"embeddings": "Pos", "hidden": hidden, "trial": str(hidden) * 8, "value": value}
        for hidden, value in ((16, 0.2), (32, 0.4))
    ]
    data = data_of(points, rows("16" * 8, [0.1]) + rows("32" * 8, [0.3]))
    (curve,) = data.curves["ndcg@10"]
    assert (curve.point, curve.mean.tolist()) == ("hidden 32", [0.3])
    assert "mode: tuned" in " ".join(data.notes)


def test_one_seed_has_no_band_and_says_so():
    data = data_of([{"embeddings": "Pos", "trial": "a" * 16}], rows("a" * 16, [0.1, 0.2]))
    assert "One seed: no band" in " ".join(data.notes)
    assert [trace for trace in draw(data).data if trace.fill == "toself"] == []


def test_of_many_subsets_six_are_named_and_the_others_are_grey():
    points = [
        {"embeddings": subset, "trial": f"{place:016d}", "value": 0.2 + place / 1000}
        for place, subset in enumerate(ALL_SUBSETS)
    ]
    curves = [row for point in points for row in rows(point["trial"], [0.1, point["value"]])]
    data = data_of(points, curves)
    # ALL_SUBSETS ends with all six, which is best here; none is the lowest, then the singles.
    assert len(data.named) == 6
    assert data.named[0] == "Day+Pos+Con+Sin+Exp+Log"
    assert data.named[-1] == "none"
    assert {"Log", "Exp"} < set(data.named)
    figure = draw(data)
    assert [trace.name for trace in figure.data if trace.name] == list(data.named)
    (grey,) = [trace for trace in figure.data if trace.line.color == "#c9ced4"]
    assert np.isnan(np.asarray(grey.y, dtype=float)).sum() == 64 - 6
    assert data.notes[-1] == "Grey: the other subsets."


def test_without_epochs_no_figure_is_drawn_and_the_reason_is_given():
    results, cells = study([{"embeddings": "Pos", "class": "pending"}])
    with pytest.raises(NotDrawn, match="no complete trial has epochs"):
        figures(report_source(results, cells))
