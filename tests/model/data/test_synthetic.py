import numpy as np
import pytest

from model.config import SyntheticConfig
from model.data.interactions import content_sha256
from model.data.synthetic import generate


def test_the_size_is_as_declared():
    rows = generate(SyntheticConfig(recipe="order", users=7, items=24, events=9))
    assert len(rows) == 63
    assert rows.users.tolist() == [str(user) for user in range(1, 8) for _ in range(9)]
    assert set(rows.items.tolist()) <= {str(item) for item in range(1, 25)}


def test_time_moves_forward_by_gaps_spread_evenly_over_six_orders_of_magnitude():
    rows = generate(SyntheticConfig(recipe="order", users=2_000, items=60, events=16))
    gaps = np.diff(rows.timestamps.reshape(2_000, 16), axis=1)
    assert 1 <= gaps.min() <= gaps.max() < 1_000_000
    assert np.mean(gaps < 1_000) == pytest.approx(0.5, abs=0.01)


def test_the_event_four_places_back_tells_the_group_and_no_other_does():
    rows = generate(SyntheticConfig(recipe="order", users=2_000, items=60, events=16))
    groups = (rows.items.astype(int) % 6).reshape(2_000, 16)
    repeats = {back: np.mean(groups[:, back:] == groups[:, :-back]) for back in range(1, 5)}
    # Kept with probability .9, else one of four at random; independent slots agree 1 in 4 times.
    assert repeats[4] == pytest.approx(0.9 + 0.1 / 4, abs=0.01)
    assert [repeats[back] for back in (1, 2, 3)] == pytest.approx([1 / 4] * 3, abs=0.01)
    assert all(len(set(user)) <= 4 for user in groups.tolist())


def test_every_item_of_a_group_is_as_likely():
    rows = generate(SyntheticConfig(recipe="order", users=2_000, items=60, events=16))
    counts = np.unique_counts(rows.items.astype(int)).counts
    assert len(counts) == 60
    assert counts == pytest.approx(32_000 / 60, rel=0.2)


def test_the_smallest_catalogue_still_has_six_groups():
    rows = generate(SyntheticConfig(recipe="order", users=100, items=8, events=5))
    assert sorted(set(rows.items.astype(int))) == list(range(1, 9))


@pytest.mark.parametrize(
    ("field", "value"), [("users", 401), ("items", 66), ("events", 17), ("seed", 1)]
)
def test_every_size_and_the_seed_change_the_rows(field, value):
    assert {"recipe", "users", "items", "events", "seed"} == set(SyntheticConfig.model_fields)
    one, other = SyntheticConfig(recipe="order"), SyntheticConfig(recipe="order", **{field: value})
    assert content_sha256(generate(one)) == content_sha256(generate(one))
    assert content_sha256(generate(one)) != content_sha256(generate(other))
