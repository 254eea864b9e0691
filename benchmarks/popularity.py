"""Prints what ranking by popularity alone reaches on a data set: the floor of every result.

python benchmarks/popularity.py ml-100k
"""

import os
import sys

from model.config import DatasetConfig
from model.data.prepare import load_prepared
from model.data.sources import data_folder
from model.metrics import summarise
from model.popularity import popularity_ranks

if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else "ml-100k"
    data = load_prepared(DatasetConfig(name=name), data_folder(os.environ))
    for split in ("validation", "test"):
        for ranks in popularity_ranks(data, split):
            values = "  ".join(f"{m.metric} {m.value:.4f}" for m in summarise(ranks))
            print(f"{name} {split} {ranks.protocol}: {values}")
