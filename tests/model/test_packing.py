import dataclasses

import numpy as np
import pytest
import torch

from model.config import MeantimeConfig
from model.data.batches import TrainingBatch
from model.limits import LIMITS
from model.meantime import Meantime
from model.packing import ROW, PackedBatch, pack
from model.parts import parts

N_ITEMS, N_DAYS, MAX_LEN = 30, 50, 12
ALL = ("day", "pos", "con", "sin", "exp", "log")


def batch_of(lengths, *, seed=0, chosen=0.4):
    """Windows of these lengths, left-padded as batches are; every window has a chosen position."""
    rng = np.random.default_rng(seed)
    shape = (len(lengths), max(lengths))
    real = np.arange(shape[1]) >= shape[1] - np.array(lengths)[:, None]
    times = 10**9 + rng.integers(0, 10**6, shape).cumsum(1)
    labels = np.where(rng.random(shape) < chosen, rng.integers(1, N_ITEMS + 1, shape), 0)
    labels[:, -1] = rng.integers(1, N_ITEMS + 1, shape[0])
    arrays = {
        "items": rng.integers(1, N_ITEMS + 2, shape) * real,
        "times": times,
        "days": (times - times.min()) // 86_400 % N_DAYS,
        "labels": labels * real,
    }
    return TrainingBatch(**{name: torch.from_numpy(array) for name, array in arrays.items()})


def windows_of(batch):
    """What each window of a batch holds, as a sorted list of its events."""
    found = []
    names = ("items", "times", "days", "labels")
    for row in range(len(batch.items)):
        real = batch.items[row] > 0
        events = torch.stack([getattr(batch, name)[row][real] for name in names], 1).tolist()
        newer = [*range(len(events))][::-1]
        if isinstance(batch, PackedBatch):
            newer = batch.newer[row][real].tolist()
        window = []
        for event, after in zip(events, newer, strict=True):
            window.append(event)
            if after == 0:
                found.append(window)
                window = []
        assert not window
    return sorted(found)


MIXED = [12, 12, 11, 9, 7, 6, 5, 5, 3, 3, 3, 1, 1]


def test_rows_hold_every_window_whole_and_once():
    batch = batch_of(MIXED)
    packed = pack(batch)
    # 12, 12, 11 + 1, 9 + 1, 7 + 3, 6 + 5 (or 3 + 3), ..: 78 events need at least 7 rows of 12.
    assert packed.items.shape == (7, 12)
    assert windows_of(packed) == windows_of(batch)


def test_positions_count_from_the_end_of_their_own_window():
    packed = pack(batch_of([4, 2, 1]))
    assert packed.newer.tolist() == [[3, 2, 1, 0], [0, 1, 0, 0]]  # the last row begins with padding
    assert (packed.items == 0).tolist() == [[False] * 4, [True, False, False, False]]


def test_windows_are_apart_and_padding_is_apart_from_everything():
    apart = pack(batch_of([4, 2, 1])).apart()[1].tolist()
    assert apart == [
        [False, True, True, True],
        [True, False, False, True],
        [True, False, False, True],
        [True, True, True, False],
    ]


@pytest.mark.parametrize("seed", range(5))
def test_hardly_a_position_of_many_short_windows_is_padding(seed):
    lengths = np.random.default_rng(seed).geometric(0.15, 256).clip(3, 50)
    packed = pack(batch_of(lengths, seed=seed))
    assert (packed.items == 0).float().mean() < 0.05
    assert windows_of(packed) == windows_of(batch_of(lengths, seed=seed))


@pytest.mark.parametrize("embeddings", [(), *((e,) for e in ALL), ALL], ids="+".join)
def test_packed_windows_get_the_outputs_loss_and_gradients_they_get_alone(embeddings):
    config = MeantimeConfig(embeddings=embeddings, hidden=14, heads=7, max_len=MAX_LEN, dropout=0.0)
    model = Meantime(config, n_items=N_ITEMS, n_days=N_DAYS, seed=0).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(15)  # as if trained
    batch = batch_of(MIXED)
    packed = pack(batch)
    alone = model.hidden(batch)
    together = model.hidden(packed)
    # Labels and times tell events apart; each is looked up in both layouts.
    place = {}
    for row, column in (packed.items > 0).nonzero().tolist():
        place[packed.times[row, column].item(), packed.items[row, column].item()] = row, column
    assert len(place) == sum(MIXED)
    for row, column in (batch.items > 0).nonzero().tolist():
        found = together[place[batch.times[row, column].item(), batch.items[row, column].item()]]
        torch.testing.assert_close(found, alone[row, column], rtol=1e-7, atol=1e-7)

    gradients = []
    for each in (batch, packed):
        model.zero_grad()
        loss = model.loss(each)
        loss.backward()
        gradients.append({n: p.grad.clone() for n, p in model.named_parameters() if p.numel()})
    assert loss.item() == pytest.approx(model.loss(batch).item(), abs=1e-10)
    for name, expected in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], expected, rtol=1e-6, atol=1e-9)


def test_long_windows_keep_rows_of_their_own_and_short_ones_share():
    batch = batch_of([ROW + 30, ROW + 1, ROW, 40, 24, 20, 10])
    found = [part for part, _ in parts(batch, limits=LIMITS["cpu"], shared=True)]
    assert [type(part) for part in found] == [TrainingBatch, PackedBatch]
    assert [tuple(part.items.shape) for part in found] == [(2, ROW + 30), (3, ROW)]
    assert sorted(w for part in found for w in windows_of(part)) == windows_of(batch)


def test_without_sharing_every_window_has_its_row():
    batch = batch_of(MIXED)
    found = [part for part, _ in parts(batch, limits=LIMITS["cpu"], shared=False)]
    assert {type(part) for part in found} == {TrainingBatch}
    assert sum(len(part.items) for part in found) == len(MIXED)


def test_a_packed_batch_moves_whole():
    moved = pack(batch_of([3, 2])).to("meta")
    devices = {f.name: getattr(moved, f.name).device.type for f in dataclasses.fields(moved)}
    assert devices == dict.fromkeys(("items", "times", "days", "labels", "newer"), "meta")
