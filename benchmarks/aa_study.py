"""Whether equal arms are ever called different: one arm's seeds, split in halves every way.

Eight seeds of one cell make 35 splits into two arms of four that differ by nothing but chance. A
test with an error rate of 5% may reject 5% of them, 1.75 splits; the splits overlap, so that one
unlucky seed shows in many of them.
"""

import argparse
import itertools
import json

import numpy as np

from analysis.frames import open_reader
from analysis.per_user import per_user
from analysis.resampling import sign_flip
from analysis.statistics import compare
from analysis.tables import measure

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
        found = compare(values[first], values[second])
        flips = sign_flip(values[first] - values[second], generator)
        rows.append(
            {
                "difference": found.mean,
                "p": found.p,
                "satterthwaite": found.satterthwaite,
                "sign_flips_of_users": flips.p,
                "interval": [found.interval.low, found.interval.high],
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
        rows = split_study(values, np.random.default_rng(0))
        tests = ("p", "satterthwaite", "sign_flips_of_users")
        summary[column] = {
            "seeds": len(values),
            "users": values.shape[1],
            "means": values.mean(axis=1).round(4).tolist(),
            "splits": len(rows),
            "allowed": RATE * len(rows),
            "rejected": {name: sum(row[name] < RATE for row in rows) for name in tests},
            "smallest_p": {name: min(row[name] for row in rows) for name in tests},
        }
    if options.json:
        print(json.dumps(summary, indent=1))
        return
    for column, found in summary.items():
        print(f"{column}: {found}")


if __name__ == "__main__":
    main()
