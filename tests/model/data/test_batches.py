from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.config import DatasetConfig, SyntheticConfig, TrainingConfig
from model.data.batches import TrainingBatches, evaluation_batch, windows
from model.data.prepare import load_prepared, prepare

DAY = 86_400


@pytest.fixture(scope="module")
def data(interactions_of):
    """Two users: items 1..6 one day apart, and 6, 5, 4 at noon of days 2, 3, 7; catalogue 1..6."""
    rows = [("u", item, item * DAY) for item in range(1, 7)]
    rows += [("v", item, day * DAY + DAY // 2) for item, day in ((6, 2), (5, 3), (4, 7))]
    rows += [("w", item, 0) for item in range(1, 7)] * 2
    return prepare(interactions_of(rows), DatasetConfig(name="two", min_interactions=3))


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    recipe = SyntheticConfig(recipe="planted-order", users=300, items=50, events=40)
    config = DatasetConfig(name="planted", synthetic=recipe)
    return load_prepared(config, tmp_path_factory.getbasetemp())


def epochs_of(data, *, n_epochs=1, seeds=(0, 1), max_len=20, **training):
    batches = TrainingBatches(
        data,
        TrainingConfig(**training),
        max_len=max_len,
        order_rng=np.random.default_rng(seeds[0]),
        mask_rng=np.random.default_rng(seeds[1]),
    )
    return [list(batches) for _ in range(n_epochs)]


def test_windows_end_every_w_events_before_the_end_while_full(interactions_of):
    rows = [("u", time % 3, time) for time in range(10)]  # prefix of 8
    data = prepare(interactions_of(rows), DatasetConfig(name="one", min_interactions=3))
    cut = windows(data, max_len=3, train_window=2)
    assert cut.ends.tolist() == [8, 6, 4]  # 2 is shorter than 3
    assert cut.starts.tolist() == [5, 3, 1]


def test_a_short_prefix_is_one_window(data):
    cut = windows(data, max_len=50, train_window=100)
    assert cut.starts.tolist() == [0, 6, 9]
    assert cut.ends.tolist() == [6 - 2, 9 - 2, 21 - 2]


@given(
    lengths=st.lists(st.integers(3, 40), min_size=1, max_size=5),
    max_len=st.integers(2, 12),
    train_window=st.integers(1, 12),
)
def test_windows_agree_with_a_plain_loop(interactions_of, lengths, max_len, train_window):
    rows = [(u, t % 2, t) for u, length in enumerate(lengths) for t in range(length)]
    rows += [("99", item, 0) for item in range(2) for _ in range(3)]
    data = prepare(interactions_of(rows), DatasetConfig(name="any", min_interactions=3))
    expected = []
    for first, stop in zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True):
        end = stop - 2
        while True:
            expected.append((max(first, end - max_len), end))
            end -= train_window
            if end - first < max_len:
                break
    cut = windows(data, max_len=max_len, train_window=train_window)
    assert list(zip(cut.starts.tolist(), cut.ends.tolist(), strict=True)) == expected


def test_training_batches_restore_to_the_training_prefixes(data):
    [[batch]] = epochs_of(data, mask_probability=0.5)
    restored = torch.where(batch.labels > 0, batch.labels, batch.items).tolist()
    assert sorted(restored) == [
        [0] * 9 + [6],
        [0] * 6 + [1, 2, 3, 4],  # 5 and 6 are held out
        [1, 2, 3, 4, 5, 6, 1, 2, 3, 4],
    ]


def test_a_batch_is_cut_to_its_longest_sequence(data):
    for _ in range(3):
        [batches] = epochs_of(data, batch=1, mask_probability=1.0)
        assert sorted(batch.items.shape[1] for batch in batches) == [1, 4, 10]


def test_padding_repeats_the_oldest_time_and_day_under_item_zero(data):
    [[batch]] = epochs_of(data, mask_probability=1.0)
    rows = {
        tuple(times): days
        for times, days in zip(batch.times.tolist(), batch.days.tolist(), strict=True)
    }
    assert rows[(DAY,) * 7 + (2 * DAY, 3 * DAY, 4 * DAY)] == [1] * 7 + [2, 3, 4]


def test_held_out_items_do_not_change_training(planted):
    held_out = np.concatenate([planted.offsets[1:] - 1, planted.offsets[1:] - 2])
    items, times, days = (
        array.copy() for array in (planted.items, planted.timestamps, planted.days)
    )
    items[held_out], times[held_out], days[held_out] = 1, 7, 0
    [clean] = epochs_of(planted)
    [other] = epochs_of(replace(planted, items=items, timestamps=times, days=days))
    assert len(clean) == len(other) == 2
    for one, two in zip(clean, other, strict=True):
        assert torch.equal(one.items, two.items)
        assert torch.equal(one.times, two.times)
        assert torch.equal(one.days, two.days)
        assert torch.equal(one.labels, two.labels)


def test_the_cloze_masks_rho_of_the_events_eight_in_ten_by_the_mask_one_by_a_random_item(planted):
    epochs = epochs_of(planted, n_epochs=40, mask_probability=0.3, train_window=10)
    batches = [batch for epoch in epochs for batch in epoch]
    items = torch.cat([batch.items.ravel() for batch in batches])
    labels = torch.cat([batch.labels.ravel() for batch in batches])
    chosen = labels > 0
    n_items = planted.n_items
    assert chosen.sum() / (items > 0).sum() == pytest.approx(0.3, abs=0.005)
    masked, kept = items[chosen] == n_items + 1, items[chosen] == labels[chosen]
    assert masked.float().mean() == pytest.approx(0.8, abs=0.005)
    # A random item is the right one once in n_items.
    assert kept.float().mean() == pytest.approx(0.1 + 0.1 / n_items, abs=0.005)
    random_items = items[chosen & (items != n_items + 1) & (items != labels)]
    counts = np.bincount(random_items.numpy(), minlength=n_items + 1)
    assert counts[0] == 0
    assert counts[1:].min() > 0.75 * counts[1:].mean()
    assert items[~chosen].max() <= n_items


def test_padding_is_never_chosen(data):
    [[batch]] = epochs_of(data, mask_probability=1.0)
    assert ((batch.labels > 0) == (batch.items > 0)).all()
    assert (batch.labels > 0).sum() == 4 + 1 + 10


def test_an_epoch_reads_every_window_once_and_keeps_the_last_partial_batch(planted):
    n_windows = len(windows(planted, max_len=20, train_window=10).ends)
    [batches] = epochs_of(planted, batch=64, train_window=10)
    sizes = sorted(len(batch.items) for batch in batches)
    assert sizes == [n_windows % 64] + [64] * (n_windows // 64)
    assert sizes[0] > 0


def test_a_batch_without_a_chosen_position_is_left_out(data):
    assert epochs_of(data, mask_probability=1e-12) == [[]]


def test_equal_generators_give_equal_batches_and_epochs_differ(planted):
    one, two = epochs_of(planted, n_epochs=2), epochs_of(planted, n_epochs=2)
    for left, right in zip(chain(*one), chain(*two), strict=True):
        assert torch.equal(left.items, right.items)
        assert torch.equal(left.labels, right.labels)
    assert not torch.equal(one[0][0].times, one[1][0].times)


def rows_of(batches):
    """Every window's times, items and labels without padding, in an order of their own."""
    return sorted(
        tuple(tuple(row[items > 0].tolist()) for row in (times, items, labels))
        for batch in batches
        for times, items, labels in zip(batch.times, batch.items, batch.labels, strict=True)
    )


@pytest.fixture(scope="module")
def mixed(interactions_of):
    """200 users with 5 to 60 events, most of them few."""
    rng = np.random.default_rng(4)
    lengths = np.minimum(5 + rng.exponential(8, 200).astype(int), 60)
    rows = [
        (str(u), int(rng.integers(30)), int(t) * DAY + u)
        for u, length in enumerate(lengths)
        for t in range(length)
    ]
    return prepare(interactions_of(rows), DatasetConfig(name="mixed", min_interactions=3))


def test_order_and_masks_come_from_two_generators(mixed):
    [first] = epochs_of(mixed, seeds=(0, 1), mask_probability=0.5)
    [other_masks] = epochs_of(mixed, seeds=(0, 2), mask_probability=0.5)
    [other_order] = epochs_of(mixed, seeds=(3, 1), mask_probability=0.5)
    assert torch.equal(first[0].times, other_masks[0].times)
    assert rows_of(first) != rows_of(other_masks)
    assert rows_of(first) == rows_of(other_order)


@pytest.mark.parametrize("option", [{"batch": 7}, {"batch": 200}], ids=str)
def test_a_window_has_the_same_masks_however_it_is_batched_and_padded(mixed, option):
    [expected] = epochs_of(mixed, batch=16, mask_probability=0.9)
    [found] = epochs_of(mixed, **{"batch": 16, "mask_probability": 0.9} | option)
    n_rows = sum(len(batch.items) for batch in expected)
    assert sum(len(batch.items) for batch in found) == n_rows == len(rows_of(expected))
    assert rows_of(found) == rows_of(expected)


@given(batch=st.integers(1, 90), seed=st.integers(0, 99))
def test_every_window_is_in_one_batch_and_all_but_the_last_are_full(mixed, batch, seed):
    [found] = epochs_of(mixed, seeds=(seed, 1), batch=batch, mask_probability=1.0)
    sizes = [len(b.items) for b in found]
    assert sum(sizes) == mixed.n_users  # each prefix is one window here
    assert set(sizes[:-1]) <= {batch}
    assert len(rows_of(found)) == mixed.n_users


def test_batches_hold_other_windows_each_epoch(mixed):
    one, two = epochs_of(mixed, n_epochs=2, batch=10, mask_probability=1.0)
    assert {frozenset(rows_of([b])) for b in one} != {frozenset(rows_of([b])) for b in two}


def inputs(data, split, *, max_len=50, target_time="actual", users=None):
    users = np.arange(data.n_users) if users is None else users
    return evaluation_batch(data, split, users, max_len=max_len, target_time=target_time)


def test_the_validation_input_is_the_training_prefix_and_the_mask_at_the_targets_time(data):
    batch = inputs(data, "validation")
    assert batch.items[:2, -5:].tolist() == [[1, 2, 3, 4, 7], [0, 0, 0, 6, 7]]
    assert batch.days[:2, -2:].tolist() == [[4, 5], [2, 3]]
    assert batch.times[:2, -2:].tolist() == [[4 * DAY, 5 * DAY], [2.5 * DAY, 3.5 * DAY]]


def test_the_test_input_includes_the_validation_item(data):
    batch = inputs(data, "test")
    assert batch.items[:2, -4:].tolist() == [[3, 4, 5, 7], [0, 6, 5, 7]]
    assert batch.days[:2, -3:].tolist() == [[4, 5, 6], [2, 3, 7]]


def test_with_target_time_last_the_mask_has_the_time_of_the_event_before(data):
    actual = inputs(data, "test")
    last = inputs(data, "test", target_time="last")
    assert last.items.tolist() == actual.items.tolist()
    assert last.days[:2, -3:].tolist() == [[4, 5, 5], [2, 3, 3]]
    assert last.times[:2, -1].tolist() == [5 * DAY, 3.5 * DAY]


def test_only_the_newest_events_fit_beside_the_mask(data):
    batch = inputs(data, "test", max_len=3)
    assert batch.items.tolist() == [[4, 5, 7], [6, 5, 7], [4, 5, 7]]


def test_inputs_are_of_the_users_asked_for(data):
    batch = inputs(data, "test", users=np.array([1, 0]))
    assert batch.items.tolist() == [[0, 0, 0, 6, 5, 7], [1, 2, 3, 4, 5, 7]]


def test_the_input_of_a_target_never_holds_the_target_or_what_follows(planted):
    poisoned = planted.items.copy()
    poisoned[planted.offsets[1:] - 1] = 1
    for split, changed in (("test", poisoned), ("validation", poisoned.copy())):
        if split == "validation":
            changed[planted.offsets[1:] - 2] = 1
        clean = inputs(planted, split)
        other = inputs(replace(planted, items=changed), split)
        assert torch.equal(clean.items, other.items)


def test_a_batch_moves_to_a_device_whole(data):
    [[batch]] = epochs_of(data, mask_probability=1.0)
    moved = batch.to("meta")
    tensors = (moved.items, moved.times, moved.days, moved.labels)
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert {tensor.dtype for tensor in tensors} == {torch.int64}
