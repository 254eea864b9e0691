"""Whether equal arms are ever called different: one arm's seeds, split in halves every way.

Eight seeds of one cell make 35 splits into two arms of four that differ by nothing but chance. A
test with an error rate of 5% may reject 5% of them, 1.75 splits; the splits overlap, so that one
unlucky seed shows in many of them. The halves share no seed, so that seeds are not paired; the
paired test is tried over all 24 ways to pair them, 840 comparisons, of which it may reject 42.
"""

import argparse
import itertools
import json
import sys

import numpy as np

from analysis.error_distribution import two_sided
from analysis.frames import open_reader
from analysis.per_user import per_user
from analysis.resampling import sign_flip
from analysis.statistics import error_parts
from analysis.tables import measure
from analysis.unpaired import compare_unpaired

RATE = 0.05


def halves(seeds):
    """Yield each way to split an even number of seeds in two, once."""
    everyone = set(range(seeds))
    for rest in itertools.combinations(range(1, seeds), seeds // 2 - 1):
        first = (0, *rest)
        yield list(first), sorted(everyone - set(first))


def split_study(values, generator):
    """Compare the halves of every split, values of shape (seeds, users)."""
    rows = []
    for first, second in halves(len(values)):
        found = compare_unpaired(values[first], values[second])
        orders = [list(order) for order in itertools.permutations(second)]
        mean, error = error_parts(np.stack([values[first] - values[order] for order in orders]))
        rows.append(
            {
                "difference": found.mean,
                "interval": [found.interval.low, found.interval.high],
                "unpaired": found.p,
                "paired": two_sided(mean, error).tolist(),
                "sign flips of users": sign_flip(values[first] - values[second], generator).p,
            }
        )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="sqlite:///results.db")
    parser.add_argument("--study", default="ml-100k-aa")
    parser.add_argument("--metrics", nargs="+", default=["test_ndcg@10", "test_full_ndcg@10"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    engine = open_reader(options.store)
    summary = {}
    for column in options.metrics:
        values = np.stack(list(per_user(engine, options.study, measure(column)).values()))
        if len(values) % 2:
            sys.exit(f"halves need an even number of complete seeds, got {len(values)}")
        rows = split_study(values, np.random.default_rng(0))
        paired = np.array([row["paired"] for row in rows])
        summary[column] = {
            "seeds": len(values),
            "users": values.shape[1],
            "means": values.mean(axis=1).round(4).tolist(),
            "splits": len(rows),
            "allowed": RATE * len(rows),
            "unpaired rejects": sum(row["unpaired"] < RATE for row in rows),
            "paired in order of seeds rejects": int((paired[:, 0] < RATE).sum()),
            "paired in all orders rejects": float((paired < RATE).mean()),
            "sign flips of users reject": sum(row["sign flips of users"] < RATE for row in rows),
        }
    if options.json:
        print(json.dumps(summary, indent=1))
        return
    for column, found in summary.items():
        print(f"{column}: {found}")


if __name__ == "__main__":
    main()
