"""Whether a short budget orders subsets as a long one does: two studies of the same subsets.

    python benchmarks/budget_order.py [--short ml-100k-subsets] [--long ml-100k-budget]

A subset's value is its mean over seeds, at the best validation epoch of each trial. Kendall's tau
is that of the subsets which both studies trained; a pair of subsets further apart than `--apart`
under the long budget is one that a short budget should not turn round.
"""

import argparse
import itertools
import json

import pandas as pd
from scipy.stats import kendalltau

from analysis.frames import open_reader, results


def means(store: str, study: str, column: str) -> pd.Series:
    """Return each subset's mean over its complete trials, by label."""
    rows = results(open_reader(store), study)
    return rows[rows["state"] == "complete"].groupby("embeddings")[column].mean()


def agreement(table: pd.DataFrame, apart: float) -> dict[str, float | int]:
    """Compare the orders of the columns `short` and `long`."""
    far = [
        (first, second)
        for first, second in itertools.combinations(table.index, 2)
        if abs(table.long[first] - table.long[second]) > apart
    ]
    kept = sum(
        bool((table.short[a] > table.short[b]) == (table.long[a] > table.long[b])) for a, b in far
    )
    return {
        "subsets": len(table),
        "tau": round(float(kendalltau(table.short, table.long).statistic), 3),
        "pairs apart": len(far),
        "of them in order": kept,
        "lost by the short budget's choice": round(
            float(table.long.max() - table.long[table.short.idxmax()]), 4
        ),
    }


def main() -> None:
    """Print each subset under both budgets, and how well the orders agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="sqlite:///results.db")
    parser.add_argument("--short", default="ml-100k-subsets")
    parser.add_argument("--long", default="ml-100k-budget")
    parser.add_argument("--metrics", nargs="+", default=["validation_ndcg@10", "test_ndcg@10"])
    parser.add_argument("--apart", type=float, default=0.01)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {}
    for column in options.metrics:
        table = pd.DataFrame(
            {
                "short": means(options.store, options.short, column),
                "long": means(options.store, options.long, column),
            }
        ).dropna()
        found[column] = agreement(table, options.apart)
        if not options.json:
            print(f"{column}\n{table.sort_values('long').round(4)}\n{found[column]}\n")
    if options.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
