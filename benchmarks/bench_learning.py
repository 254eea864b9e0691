"""Does the fast path learn as the obvious one does? Validation NDCG@10 of both, over many seeds.

    python benchmarks/bench_learning.py [--seeds 8] [--fast-seeds 24] [--paths entrywise,plain] ..

Trains ml-100k (N 50, h 64, batch 64, dropout 0.2) with the network of `model.meantime` and with
`plain.PlainMeantime`, whose relative dropout is a true mask on every entry of r_ij. Each trial's
value is its mean validation NDCG@10 (popular-100) over the last ten epochs, which is steadier than
a best epoch; test is not read. Masks and normals are different draws, so that a seed pairs nothing:
intervals of differences are Welch's, and the fast path, ten times cheaper, has more seeds. Trials
run in two processes of one thread; each is kept in `--folder`, so that the command can be
interrupted and repeated. Equal curves mean that one network stood in for two: the table refuses.
"""

import argparse
import json
import os
import statistics
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from scipy.stats import ttest_ind

from model.config import DatasetConfig, MeantimeConfig, TrainingConfig, TrialConfig

SUBSETS = ("day+pos+sin+log", "log", "sin")


def trained(path: str, subset: str, seed: int, epochs: int, folder: Path) -> dict:
    """Train one trial, or read it if it was trained before."""
    file = folder / f"{path}_{subset}_{seed}_{epochs}.json"
    if file.exists():
        return json.loads(file.read_text(encoding="utf-8"))
    from plain import PlainMeantime

    import model.train as training
    from model.build import build
    from model.data.prepare import load_prepared
    from model.data.sources import data_folder
    from model.limits import LIMITS

    def plain(config, data, *, seed):
        return PlainMeantime(config, n_items=data.n_items, n_days=data.n_days, seed=seed)

    training.build = plain if path == "plain" else build
    # Only a matter of speed: r_ij in full leaves the cache earlier than scores do.
    scores = 40_000 if path == "plain" else 640_000
    LIMITS["cpu"] = replace(LIMITS["cpu"], scores=scores)
    embeddings = tuple(subset.split("+"))
    config = TrialConfig(
        dataset=DatasetConfig(name="ml-100k"),
        model=MeantimeConfig(
            embeddings=embeddings,
            heads=4,
            relative_dropout="feature" if path == "feature" else "entrywise",
        ),
        training=TrainingConfig(batch=64, epochs=epochs, patience=epochs),
        seed=seed,
    )
    values, seconds = [], []

    def report(epoch) -> None:
        values.extend(
            m.value for m in epoch.metrics if (m.split, m.metric) == ("validation", "ndcg@10")
        )
        seconds.append(epoch.seconds)

    training.train(config, load_prepared(config.dataset, data_folder(os.environ)), report=report)
    found = {
        "path": path,
        "subset": subset,
        "seed": seed,
        "ndcg": statistics.mean(values[-10:]),
        "by_epoch": values,
        "epoch_seconds": statistics.median(seconds),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found), encoding="utf-8")
    return found


def table(found: list[dict], against: str = "plain") -> list[str]:
    """Return a Markdown table of each path's difference to the obvious one, with its interval."""
    values = defaultdict(list)
    for f in found:
        values[f["path"], f["subset"]].append(f["ndcg"])
    curves = [tuple(f["by_epoch"]) for f in found]
    if len(set(curves)) < len(curves):
        raise ValueError("two trials must not have equal curves: they were one network")
    lines = [
        "| subset | path | seeds | validation NDCG@10 | difference to plain | s per epoch |",
        "|---|---|---|---|---|---|",
    ]
    for subset in dict.fromkeys(f["subset"] for f in found):
        for path in dict.fromkeys(f["path"] for f in found):
            mine = [f for f in found if (f["path"], f["subset"]) == (path, subset)]
            said = ""
            if path != against and len(mine) > 1 and len(plain := values[against, subset]) > 1:
                own = values[path, subset]
                low, high = ttest_ind(own, plain, equal_var=False).confidence_interval(0.95)
                mean = statistics.mean(own) - statistics.mean(plain)
                said = f"{mean:+.4f} [{low:+.4f}, {high:+.4f}]"
            ndcg = statistics.mean(f["ndcg"] for f in mine)
            seconds = statistics.median(f["epoch_seconds"] for f in mine)
            lines.append(
                f"| {subset} | {path} | {len(mine)} | {ndcg:.4f} | {said} | {seconds:.2f} |"
            )
    return lines


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8, help="of the obvious network, and others'")
    parser.add_argument("--fast-seeds", type=int, default=24, help="of entrywise dropout")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--paths", default="plain,entrywise,feature")
    parser.add_argument("--subsets", default=",".join(SUBSETS))
    parser.add_argument("--folder", type=Path, default=Path("results/learning"))
    options = parser.parse_args()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        waiting = [
            pool.submit(trained, path, subset, seed, options.epochs, options.folder)
            for subset in options.subsets.split(",")
            for path in options.paths.split(",")
            for seed in range(options.fast_seeds if path == "entrywise" else options.seeds)
        ]
        found = [future.result() for future in waiting]
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
