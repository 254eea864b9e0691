from typing import get_args

import numpy as np
import pytest

from model.config import DatasetConfig, Recipe, SyntheticConfig
from model.data.interactions import content_sha256
from model.data.prepare import load_prepared
from model.data.synthetic import PERIOD_SECONDS, PLANTED, generate

DAY = 86_400
RECIPES = get_args(Recipe)


def events_of(recipe, *, users=2_000, items=40, events=16):
    """Return times and items, shape (users, events)."""
    rows = generate(SyntheticConfig(recipe=recipe, users=users, items=items, events=events))
    return rows.timestamps.reshape(users, events), rows.items.astype(int).reshape(users, events)


def repeats(items, *, back):
    """Tell where an event shows the same item as the one `back` places before."""
    return items[:, back:] == items[:, :-back]


def test_five_recipes_plant_four_embeddings_and_nothing():
    assert tuple(PLANTED) == RECIPES
    assert list(PLANTED.values()) == ["day", "sin", "log", "pos", None]


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_size_is_as_declared_and_a_user_has_four_items(recipe):
    rows = generate(SyntheticConfig(recipe=recipe, users=70, items=24, events=9))
    assert len(rows) == 70 * 9
    assert rows.users.tolist() == [str(user) for user in range(1, 71) for _ in range(9)]
    assert set(rows.items.tolist()) == {str(item) for item in range(1, 25)}
    assert all(len(set(user)) <= 4 for user in rows.items.reshape(70, 9).tolist())
    assert (np.diff(rows.timestamps.reshape(70, 9), axis=1) > 0).all()


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_item_is_as_likely_over_all_users(recipe):
    _, items = events_of(recipe, users=4_000)
    counts = np.unique_counts(items).counts
    assert len(counts) == 40
    assert counts == pytest.approx(4_000 * 16 / 40, rel=0.25)


def test_planted_day_a_day_tells_the_slot_of_all_users():
    times, items = events_of("planted-day")
    days = times // DAY
    assert np.unique_counts(days).values.size == 64
    assert (np.diff(days, axis=1) >= 1).all()  # one event a day
    assert (days[:, -1] - days[:, 0]).max() < 32
    # Two users' equal slots are seen within each: their pairs of days agree or differ alike.
    same, different = set(), set()
    for own_days, own_items in zip(days.tolist(), items.tolist(), strict=True):
        for a in range(16):
            for b in range(a):
                pair = (own_days[b], own_days[a])
                (same if own_items[a] == own_items[b] else different).add(pair)
    assert not same & different
    assert len(same) / (len(same) + len(different)) == pytest.approx(15 / 63, abs=0.03)


def test_planted_period_the_phase_of_the_gap_tells_whether_an_item_repeats():
    times, items = events_of("planted-period")
    gaps = np.diff(times, axis=1)
    assert gaps.min() >= PERIOD_SECONDS
    assert gaps.max() < 20 * PERIOD_SECONDS
    phase = (times - times[:, :1]) % PERIOD_SECONDS / PERIOD_SECONDS
    apart = np.minimum(phase, 1 - phase)
    same = items == items[:, :1]
    # A quarter of the period decides: the chance falls from 1 at no phase to 0 at a quarter.
    assert same[:, 1:][apart[:, 1:] > 0.25].mean() == 0
    assert same[:, 1:][apart[:, 1:] < 0.05].mean() > 0.85
    # 2 pi / 6283 s is the frequency 1e-3 to one part in 10,000: over 19 periods it stays in phase.
    assert 2 * np.pi / PERIOD_SECONDS == pytest.approx(1e-3, rel=1e-4)


def test_planted_recency_a_short_gap_repeats_and_the_held_out_events_are_an_even_question():
    times, items = events_of("planted-recency")
    gaps = np.diff(times, axis=1)
    short = gaps < 10_000_000
    assert gaps[short].max() < 600_000
    assert gaps[~short].min() >= 20_000_000
    assert repeats(items, back=1)[short].all()
    home = items[:, :1]  # a history begins at home
    away = items != home
    assert not short[~away[:, :-1]].any()  # home is left and entered by long gaps alone
    # After an event that is not home: a repetition or a long gap, one as often as the other.
    asked = away[:, :-1].copy()
    asked[:, -2] = False  # the validation target, which repeats nine times in ten
    assert short[asked].mean() == pytest.approx(0.5, abs=0.02)
    assert short[:, -2].mean() == pytest.approx(0.9, abs=0.02)
    assert away[:, -2].mean() == pytest.approx(0.9, abs=0.02)  # the test target is the question
    # The held-out events answer it: the validation target always follows an event that is away.
    assert away[:, -3].all()
    for target in (-2, -1):
        expected = np.where(short[:, target], items[:, target - 1], items[:, 0])
        assert (items[:, target] == expected).all()


def test_planted_order_the_event_four_places_back_tells_the_item_and_no_other_does():
    times, items = events_of("planted-order")
    found = {back: repeats(items, back=back).mean() for back in range(1, 5)}
    # Kept with probability .9, else one of four at random; independent slots agree 1 in 4 times.
    assert found[4] == pytest.approx(0.9 + 0.1 / 4, abs=0.01)
    assert [found[back] for back in (1, 2, 3)] == pytest.approx([1 / 4] * 3, abs=0.01)
    gaps = np.diff(times, axis=1)
    assert 1 <= gaps.min() <= gaps.max() < 1_000_000
    assert np.mean(gaps < 1_000) == pytest.approx(0.5, abs=0.01)


def test_planted_none_an_event_is_a_draw_from_the_users_own_taste_wherever_it_stands():
    times, items = events_of("planted-none")
    # With Dirichlet(a) over 4, two draws agree with probability (a + 1) / (4 a + 1).
    expected = 1.4 / 2.6
    found = [repeats(items, back=back).mean() for back in (1, 4, 8)]
    assert found == pytest.approx([expected] * 3, abs=0.02)
    short = np.diff(times, axis=1) < 1_000
    assert repeats(items, back=1)[short].mean() == pytest.approx(expected, abs=0.02)


def test_the_smallest_catalogue_has_four_items():
    rows = generate(SyntheticConfig(recipe="planted-order", users=100, items=4, events=5))
    assert sorted(set(rows.items.tolist())) == ["1", "2", "3", "4"]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(
    ("field", "value"), [("users", 401), ("items", 66), ("events", 17), ("seed", 1)]
)
def test_every_size_and_the_seed_change_the_rows(recipe, field, value):
    assert {"recipe", "users", "items", "events", "seed"} == set(SyntheticConfig.model_fields)
    one, other = SyntheticConfig(recipe=recipe), SyntheticConfig(recipe=recipe, **{field: value})
    assert content_sha256(generate(one)) == content_sha256(generate(one))
    assert content_sha256(generate(one)) != content_sha256(generate(other))


@pytest.mark.parametrize("recipe", RECIPES)
def test_preparation_keeps_every_planted_event(recipe, tmp_path):
    config = DatasetConfig(name="p", synthetic=SyntheticConfig(recipe=recipe))
    data = load_prepared(config, tmp_path)
    assert (data.n_users, data.n_items, len(data.items)) == (600, 40, 600 * 16)
