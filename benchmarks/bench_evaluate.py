"""Evaluation of all users: seconds under one and both protocols, beside an epoch of training.

    python benchmarks/bench_evaluate.py [--json] [--dataset ml-100k] [--length 200] [--batch 64] ..

`share` is evaluation under both protocols over the same process's training epoch, best of several;
`products_share` the same of the operations in matrix products alone: what no order of work saves.
"""

import argparse
import json
import os

import torch
from measure import machine, products, timed

from model.config import DatasetConfig, MeantimeConfig, TrainingConfig, TrialConfig
from model.data.prepare import load_prepared
from model.data.sources import data_folder
from model.results import PROTOCOLS
from model.train import Fit


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="ml-100k")
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    dataset = DatasetConfig(name=options.dataset)
    config = TrialConfig(
        dataset=dataset,
        model=MeantimeConfig(hidden=options.hidden, max_len=options.length),
        training=TrainingConfig(batch=options.batch),
    )
    data = load_prepared(dataset, data_folder(os.environ))
    fit = Fit(config, data, device="cpu")

    def best(work) -> float:
        return min(timed(work) for _ in range(options.repeats))

    popular = best(lambda: fit.ranks("validation", protocols=("popular-100",)))
    both = best(lambda: fit.ranks("validation", protocols=PROTOCOLS))
    epoch = best(fit.next_epoch) - popular
    evaluated = products(lambda: fit.ranks("validation", protocols=PROTOCOLS))
    alone = products(lambda: fit.ranks("validation", protocols=("popular-100",)))
    trained = products(fit.next_epoch) - alone
    found = {
        "dataset": options.dataset,
        "users": data.n_users,
        "length": options.length,
        "popular_100_seconds": popular,
        "both_protocols_seconds": both,
        "users_per_second": data.n_users / both,
        "training_epoch_seconds": epoch,
        "share": both / epoch,
        "products_share": evaluated / trained,
        "machine": machine(),
    }
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print(
        f"{options.dataset} N {options.length}: {data.n_users} users under both protocols in "
        f"{both:.2f} s (popular-100 alone {popular:.2f} s), {both / epoch:.1%} of an epoch's "
        f"training of {epoch:.2f} s; matrix products: {evaluated / trained:.1%} of training's"
    )


if __name__ == "__main__":
    main()
