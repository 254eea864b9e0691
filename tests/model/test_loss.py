import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from model.loss import item_cross_entropy


def drawn(n_positions, n_items, *, hidden=8, size=1.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    state = torch.randn(n_positions, hidden, generator=generator, dtype=dtype) * size
    items = torch.randn(n_items + 2, hidden, generator=generator, dtype=dtype)
    bias = torch.randn(1, n_items + 1, generator=generator, dtype=dtype)
    labels = torch.randint(1, n_items + 1, (n_positions,), generator=generator)
    return [x.requires_grad_() for x in (state, items, bias)], labels


def at_once(state, items, bias, labels):
    return functional.cross_entropy(state @ items[:-1].T + bias, labels)


@pytest.mark.parametrize("block", [None, 1, 21, 50, 10**6])  # 1, 1, 2 and 7 positions at a time
def test_blocks_of_logits_give_the_loss_and_gradients_of_all_at_once(block):
    inputs, labels = drawn(7, 20)
    loss = item_cross_entropy(inputs[0], inputs[1], bias=inputs[2], labels=labels, block=block)
    expected = at_once(*inputs, labels)
    torch.testing.assert_close(loss, expected)
    found = torch.autograd.grad(3 * loss, inputs)
    for mine, theirs in zip(found, torch.autograd.grad(3 * expected, inputs), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert found[1][-1].abs().max() == 0  # [MASK] is no class


def test_the_gradient_is_the_slope():
    inputs, labels = drawn(3, 4, hidden=2)
    assert torch.autograd.gradcheck(
        lambda state, items, bias: item_cross_entropy(state, items, bias=bias, labels=labels),
        inputs,
    )


def test_a_label_that_is_all_but_impossible_has_a_finite_loss():
    inputs, labels = drawn(6, 50, size=300.0, dtype=torch.float32)
    loss = item_cross_entropy(inputs[0], inputs[1], bias=inputs[2], labels=labels)
    torch.testing.assert_close(loss, at_once(*inputs, labels))
    assert loss.item() > 104  # exp(-104) is 0 in float32


def test_bad_logits_stay_visible():
    inputs, labels = drawn(2, 5)
    with torch.no_grad():
        inputs[0][1, 0] = torch.nan
    loss = item_cross_entropy(inputs[0], inputs[1], bias=inputs[2], labels=labels)
    assert loss.isnan()


class Largest(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, torch.Tensor):
                self.numel = max(self.numel, tensor.untyped_storage().nbytes() // tensor.itemsize)
        return made


def test_logits_of_a_large_catalogue_never_exist_all_at_once():
    n_positions, n_items = 400, 20_000
    inputs, labels = drawn(n_positions, n_items, dtype=torch.float32)
    with Largest() as largest:
        item_cross_entropy(inputs[0], inputs[1], bias=inputs[2], labels=labels).backward()
    assert largest.numel <= 1 << 19  # of 400 * 20,001 = 8 million
