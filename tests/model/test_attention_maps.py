from types import SimpleNamespace

import numpy as np
import pytest
import torch

from model.attention_maps import GAPS, STEPS, attention_maps, attention_weights
from model.config import DatasetConfig, EvaluationConfig, MeantimeConfig, SyntheticConfig
from model.data.batches import Batch
from model.data.prepare import prepare
from model.data.synthetic import generate
from model.meantime import Meantime

ALL = ("day", "pos", "con", "sin", "exp", "log")
RECIPE = SyntheticConfig(recipe="planted-order", users=30, items=12, events=10)


def network(embeddings, *, heads, layers=2, n_items=12, n_days=40, spread=0.3):
    config = MeantimeConfig(
        embeddings=embeddings, heads=heads, hidden=12, layers=layers, max_len=8, dropout=0.2
    )
    model = Meantime(config, n_items=n_items, n_days=n_days, seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
    return model


def padded_batch():
    generator = torch.Generator().manual_seed(0)
    items = torch.randint(1, 13, (3, 7), generator=generator)
    items[1:, :3] = 0
    times = torch.randint(0, 400_000, (3, 7), generator=generator).cumsum(1)
    return Batch(items, times, times // 86_400)


@pytest.mark.parametrize(
    ("embeddings", "heads"), [((), 2), (("day", "pos"), 3), (("sin", "exp", "log"), 3), (ALL, 6)]
)
def test_the_weights_are_those_that_the_network_mixes_values_with(embeddings, heads):
    model, batch = network(embeddings, heads=heads), padded_batch()
    model = model.double()
    with torch.no_grad():
        weights = attention_weights(model, batch)
        assert weights.shape == (2, heads, 3, 7, 7)
        context = model.context(batch, None)
        x = model.item_embedding[batch.items]
        for block, of_block in zip(model.block, weights, strict=True):
            normed = block.attention_norm(x)
            values = block.attention.value(normed).chunk(heads, dim=-1)
            mixed = torch.cat([w @ v for w, v in zip(of_block, values, strict=True)], dim=-1)
            expected = block.attention(normed, context, scored=None, dropout=None)
            torch.testing.assert_close(block.attention.output(mixed), expected)
            x = block(x, context, scored=None, dropout=None)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, heads, 3, 7).double())
    assert weights[:, :, 1:, :, :3].abs().max() == 0  # padding is never looked at


def maps_of(model, data, **options):
    return attention_maps(
        model, data, "validation", evaluation=EvaluationConfig(), max_len=8, **options
    )


@pytest.fixture(scope="module")
def data():
    config = DatasetConfig(name="planted", synthetic=RECIPE)
    return prepare(generate(config.synthetic), config)


def test_a_network_that_does_not_care_looks_everywhere_alike(data):
    model = network(ALL, heads=6, n_items=data.n_items, n_days=data.n_days, spread=0.0)
    found = maps_of(model, data)
    assert found.heads == ALL
    assert found.n_users == data.n_users
    for shares in (found.by_gap, found.by_step):
        assert shares.attention.shape == (2, 6, len(shares.names))
        assert shares.uniform.sum() == pytest.approx(1)
        np.testing.assert_allclose(
            shares.attention, np.broadcast_to(shares.uniform, shares.attention.shape), atol=1e-6
        )
    # Ten events, two held out: the validation target and the 7 that fit before it, each 1/8.
    assert found.by_step.names == ("itself", "1", "2", "3–4", "5–8")
    np.testing.assert_allclose(found.by_step.uniform, [1 / 8, 1 / 8, 1 / 8, 2 / 8, 3 / 8])


def test_gaps_are_sorted_into_categories_that_start_where_the_last_one_ends():
    times = np.array([0, 31_557_600, 31_557_600 + 100, 31_557_600 + 130, 31_557_600 + 130])
    # Five events: the one at the place 3 is validation's target; the last, test's, is not read.
    data = SimpleNamespace(
        n_users=1,
        n_items=12,
        offsets=np.array([0, 5]),
        items=np.arange(1, 6, dtype=np.int32),
        timestamps=times,
        days=(times // 86_400).astype(np.int32),
        user_ids=np.array(["u"]),
    )
    found = maps_of(network(("log",), heads=1, n_days=400), data)
    assert found.by_gap.names == ("itself", "< 1 minute", "< 1 hour", "longer")
    np.testing.assert_allclose(found.by_gap.uniform, 0.25)
    assert found.history.gaps.tolist() == [31_557_730, 130, 30, 0]
    last_row = found.history.weights[:, :, -1]
    np.testing.assert_allclose(found.by_gap.attention, last_row[..., [3, 2, 1, 0]], atol=1e-6)


def test_categories_are_named_once_and_grow():
    for categories in (GAPS, STEPS):
        below = [limit for _, limit in categories]
        assert below == sorted(below)
        assert len({name for name, _ in categories}) == len(categories)
