import pytest
import torch

from model.blocks import (
    add_dropped,
    drop,
    dropped_gelu,
    kept_entries,
    kept_share,
    linear,
    side_by_side,
    standard_normal,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5, 0.9])
def test_dropout_zeroes_at_its_rate_and_keeps_the_mean(rate):
    mask = drop(torch.ones(1000, 999), rate, generator())
    dropped = (mask == 0).float().mean().item()
    assert dropped == pytest.approx(rate, abs=0.002)  # four standard errors of a million draws
    assert mask.unique().numel() == 2
    assert mask.max().item() == pytest.approx(1 / (1 - rate), rel=1e-3)
    assert mask.mean().item() == pytest.approx(1, abs=0.012)


def test_neighbours_are_dropped_independently():
    # Four entries share one draw: together they must still be four coins.
    kept = kept_entries(torch.empty(250_000, 4), 0.5, generator()) > 0
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
    assert torch.allclose(added, drop(branch, 0.5, generator()), atol=1e-6)


def test_a_rate_next_to_one_stays_finite():
    assert drop(torch.ones(100), 0.9999999, generator()).isfinite().all()
    assert kept_share(0.9999999) == 2**-16


def test_masks_come_from_the_given_generator_alone():
    before = torch.get_rng_state()
    first, second = (kept_entries(torch.empty(64), 0.5, generator(1)) for _ in range(2))
    linear(4, 4)
    assert torch.equal(first, second)
    assert not torch.equal(first, kept_entries(torch.empty(64), 0.5, generator(2)))
    assert torch.equal(torch.get_rng_state(), before)


def test_normal_noise_is_normal():
    drawn = standard_normal(torch.empty(1000, 1001), generator()).double()
    assert drawn.mean().item() == pytest.approx(0, abs=0.004)  # four standard errors
    assert drawn.square().mean().item() == pytest.approx(1, abs=0.006)
    assert (drawn**4).mean().item() == pytest.approx(3, abs=0.04)
    beyond = (drawn.abs() > 1.959964).double().mean().item()
    assert beyond == pytest.approx(0.05, abs=0.001)
    neighbours = (drawn[:, 1:] * drawn[:, :-1]).mean().item()
    assert neighbours == pytest.approx(0, abs=0.004)


def test_gelu_and_its_slope_are_torch_s():
    x = torch.linspace(-12, 12, 4001, dtype=torch.float64, requires_grad=True)
    found = dropped_gelu(x, 0.0, None)
    expected = torch.nn.functional.gelu(x, approximate="tanh")
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    (slope,) = torch.autograd.grad(found.sum(), x)
    (expected_slope,) = torch.autograd.grad(expected.sum(), x)
    torch.testing.assert_close(slope, expected_slope, rtol=0, atol=1e-12)


def test_what_gelu_drops_has_no_slope():
    x = torch.rand(40, 50, requires_grad=True)
    found = dropped_gelu(x, 0.5, generator())
    factors = drop(torch.ones_like(x), 0.5, generator())
    expected = torch.nn.functional.gelu(x, approximate="tanh") * factors
    torch.testing.assert_close(found, expected)
    (slope,) = torch.autograd.grad(found.sum(), x)
    (expected_slope,) = torch.autograd.grad(expected.sum(), x)
    torch.testing.assert_close(slope, expected_slope, rtol=1e-4, atol=1e-5)


def test_maps_side_by_side_are_the_maps():
    first, second = linear(5, 3), linear(5, 4, bias=False)
    for parameter in (*first.parameters(), *second.parameters()):
        torch.nn.init.normal_(parameter, generator=generator())
    x = torch.rand(2, 6, 5)
    for found, expected in zip(side_by_side(x, first, second), (first(x), second(x)), strict=True):
        torch.testing.assert_close(found, expected)
