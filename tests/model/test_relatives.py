"""CTA, Time-LSTM and the Transformer compute their equations, written out in loops."""

import pytest
import torch

from model.config import CtaConfig, TimeLstmConfig, TransformerConfig
from model.cta import Cta
from model.data.batches import Batch
from model.time_lstm import TimeLstm
from model.transformer import Transformer
from tests.reference_relatives import Calibrated, Encoded, Lstm

N_ITEMS, LENGTH = 9, 6


def loud(network):
    """Give every weight a size at which it matters, in float64."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.6)
    return network.double()


def seen():
    """Two sequences, the second with padding, and when each one's next event comes."""
    items = torch.tensor([[3, 1, 9, 4, 2, 3], [0, 0, 0, 7, 5, 8]])
    gaps = torch.tensor([[0, 90_000, 500, 0, 800_000, 70], [0, 0, 0, 40_000, 3, 2_000_000]])
    times = 10**9 + torch.cat([torch.zeros(2, 1, dtype=torch.int64), gaps.cumsum(1)[:, :-1]], 1)
    return Batch(items=items, times=times, days=torch.zeros_like(items)), gaps


@pytest.mark.parametrize("variant", [1, 2, 3])
def test_time_lstm_agrees_with_its_equations(variant):
    config = TimeLstmConfig(hidden=4, max_len=LENGTH, dropout=0.0, variant=variant)
    network = loud(TimeLstm(config, n_items=N_ITEMS, seed=0))
    batch, gaps = seen()
    oracle = Lstm(dict(network.named_parameters()), variant=variant)
    for n, found in enumerate(network.hidden(batch, gaps)):
        expected = torch.stack(oracle.hidden(batch.items[n].tolist(), gaps[n].tolist()))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_cta_agrees_with_its_equations():
    config = CtaConfig(hidden=4, heads=2, layers=1, max_len=LENGTH, dropout=0.0)
    network = loud(Cta(config, n_items=N_ITEMS, seed=0))
    batch, gaps = seen()
    oracle = Calibrated(dict(network.named_parameters()), heads=2, layers=1)
    for n, found in enumerate(network.hidden(batch, batch.times + gaps)):
        rows = (batch.items[n], batch.times[n], batch.times[n] + gaps[n])
        expected = torch.stack(oracle.states(*(row.tolist() for row in rows)))
        real = batch.items[n] > 0
        torch.testing.assert_close(found[real], expected[real], rtol=0, atol=1e-10)


def test_the_transformer_agrees_with_its_equations():
    config = TransformerConfig(hidden=4, heads=2, layers=2, max_len=LENGTH, dropout=0.0)
    network = loud(Transformer(config, n_items=N_ITEMS, seed=0))
    batch, _ = seen()
    oracle = Encoded(dict(network.named_parameters()), heads=2, layers=2, n_newer=3)
    found = network.hidden(batch)
    assert found.shape == (2, 3, 4)
    for n, row in enumerate(batch.items.tolist()):
        expected = torch.stack(oracle.states([item for item in row if item > 0]))
        torch.testing.assert_close(found[n], expected, rtol=0, atol=1e-10)
