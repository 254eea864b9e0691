import numpy as np
import pytest

from model.data.negatives import N_NEGATIVES, SEED, popular_negatives, uniform_negatives


def one_event_users(n_users, item=1):
    """Return items and offsets of users who have seen one item each."""
    return np.full(n_users, item, dtype=np.int32), np.arange(n_users + 1)


def test_negatives_are_distinct_items_outside_the_users_whole_sequence():
    items = np.random.default_rng(0).integers(1, 301, size=2_000).astype(np.int32)
    offsets = np.arange(0, 2_001, 40)
    popularity = np.bincount(items, minlength=301)
    popularity[1:] += 1
    negatives = popular_negatives(items, offsets, popularity)
    assert negatives.shape == (50, N_NEGATIVES)
    for user, drawn in enumerate(negatives.tolist()):
        assert len(set(drawn)) == 100
        assert 1 <= min(drawn) <= max(drawn) <= 300
        assert not set(drawn) & set(items[offsets[user] : offsets[user + 1]].tolist())


def test_a_small_catalogue_gives_all_unseen_items_and_then_zeros():
    items, offsets = np.array([1, 2, 3, 1, 4, 4], dtype=np.int32), np.array([0, 3, 6])
    negatives = popular_negatives(items, offsets, np.array([0, 2, 1, 1, 2, 5]))
    assert sorted(negatives[0, :2].tolist()) == [4, 5]
    assert sorted(negatives[1, :3].tolist()) == [2, 3, 5]
    assert negatives[0, 2:].tolist() == [0] * 98
    assert negatives[1, 3:].tolist() == [0] * 97


def test_a_user_who_has_seen_everything_has_no_negatives():
    items, offsets = np.array([1, 2, 1], dtype=np.int32), np.array([0, 3])
    assert not popular_negatives(items, offsets, np.array([0, 2, 1])).any()


def test_draws_are_proportional_to_popularity_and_without_replacement():
    n_users = 40_000
    negatives = popular_negatives(*one_event_users(n_users), np.array([0, 9, 1, 2, 5]))
    share = {item: weight / 8 for item, weight in {2: 1, 3: 2, 4: 5}.items()}
    # Second draw: of what is left after the first, again in proportion.
    second = {
        item: sum(
            share[first] * share[item] / (1 - share[first]) for first in share if first != item
        )
        for item in share
    }
    for column, expected in ((0, share), (1, second)):
        for item, probability in expected.items():
            observed = np.mean(negatives[:, column] == item)
            assert abs(observed - probability) < 4 * np.sqrt(probability / n_users)


def plain_race(items, offsets, weights):
    """Draw as the module says, user after user, every item's arrival computed and sorted."""
    rng = np.random.default_rng(SEED)
    drawn = np.zeros((len(offsets) - 1, N_NEGATIVES), dtype=np.int32)
    for user in range(len(drawn)):
        arrival = -np.log(1 - rng.random(len(weights) - 1)) / weights[1:]
        arrival[items[offsets[user] : offsets[user + 1]] - 1] = np.inf
        order = np.argsort(arrival)[:N_NEGATIVES]
        order = order[np.isfinite(arrival[order])]
        drawn[user, : len(order)] = order + 1
    return drawn


@pytest.mark.parametrize(
    ("n_users", "n_items", "longest"),
    [
        (60, 50_000, 2),  # more keys than fit in one chunk
        (300, 3_000, 400),
        (200, 400, 390),  # often fewer than 100 unseen, or a shortlist that is too short
        (100, 101, 20),
        (5, 3, 3),
    ],
)
@pytest.mark.parametrize(("skew", "favoured"), [(0.0, 1), (1.3, 1), (1.3, -1)])
def test_a_shortlist_draws_what_the_whole_race_draws(n_users, n_items, longest, skew, favoured):
    rng = np.random.default_rng(n_users)
    popularity = np.append(0, 1 + 20_000 * np.arange(1, n_items + 1) ** -skew).astype(np.int64)
    lengths = rng.integers(1, longest + 1, n_users)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    # The most or the least popular items, so that what users have left is far from the usual.
    by_taste = np.arange(1, n_items + 1)[::favoured]
    items = np.concatenate([by_taste[:n] for n in lengths]).astype(np.int32)
    drawn = popular_negatives(items, offsets, popularity)
    assert np.array_equal(drawn, plain_race(items, offsets, popularity))
    same = np.ones(n_items + 1)
    drawn = uniform_negatives(items, offsets, n_items=n_items)
    assert np.array_equal(drawn, plain_race(items, offsets, same))


def test_uniform_negatives_ignore_popularity_and_keep_the_other_rules():
    items, offsets = one_event_users(40_000)
    drawn = uniform_negatives(items, offsets, n_items=4)
    assert not drawn[:, 3:].any()  # 3 items are unseen
    assert (np.sort(drawn[:, :3], axis=1) == [2, 3, 4]).all()
    for item in (2, 3, 4):
        assert abs(np.mean(drawn[:, 0] == item) - 1 / 3) < 4 * np.sqrt(1 / 3 / 40_000)
