"""Noise of the relative scores against true masks on every entry of r_ij, as the authors draw them.

`PlainMeantime` of the benchmarks is the plain path: it makes r_ij in full and drops its entries.
"""

import importlib.util
from pathlib import Path

import pytest
import torch

from model.blocks import drop
from model.config import MeantimeConfig
from model.data.batches import Batch

RATE, DRAWS, LENGTH, HIDDEN = 0.2, 4000, 7, 64
MIXED = (0, 1, 0, 59, 3_600, 86_400 * 30)  # ties, a second, .. a month
DAILY = (86_400,) * 6


def plain_class():
    path = Path(__file__).parents[2] / "benchmarks" / "plain.py"
    spec = importlib.util.spec_from_file_location("plain", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PlainMeantime


def scores_under_dropout(embedding, *, relative_dropout="entrywise", gaps=MIXED):
    """Draws of the relative scores of one head: ours, and those under masks on the full r_ij."""
    config = MeantimeConfig(
        embeddings=(embedding,),
        heads=4,
        hidden=HIDDEN,
        max_len=LENGTH,
        dropout=RATE,
        relative_dropout=relative_dropout,
    )
    plain = plain_class()(config, n_items=5, n_days=1, seed=0)
    times = 10**9 + torch.tensor([0, *gaps]).cumsum(0).expand(DRAWS, -1)
    batch = Batch(torch.ones_like(times), times, torch.zeros_like(times))
    attention = plain.block[0].attention
    generator = torch.Generator().manual_seed(0)
    width = HIDDEN // config.heads
    query = torch.randn(1, LENGTH, width, generator=generator).expand(DRAWS, -1, -1)
    with torch.no_grad():
        ours = attention.relative_scores(
            embedding,
            query,
            relation=plain.context(batch, None).relations[embedding],
            dropout=generator,
        )
        in_full = plain._relative(embedding, times).float()
        biased = query + attention.relative_bias[:, 0]
        u = biased @ attention.relative_key[embedding].weight * width**-0.5
        masked = torch.einsum("bif,bijf->bij", u, drop(in_full, RATE, generator))
    return ours.double(), masked.double()


def differences(scores):
    """What a softmax sees: scores of a query relative to its score of the newest key."""
    return scores[:, :, :-1] - scores[:, :, -1:]


@pytest.mark.parametrize("statistic", [lambda scores: scores, differences], ids=["score", "diff"])
@pytest.mark.parametrize("embedding", ["sin", "exp", "log"])
def test_entrywise_noise_has_the_mean_and_spread_of_true_masks(embedding, statistic):
    ours, masked = (statistic(scores) for scores in scores_under_dropout(embedding))
    spread = masked.std(0)
    # Five standard errors of a difference of two means.
    error = 5 * spread * (2 / DRAWS) ** 0.5 + 1e-6
    assert ((ours.mean(0) - masked.mean(0)).abs() <= error).all()
    # A standard deviation of 4,000 draws is good to 1.1%; Exp and Log add up to 5% by their knots.
    assert ((ours.std(0) - spread).abs() <= 0.11 * spread + 1e-6).all()
    assert ours.std(0).mean().item() == pytest.approx(spread.mean().item(), rel=0.03)


@pytest.mark.parametrize("embedding", ["sin", "exp", "log"])
def test_entrywise_noise_is_independent_between_keys(embedding):
    ours, _ = scores_under_dropout(embedding)
    centred = ours - ours.mean(0)
    moving = centred[:, 0, 3:]  # keys at some distance from query 0: none is without noise
    correlation = torch.corrcoef(moving.T) - torch.eye(moving.shape[1], dtype=moving.dtype)
    assert correlation.abs().max().item() < 5 / DRAWS**0.5


def test_equal_times_get_no_noise_from_log_as_there_is_nothing_to_drop():
    ours, masked = scores_under_dropout("log")
    assert masked.std(0)[0, 0] == 0
    assert ours.std(0)[0, 0] < 1e-5


def share_of_spread(embedding):
    """Of score differences: what `feature` leaves of the spread that true masks have."""
    feature, masked = scores_under_dropout(embedding, relative_dropout="feature", gaps=DAILY)
    ours, theirs = (differences(scores).std(0)[0, 1:] for scores in (feature, masked))
    return (ours.mean() / theirs.mean()).item()


def test_feature_dropout_hardly_moves_log_s_score_differences_but_does_move_sin_s():
    log, sin = share_of_spread("log"), share_of_spread("sin")
    # The softmax cancels what is common to all keys: nearly everything for Log.
    assert log < 0.15, log
    assert 0.7 < sin < 1.1, sin
