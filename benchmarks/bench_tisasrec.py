"""A training step of TiSASRec against its obvious implementation, which looks up every pair's rows.

    python benchmarks/bench_tisasrec.py [--length 200] [--hidden 64] [--batch 16] [--json]

Both share weights, take gradients of the same batches in the same parts and agree (checked first).
Intervals are uniform up to the longest, so that no part of the tables is idle.
"""

import argparse
import json

import torch
from measure import machine, peak_bytes, timed
from torch import Tensor

from model.blocks import drop
from model.config import TisasrecConfig
from model.data.next_items import NextItemBatch
from model.randomness import torch_generator
from model.tisasrec import TimedAttention, Tisasrec


def obvious(self, query, x, *, context, dropout) -> Tensor:
    """Attend with tensors of batch x time x time x hidden for keys and for values."""
    n_queries, n_keys = query.shape[1], x.shape[1]
    mask, pairs = context.of_newest(n_queries)
    interval = pairs.interval.view(len(x), n_queries, n_keys)
    of_keys, of_values = context.interval_key[interval], context.interval_value[interval]
    q = self.query(query) * self._width**-0.5
    k = self.key(x) + context.position_key
    v = self.value(x) + context.position_value
    heads = []
    for first in range(0, q.shape[-1], self._width):
        own = slice(first, first + self._width)
        scores = q[..., own] @ k[..., own].mT
        scores = scores + torch.einsum("bih,bijh->bij", q[..., own], of_keys[..., own])
        weights = drop(torch.softmax(scores + mask, dim=-1), self._rate, dropout)
        by_time = torch.einsum("bij,bijh->bih", weights, of_values[..., own])
        heads.append(weights @ v[..., own] + by_time)
    return torch.cat(heads, dim=-1)


def batch_of(options: argparse.Namespace) -> NextItemBatch:
    """Draw full sequences whose pairs have every interval."""
    generator = torch_generator(0, "bench")
    shape = (options.batch, options.length)
    gaps = torch.randint(1, 2 * 2048 // options.length, shape, generator=generator)

    def items() -> Tensor:
        return torch.randint(1, options.items + 1, shape, generator=generator)

    times = gaps.cumsum(dim=1)
    zeros = torch.zeros(shape, dtype=torch.int64)
    return NextItemBatch(
        items=items(),
        times=times,
        days=zeros,
        labels=items(),
        users=zeros,
        units=torch.ones_like(zeros),
        next_times=times,
        negatives=items()[..., None],
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--items", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    config = TisasrecConfig(hidden=options.hidden, max_len=options.length)
    model = Tisasrec(config, n_items=options.items, seed=0)
    batch = batch_of(options)
    fast = TimedAttention.forward

    def step() -> None:
        model.zero_grad()
        model.loss(batch, torch_generator(0, "dropout")).backward()

    found: dict[str, dict[str, float]] = {}
    gradients = []
    for name, forward in (("fast", fast), ("obvious", obvious)):
        TimedAttention.forward = forward
        step()
        gradients.append([p.grad.clone() for p in model.parameters()])
        seconds = min(timed(step) for _ in range(options.repeats))
        found[name] = {
            "sequences_per_second": options.batch / seconds,
            "megabytes": peak_bytes(step) / 2**20,
        }
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)
    quick, plain = found["fast"], found["obvious"]
    found["ratio"] = {
        "speed": quick["sequences_per_second"] / plain["sequences_per_second"],
        "memory": quick["megabytes"] / plain["megabytes"],
    }
    if options.json:
        print(json.dumps({"machine": machine(), "options": vars(options), **found}, indent=1))
        return
    print(
        f"TiSASRec N {options.length} h {options.hidden} batch {options.batch}: "
        f"{quick['sequences_per_second']:.0f} sequences/s against "
        f"{plain['sequences_per_second']:.1f}, {found['ratio']['speed']:.1f} times; "
        f"{quick['megabytes']:.0f} MB against {plain['megabytes']:.0f}, "
        f"{found['ratio']['memory']:.2f} of it"
    )


if __name__ == "__main__":
    main()
