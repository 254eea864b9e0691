"""TimeSVD++ and BPTF compute their equations, and find what was planted."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from model.bptf import Bptf, gaussian_prior, walk_prior
from model.config import (
    BptfConfig,
    DatasetConfig,
    TimesvdConfig,
    TrainingConfig,
    TrialConfig,
)
from model.data.batches import evaluation_batch
from model.data.next_items import NextItemBatches, whole_prefixes
from model.timesvd import TimeSvd
from model.train import Fit, fit_epoch
from tests.reference_relatives import Drifting, Tensored

DAY = 86_400


@pytest.fixture
def three(prepared_of):
    """Three users and five items; training prefixes are all but the last two events."""
    data = prepared_of([[1, 4, 2, 5, 3], [3, 1, 2, 4], [5, 2, 4, 1, 3]], n_items=5)
    times = np.array([0, 1, 4, 5, 9, 2, 8, 9, 9, 3, 3, 7, 9, 9]) * DAY + 5_000
    return replace(data, timestamps=times)


def loud(network):
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.6)
        for name in ("item_embedding", "history_embedding"):
            getattr(network, name)[0] = 0
    return network.double()


def drifting(network, data):
    known = [
        data.timestamps[a : b - 2] for a, b in zip(data.offsets, data.offsets[1:], strict=False)
    ]
    first, last = min(t.min() for t in known), max(t.max() for t in known)
    return Drifting(dict(network.named_parameters()), bins=3, first=int(first), last=int(last))


def test_timesvd_scores_as_its_equation_says(three):
    network = loud(TimeSvd(TimesvdConfig(hidden=4, bins=3), three, seed=0))
    oracle = drifting(network, three)
    batch = evaluation_batch(three, "test", np.arange(3), max_len=99, target_time="actual")
    state = network.state(batch)
    found = network.all_scores(state)
    for user in range(3):
        own = slice(three.offsets[user], three.offsets[user + 1])
        items, times = three.items[own].tolist(), three.timestamps[own].tolist()
        mean_time = sum(times[:-2]) / len(times[:-2])
        for item in range(1, 6):
            expected = oracle.score(
                user, item, time=times[-1], mean_time=mean_time, history=items[:-1]
            )
            torch.testing.assert_close(found[user, item], expected, rtol=0, atol=1e-10)
    asked = torch.tensor([[5, 1], [2, 2], [3, 4]])
    torch.testing.assert_close(network.candidate_scores(state, asked), found.gather(1, asked))


def test_timesvd_is_trained_on_every_event_given_the_others(three):
    network = loud(TimeSvd(TimesvdConfig(hidden=4, bins=3, negatives=2), three, seed=0))
    oracle = drifting(network, three)
    rng = np.random.default_rng(0)
    (batch,) = NextItemBatches(
        three,
        whole_prefixes(three),
        batch=9,
        negatives=2,
        asked=None,
        order_rng=rng,
        draw_rng=rng,
        pool_rng=rng,
    )
    total, n = torch.zeros((), dtype=torch.float64), 0
    for row in range(len(batch.items)):
        user = int(batch.users[row, -1])
        start, end = three.offsets[user], three.offsets[user + 1] - 2
        items, times = three.items[start:end].tolist(), three.timestamps[start:end].tolist()
        negatives = batch.negatives[row, -(len(items) - 1) :].tolist()
        total = total + oracle.loss(user, list(zip(items, times, strict=True)), negatives)
        n += len(items) - 1
    assert n == 2 + 1 + 2
    torch.testing.assert_close(network.loss(batch), total / n, rtol=0, atol=1e-10)


class Noise:
    """Stands in for a generator whose normal draws are all one vector."""

    def __init__(self, vector):
        self.vector = vector

    def standard_normal(self, shape):
        return np.broadcast_to(self.vector, shape).copy()


@pytest.mark.parametrize("noise", [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)])
def test_bptf_draws_each_factor_given_the_others(three, noise):
    config = BptfConfig(hidden=2, bins=3, zero_weight=0.3)
    model = Bptf(config, three, seed=0)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    model.item_embedding[0] = 0
    # Days 0, 1, 4 of user 0, 2 and 8 of user 1, 3, 3 and 7 of user 2; bins of 2.7 days.
    events = {(0, 1, 0), (0, 4, 0), (0, 2, 1), (1, 3, 0), (1, 1, 2)} | {
        (2, 5, 1),
        (2, 2, 1),
        (2, 4, 2),
    }
    assert set(map(tuple, model.cells.T.tolist())) == events
    oracle = Tensored(events, weight=0.3, n_items=5)
    factors = model.user_embedding, model.item_embedding, model.time_embedding
    assert model.squared_error() == pytest.approx(oracle.squared_error(factors), abs=1e-10)
    mean, precision = np.array([0.4, -0.2]), np.array([[2.0, 0.3], [0.3, 1.0]])
    prior = torch.from_numpy(mean), torch.from_numpy(precision)
    active = torch.zeros(3, 3, dtype=torch.float64)
    for user, _, k in events:
        active[user, k] = 1
    alpha = 1.7

    def check(mode, row, factors, prior, found):
        expected, covariance = oracle.conditional(
            mode, row, factors=factors, prior=prior, alpha=alpha
        )
        lower = torch.linalg.cholesky(torch.linalg.inv(covariance))
        moved = torch.linalg.solve(lower.T, torch.tensor(noise, dtype=torch.float64))
        torch.testing.assert_close(found, expected + moved, rtol=0, atol=1e-10)

    before = [f.clone() for f in factors]
    model._draw_users(alpha, Noise(noise), prior=(mean, precision), active=active)
    for row in range(3):
        check(0, row, before, prior, model.user_embedding[row])
    before = [f.clone() for f in factors]
    model._draw_items(alpha, Noise(noise), prior=(mean, precision))
    for row in range(1, 6):
        check(1, row, before, prior, model.item_embedding[row])
    assert not model.item_embedding[0].any()
    before = [f.clone() for f in factors]
    model._draw_times(alpha, Noise(noise), walk=(mean, precision), active=active)
    after = model.time_embedding
    middle = (after[0] + before[2][2]) / 2
    check(2, 0, before, ((prior[0] + before[2][1]) / 2, 2 * prior[1]), after[0])
    check(2, 1, before, (middle, 2 * prior[1]), after[1])
    check(2, 2, before, (after[1], prior[1]), after[2])


def test_bptf_s_priors_follow_their_rows():
    rng = np.random.default_rng(0)
    precision = np.array([[4.0, 1.0], [1.0, 2.0]])
    lower = np.linalg.cholesky(np.linalg.inv(precision))
    rows = np.array([0.5, -1.0]) + rng.standard_normal((20_000, 2)) @ lower.T
    mean, found = gaussian_prior(rows, rng)
    np.testing.assert_allclose(mean, [0.5, -1.0], atol=0.02)
    np.testing.assert_allclose(found, precision, atol=0.15)
    walk = np.cumsum(rows - rows.mean(axis=0), axis=0)
    _, found = walk_prior(walk, rng)
    np.testing.assert_allclose(found, precision, atol=0.15)
    starts = [walk_prior(np.full((400, 2), 3.0), rng)[0] for _ in range(300)]
    # Halfway between the prior's 1 and the first row; steps of nothing leave it little spread.
    np.testing.assert_allclose(np.mean(starts, axis=0), [2.0, 2.0], atol=0.02)


N_USERS, N_ITEMS, N_EVENTS, N_BINS = 400, 40, 14, 3


def observed(prepared_of, chances, rng):
    """Let users choose items, each time from what `chances(user, bin)` says; the bins are equal."""
    sequences, times = [], []
    for user in range(N_USERS):
        at = np.sort(rng.integers(0, N_BINS * 100 * DAY, size=N_EVENTS))
        at[:2] = 0, 1  # so that the bins of every prefix are those of the whole
        at[-3:] = N_BINS * 100 * DAY - 1
        of_bin = [chances(user, k) for k in range(N_BINS)]
        k = at // (100 * DAY)
        sequences.append([int(rng.choice(N_ITEMS, p=of_bin[b])) + 1 for b in k])
        times.append(at)
    data = prepared_of(sequences, n_items=N_ITEMS)
    return replace(data, timestamps=np.concatenate(times))


def fitted(config, data, **training):
    chosen = TrialConfig(
        dataset=DatasetConfig(name="small"),
        model=config,
        training=TrainingConfig(**training),
    )
    fit = Fit(chosen, data, device="cpu")
    for _ in range(training["epochs"]):
        if isinstance(fit.model, Bptf):
            fit.model.sweep(fit._draws)
        else:
            fit_epoch(fit.model, fit._batches, optimizer=fit._optimizer, dropout=None)
    return fit.model


def scores_at(model, data, k):
    """Return users x items: what the model says of bin k."""
    batch = evaluation_batch(data, "test", np.arange(N_USERS), max_len=99, target_time="actual")
    times = batch.times.clone()
    times[:, -1] = (100 * k + 50) * DAY
    with torch.no_grad():
        return model.all_scores(model.state(replace(batch, times=times)))[:, 1:].double().numpy()


def agreement(found, planted):
    """Return the correlation of what items differ by, for each user and bin."""
    return np.corrcoef(
        (found - found.mean(axis=-1, keepdims=True)).ravel(),
        (planted - planted.mean(axis=-1, keepdims=True)).ravel(),
    )[0, 1]


def test_timesvd_finds_planted_biases_and_tastes_that_turn(prepared_of):
    rng = np.random.default_rng(0)
    bias = rng.standard_normal((N_BINS, N_ITEMS))  # of an item in a bin
    side = np.where(np.arange(N_ITEMS) % 2, 1.0, -1.0)
    taste = rng.choice([-1.0, 1.0], size=N_USERS)  # turns round in the course of time
    turn = np.array([1.5, 0.0, -1.5])

    def chances(user, k):
        weights = np.exp(bias[k] + taste[user] * turn[k] * side)
        return weights / weights.sum()

    data = observed(prepared_of, chances, rng)
    config = TimesvdConfig(hidden=2, bins=N_BINS, negatives=4)
    model = fitted(config, data, epochs=25, batch=32, lr=0.02, weight_decay=5e-3)
    found = (model.item_bias + model.item_bin_bias).detach()[1:].double().numpy().T
    assert agreement(found, bias) > 0.8
    drift = (model.user_drift @ model.item_embedding[1:].T).detach().double().numpy()
    assert agreement(drift, -np.outer(taste, side)) > 0.7


def test_bptf_finds_a_planted_tensor(prepared_of):
    rng = np.random.default_rng(1)
    users = rng.dirichlet([0.7] * 2, size=N_USERS)
    items = rng.dirichlet([0.3] * N_ITEMS, size=2)
    times = np.array([[4.0, 0.2], [1.0, 1.0], [0.2, 4.0]])

    def chances(user, k):
        weights = (users[user] * times[k]) @ items
        return weights / weights.sum()

    data = observed(prepared_of, chances, rng)
    config = BptfConfig(hidden=2, bins=N_BINS, zero_weight=1.0, samples=20)
    model = fitted(config, data, epochs=40)
    planted = np.stack([[chances(u, k) for u in range(N_USERS)] for k in range(N_BINS)])
    found = np.stack([scores_at(model, data, k) for k in range(N_BINS)])
    still = found.mean(axis=0, keepdims=True).repeat(N_BINS, axis=0)
    assert agreement(found, planted) > 0.8
    assert agreement(found, planted) > agreement(still, planted) + 0.02  # time counts
