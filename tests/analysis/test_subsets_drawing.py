import math

import pytest

from analysis.gallery.subsets_drawing import draw, outliers
from analysis.style import HATCHES
from tests.analysis.hand_made import ALL_SUBSETS, full_study, only_panel, study


@pytest.fixture(scope="module")
def data():
    return only_panel(*full_study())


def traces(figure, kind):
    return [trace for trace in figure.data if trace.type == kind]


def test_colours_show_the_values_and_gaps_have_none(data):
    (heatmap,) = traces(draw(data), "heatmap")
    for row, drawn in zip(data.cells, heatmap.z, strict=True):
        for cell, value in zip(row, drawn, strict=True):
            assert value is None if math.isnan(cell.value) else value == cell.value
    shown = [cell.value for row in data.cells for cell in row if not math.isnan(cell.value)]
    assert (heatmap.zmin, heatmap.zmax) == (min(shown), max(shown))
    assert heatmap.colorbar.ticktext[0] == ".177"
    assert heatmap.colorbar.ticktext[-1] == ".349"


def test_each_value_is_written_in_its_cell(data):
    (text,) = [trace for trace in traces(draw(data), "scatter") if trace.mode == "text"]
    written = {(i, j): word for j, i, word in zip(text.x, text.y, text.text, strict=True)}
    expected = {
        (i, j): cell.text
        for i, row in enumerate(data.cells)
        for j, cell in enumerate(row)
        if not math.isnan(cell.value)
    }
    assert written == expected
    assert len(written) == 61
    assert written[2, 6] == ".252<br>1/2"  # Con+Exp+Log: one of two seeds


def test_gaps_are_hatched_by_state_and_the_legend_counts_them(data):
    hatched = {
        trace.name: trace.fillpattern.shape
        for trace in traces(draw(data), "scatter")
        if trace.fill == "toself"
    }
    assert hatched == {
        "failed (1)": HATCHES["failed"].shape,
        "pending (1)": HATCHES["pending"].shape,
        "censored (1)": HATCHES["censored"].shape,
    }


def test_pointing_at_a_gap_tells_the_reason(data):
    (heatmap,) = traces(draw(data), "heatmap")
    assert heatmap.hovertext[4][1] == (
        "<b>Day+Sin</b><br>2 x failed: diverged: the loss is nan at epoch 3<br>"
        "sees the target's time"
    )
    assert "test NDCG@10 0.2550, 1 of 2 cells" not in heatmap.hovertext[2][6]
    assert "test NDCG@10 0.2520, 1 of 2 cells<br>failed: oom" in heatmap.hovertext[2][6]
    assert heatmap.hovertext[1][0].endswith("does not see the target's time")


def test_a_reason_is_text_and_never_markup():
    results, cells = study(
        [{"embeddings": "Pos", "class": "failed", "reason": "<b>error</b> & <img src=x>"}]
    )
    panel = only_panel(results, cells)
    (heatmap,) = traces(draw(panel), "heatmap")
    assert "&lt;b&gt;error&lt;/b&gt; &amp; &lt;img src=x&gt;" in heatmap.hovertext[1][0]


def test_embeddings_that_see_the_targets_time_are_marked_on_the_axes(data):
    figure = draw(data)
    assert list(figure.layout.xaxis.ticktext)[:4] == ["none", "Sin†", "Exp†", "Log†"]
    assert list(figure.layout.xaxis.ticktext)[7] == "Sin†<br>Exp†<br>Log†"
    assert list(figure.layout.yaxis.ticktext) == [
        "none", "Pos", "Con", "Pos+Con", "Day†", "Day†+Pos", "Day†+Con", "Day†+Pos+Con",
    ]  # fmt: skip
    (corner,) = figure.layout.shapes
    assert (corner.x0 < 0 < corner.x1 < 0.5, corner.y0 < 0, 3 < corner.y1 < 3.5) == (True,) * 3


def test_a_figure_leaves_its_width_to_the_page(data):
    figure = draw(data)
    assert figure.layout.width is None
    assert [note.text for note in figure.layout.annotations] == [
        "relative embeddings", "absolute embeddings",
    ]  # fmt: skip


def test_a_subset_far_from_all_others_is_marked_and_does_not_take_their_colours():
    results, cells = study(
        [
            {"embeddings": subset, "value": 0.9 if subset == "Log" else 0.20 + place / 1000}
            for place, subset in enumerate(ALL_SUBSETS[:10])
        ]
    )
    data = only_panel(results, cells)
    (heatmap,) = traces(draw(data), "heatmap")
    # ALL_SUBSETS starts with none, then the six alone: Log is the seventh.
    assert (heatmap.zmin, heatmap.zmax) == pytest.approx((0.200, 0.209))
    (text,) = [trace for trace in traces(draw(data), "scatter") if trace.mode == "text"]
    assert [word for word in text.text if "▲" in word] == ["▲.900"]
    (sentence,) = outliers(data)
    assert sentence.startswith("▲▼ lie beyond the colours, which span .200 to .209")


def test_nothing_complete_is_drawn_without_a_colour_bar():
    results, cells = study([{"embeddings": "Pos", "class": "pending"}])
    panel = only_panel(results, cells)
    (heatmap,) = traces(draw(panel), "heatmap")
    assert heatmap.showscale is False


def test_one_value_alone_has_room_around_it():
    results, cells = study([{"embeddings": "Pos", "value": 0.25}])
    panel = only_panel(results, cells)
    (heatmap,) = traces(draw(panel), "heatmap")
    assert (heatmap.zmin, heatmap.zmax) == pytest.approx((0.245, 0.255))
