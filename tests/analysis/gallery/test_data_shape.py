import numpy as np
import pytest

from analysis.gallery import data_shape
from analysis.material import NotDrawn
from model.config import DatasetConfig
from model.data.describe import describe
from model.data.interactions import Interactions
from model.data.prepare import prepare
from tests.analysis.hand_made import report_source, study


def described():
    """Three users of 3, 4 and 6 events; gaps of 0, 5, 50 and 500 s, the target's at 0."""
    times = [0, 5, 10, *(100, 105, 105, 105), *(0, 50, 550, 1050, 1550, 1600)]
    users = ["a"] * 3 + ["b"] * 4 + ["c"] * 6
    items = list("xyz") + list("xyzx") + list("xyzxyz")
    raw = Interactions(
        users=np.array(users), items=np.array(items), timestamps=np.array(times), ratings=None
    )
    config = DatasetConfig(name="hand", min_interactions=3)
    return describe(prepare(raw, config))


def test_the_bars_are_the_users_and_gaps_that_were_counted():
    found = described()
    figure = data_shape.draw(found)
    lengths, gaps, activity = figure.data
    assert dict(zip(lengths.x, lengths.y, strict=True)) == {"2–3": 1, "4–7": 2}
    assert dict(zip(gaps.x, gaps.y, strict=True)) == {"0": 2, "1 s": 3, "10 s": 2, "2 min": 3}
    assert sum(activity.y[:-1]) == 13
    rows = data_shape._rows(found)
    assert rows.groupby("histogram")["count"].sum().to_dict() == {
        "events of a user": 3, "gap": 10, "time": 13,
    }  # fmt: skip
    told = " ".join(data_shape.notes(found))
    assert "3 users, 3 items, 13 events" in told
    assert "20.0% of 10 are 0" in told
    assert "33.3% of test targets carry the time of the event before" in told


def test_where_the_data_are_not_the_figure_says_so():
    material = report_source(*study([{"embeddings": "Log"}]))
    with pytest.raises(NotDrawn, match="must be stored here"):
        data_shape.figures(material)
