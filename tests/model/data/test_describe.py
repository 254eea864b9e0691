import numpy as np
import pytest

from model.config import DatasetConfig
from model.data.describe import describe
from model.data.prepare import prepare

DAY = 86_400


@pytest.fixture(scope="module")
def found(interactions_of):
    """u: 6 events on 3 days, v: 3 events on 3 days; u's test target repeats, at the same time."""
    rows = [
        ("u", item, t) for item, t in zip("abcabc", (0, 5, 5, DAY, 2 * DAY, 2 * DAY), strict=True)
    ]
    rows += [("v", item, t * DAY) for item, t in zip("abc", (0, 1, 9), strict=True)]
    return describe(prepare(interactions_of(rows), DatasetConfig(name="two", min_interactions=3)))


def test_sizes_and_lengths(found):
    assert (found.users, found.items, found.interactions) == (2, 3, 9)
    assert found.density == 9 / (2 * 3)
    assert found.mean_length == (6 + 3) / 2
    assert found.length_quantiles[0.5] == 4.5
    assert (found.length_quantiles[0.0], found.length_quantiles[1.0]) == (3, 6)


def test_what_times_tell(found):
    assert (found.first_second, found.last_second) == (0, 9 * DAY)
    assert found.equal_times == 4 / 9  # 5 and 5, 2 and 2 days
    assert (found.days_per_user, found.median_days_per_user) == (3, 3)
    assert found.targets_at_last_time == 1 / 2  # u's
    # Training: u on days 0 and 1, v on day 0. Test: u on day 2, v on day 9.
    assert found.unseen_test_days == 1
    assert not found.whole_days
    assert found.repeated_targets == 1 / 2


def test_a_catalogue_of_fewer_than_a_hundred_unseen_items_is_told(found):
    assert found.small_catalogue
    assert found.fewest_negatives == 0


def test_histograms_count_every_user_event_and_gap(found):
    assert found.lengths.counts.sum() == 2
    assert found.activity.counts.sum() == 9
    assert len(found.activity.counts) == 50
    gaps = found.gaps.counts.sum() + found.zero_gaps
    assert (gaps, found.zero_gaps) == (5 + 2, 2)
    assert found.lengths.edges.tolist() == [2, 4, 8]
    assert found.lengths.counts.tolist() == [1, 1]
    # 5 s; about a day, three times; 8 days.
    assert found.gaps.counts.tolist() == [1, 0, 0, 0, 3, 1]
    assert np.all(np.diff(found.gaps.edges) > 0)


def test_midnights_alone_are_day_granularity(interactions_of):
    rows = [("u", item, t * DAY) for t, item in enumerate("abcabc")]
    config = DatasetConfig(name="days", min_interactions=2 + 1)
    assert describe(prepare(interactions_of(rows * 2), config)).whole_days
