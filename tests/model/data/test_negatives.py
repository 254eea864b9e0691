import numpy as np

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


def test_many_users_agree_with_a_plain_loop_over_one_generator():
    n_users, n_items = 200, 50_000  # more keys than fit in one chunk
    popularity = np.arange(n_items + 1) % 7 + 1
    popularity[0] = 0
    items, offsets = one_event_users(n_users, item=4)
    rng = np.random.default_rng(SEED)
    expected = []
    for _ in range(n_users):
        arrival = -np.log(1 - rng.random(n_items)) / popularity[1:]
        arrival[4 - 1] = np.inf
        expected.append(np.argsort(arrival)[:100] + 1)
    assert np.array_equal(popular_negatives(items, offsets, popularity), expected)


def test_uniform_negatives_ignore_popularity_and_keep_the_other_rules():
    items, offsets = one_event_users(40_000)
    drawn = uniform_negatives(items, offsets, n_items=4)
    assert not drawn[:, 3:].any()  # 3 items are unseen
    assert (np.sort(drawn[:, :3], axis=1) == [2, 3, 4]).all()
    for item in (2, 3, 4):
        assert abs(np.mean(drawn[:, 0] == item) - 1 / 3) < 4 * np.sqrt(1 / 3 / 40_000)
