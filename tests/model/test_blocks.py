import pytest
import torch

from model.blocks import add_dropped, drop, dropout_mask, linear


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5, 0.9])
def test_dropout_zeroes_at_its_rate_and_keeps_the_mean(rate):
    mask = dropout_mask(torch.empty(1000, 999), rate, generator())
    dropped = (mask == 0).float().mean().item()
    assert dropped == pytest.approx(rate, abs=0.002)  # four standard errors of a million draws
    assert mask.unique().numel() == 2
    assert mask.max().item() == pytest.approx(1 / (1 - rate), rel=1e-3)
    assert mask.mean().item() == pytest.approx(1, abs=0.012)


def test_neighbours_are_dropped_independently():
    # Four entries share one draw: together they must still be four coins.
    kept = dropout_mask(torch.empty(250_000, 4), 0.5, generator()) > 0
    patterns = kept.int() @ torch.tensor([1, 2, 4, 8], dtype=torch.int32)
    shares = patterns.bincount(minlength=16) / 250_000
    assert shares.tolist() == pytest.approx([1 / 16] * 16, abs=0.002)


def test_without_a_generator_or_a_rate_nothing_is_dropped():
    x, branch = torch.rand(3, 5), torch.rand(3, 5)
    assert torch.equal(drop(x, 0.5, None), x)
    assert torch.equal(drop(x, 0.0, generator()), x)
    assert torch.equal(add_dropped(x, branch, rate=0.5, generator=None), x + branch)


def test_a_dropped_branch_leaves_the_rest_alone():
    x, branch = torch.rand(50, 50), torch.ones(50, 50)
    added = add_dropped(x, branch, rate=0.5, generator=generator()) - x
    assert torch.allclose(added, dropout_mask(branch, 0.5, generator()), atol=1e-6)


def test_a_rate_next_to_one_stays_finite():
    assert dropout_mask(torch.empty(100), 0.9999999, generator()).isfinite().all()


def test_masks_come_from_the_given_generator_alone():
    before = torch.get_rng_state()
    first, second = (dropout_mask(torch.empty(64), 0.5, generator(1)) for _ in range(2))
    linear(4, 4)
    assert torch.equal(first, second)
    assert not torch.equal(first, dropout_mask(torch.empty(64), 0.5, generator(2)))
    assert torch.equal(torch.get_rng_state(), before)
