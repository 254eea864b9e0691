"""A training step of MEANTIME against the obvious implementation, in turn in one process.

    python benchmarks/bench_attention.py [--json] [--length 200] [--hidden 64] [--batch 32] ..

`speedup` is plain seconds over ours, best of several each; `memory_ratio` is plain over ours, of
the peak resident memory of a step above the process before it. Both implementations hold the same
weights; dropout is on. Ours takes the gradient as training does, a few sequences at a time; the
plain one takes the batch at once, as implementations without such parts do.
"""

import argparse
import json

import numpy as np
import torch
from measure import machine, peak_bytes, timed
from plain import PlainMeantime

from model.config import MeantimeConfig
from model.data.batches import TrainingBatch
from model.meantime import Meantime
from model.train import gradient


def training_batch(batch: int, length: int, *, n_items: int, seed: int = 0) -> TrainingBatch:
    """Return a full batch, a fifth of it masked, with gaps from a second to months."""
    rng = np.random.default_rng(seed)
    items = rng.integers(1, n_items + 1, (batch, length))
    gaps = np.exp(rng.uniform(0, np.log(5e6), (batch, length))).astype(np.int64)
    times = 10**9 + gaps.cumsum(1)
    labels = np.where(rng.random((batch, length)) < 0.2, items, 0)
    return TrainingBatch(
        items=torch.from_numpy(np.where(labels > 0, n_items + 1, items)),
        times=torch.from_numpy(times),
        days=torch.from_numpy((times - times.min()) // 86_400 % 1000),
        labels=torch.from_numpy(labels),
    )


def step(model: Meantime, batch: TrainingBatch) -> None:
    """Run forward and backward once."""
    model.zero_grad()
    dropout = torch.Generator().manual_seed(0)
    if isinstance(model, PlainMeantime):
        model.loss(batch, dropout).backward()
    else:
        gradient(model, batch, dropout)


def compare(length: int, hidden: int, *, batch: int, embeddings: list[str], repeats: int) -> dict:
    """Measure both implementations at one size."""
    n_items = 3416  # MovieLens 1M
    config = MeantimeConfig(
        embeddings=tuple(embeddings), heads=len(embeddings), hidden=hidden, max_len=length
    )
    sizes = {"n_items": n_items, "n_days": 1000, "seed": 0}
    models = {"ours": Meantime(config, **sizes), "plain": PlainMeantime(config, **sizes)}
    drawn = training_batch(batch, length, n_items=n_items)
    memory, seconds = {}, {name: [] for name in models}
    for name, model in models.items():
        step(model, training_batch(2, length, n_items=n_items))  # first-call costs are not ours
        memory[name] = peak_bytes(lambda model=model: step(model, drawn))
    for turn in range(repeats):
        seconds["ours"] += [timed(lambda: step(models["ours"], drawn)) for _ in range(3)]
        if turn < max(1, repeats // 2):
            seconds["plain"].append(timed(lambda: step(models["plain"], drawn)))
    best = {name: min(found) for name, found in seconds.items()}
    return {
        "length": length,
        "hidden": hidden,
        "batch": batch,
        "embeddings": "+".join(embeddings),
        "speedup": best["plain"] / best["ours"],
        "memory_ratio": memory["plain"] / max(1, memory["ours"]),
        "sequences_per_second": {name: batch / found for name, found in best.items()},
        "peak_megabytes": {name: found / 2**20 for name, found in memory.items()},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--embeddings", default="day+pos+sin+log")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found = compare(
        options.length,
        options.hidden,
        batch=options.batch,
        embeddings=options.embeddings.split("+"),
        repeats=options.repeats,
    )
    found["machine"] = machine()
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print(
        f"N {found['length']}, h {found['hidden']}, batch {found['batch']}, {found['embeddings']}: "
        f"{found['speedup']:.1f} times the sequences per second, 1/{found['memory_ratio']:.1f} of "
        f"the memory; sequences per second {found['sequences_per_second']}, "
        f"MB {found['peak_megabytes']}"
    )


if __name__ == "__main__":
    main()
