"""A whole trial on MovieLens 1M beside the published numbers; ends at a time limit if need be.

    python benchmarks/full_trial.py --device cuda --seconds 240

Another data set, short sequences and a second show whether it works: `--device cpu --dataset
ml-100k --length 10 --seconds 1`. Only ml-1m at length 200 compares with what was published.
"""

import argparse
import os
import time

from model.config import DatasetConfig, MeantimeConfig, TrainingConfig, TrialConfig
from model.data.prepare import load_prepared
from model.data.sources import data_folder
from model.metrics import summarise
from model.results import PROTOCOLS
from model.train import Fit

PUBLISHED = {"recall@10": 0.7412, "ndcg@10": 0.5255}  # Cho, Park, Yoo 2020, table 2; popular-100

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dataset", default="ml-1m")
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--seconds", type=float, default=240.0)
    options = parser.parse_args()
    config = TrialConfig(
        dataset=DatasetConfig(name=options.dataset),
        model=MeantimeConfig(hidden=64, max_len=options.length),
        training=TrainingConfig(precision=options.precision),
    )
    training, data = config.training, load_prepared(config.dataset, data_folder(os.environ))
    fit, started = Fit(config, data, device=options.device), time.perf_counter()
    while (
        fit.epoch < training.epochs
        and fit.epoch - fit.best_epoch < training.patience
        and time.perf_counter() - started < options.seconds
    ):
        metrics = {m.metric: m.value for m in fit.next_epoch()}
        if fit.epoch % 10 == 1:
            print(f"epoch {fit.epoch}: {metrics}", flush=True)
    seconds = time.perf_counter() - started
    fit.model.load_state_dict(fit.best)
    print(f"best epoch {fit.best_epoch} of {fit.epoch}, {seconds:.0f} s on {options.device}")
    published = PUBLISHED if (options.dataset, options.length) == ("ml-1m", 200) else {}
    for ranks in fit.ranks("test", protocols=PROTOCOLS):
        for metric in summarise(ranks):
            beside = f" (published {published.get(metric.metric)})" * (
                ranks.protocol == "popular-100" and metric.metric in published
            )
            print(f"test {ranks.protocol} {metric.metric} {metric.value:.4f}{beside}")
