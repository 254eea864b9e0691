"""Importing and preparing data sets: seconds and peak memory, each step in a fresh process.

    python benchmarks/bench_prepare.py [--json] [--cases ml-1m made] [--rows 20000000]

`ml-1m` is read from the product's data folder. `made` is a generated set of the size and shape of
ML-20M (138,493 users and 26,744 items to 20 million rows): skewed popularity, lognormal histories.
`load` maps what `prepare` kept. `cpu` is processor seconds, which a busy machine hardly changes.
Peak memory is the whole process's, the interpreter and its libraries included. Nothing is left in
the data folder: imports and prepared arrays go to a temporary one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

NAMES = ("ml-1m", "made")
ML20M = (20_000_000, 138_493, 26_744)
STEPS = ("import", "prepare", "load")


def made(path: Path, *, rows: int, seed: int = 20) -> None:
    """Write a Parquet file of about `rows` rows in random order of users' histories."""
    rng = np.random.default_rng(seed)
    scale = rows / ML20M[0]
    n_users, n_items = max(10, int(ML20M[1] * scale)), max(200, int(ML20M[2] * scale**0.5))
    lengths = rng.lognormal(4.2, 1.2, n_users)
    lengths = np.maximum(20, lengths * rows / lengths.sum()).astype(np.int64)
    users = np.repeat(np.arange(1, n_users + 1), lengths)
    popularity = 1 / (np.arange(1, n_items + 1) + 20) ** 1.1
    chances = np.cumsum(popularity) / popularity.sum()
    items = 1 + np.searchsorted(chances, rng.random(len(users))).clip(max=n_items - 1)
    started = np.repeat(rng.integers(8e8, 14e8, n_users), lengths)
    table = {
        "user": users,
        "item": items,
        "rating": rng.integers(1, 11, len(users)) / 2,
        "timestamp": started + rng.integers(0, 10_000_000, len(users)),
    }
    pq.write_table(pa.table(table), path)


def child(step: str, name: str, folder: Path) -> dict[str, object]:
    """Do one step in this process and return what it took."""
    from model.config import DatasetConfig
    from model.data.columns import Columns
    from model.data.prepare import load_prepared
    from model.data.sources import import_file

    started, used = time.perf_counter(), time.process_time()
    if step == "import":
        import_file(folder / f"{name}.parquet", name=name, folder=folder, columns=Columns())
        size = {}
    else:
        data = load_prepared(DatasetConfig(name=name), folder)
        size = {"events": len(data.items), "users": data.n_users, "items": data.n_items}
        size |= {"fingerprint": data.fingerprint[:12]}
    seconds = time.perf_counter() - started
    used = time.process_time() - used
    # Not `ru_maxrss`, which a process inherits from the one that started it.
    status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    peak = int(status["VmHWM"].split()[0]) / 1024
    return {
        "step": step,
        "seconds": round(seconds, 2),
        "cpu": round(used, 2),
        "peak_mb": round(peak),
        **size,
    }


def measured(step: str, name: str, folder: Path) -> dict[str, object]:
    """Do one step in a fresh process."""
    command = [sys.executable, __file__, "--child", step, name, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {"case": name, **json.loads(done.stdout)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cases", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--rows", type=int, default=ML20M[0], help="of the generated set")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        step, name, folder = options.child
        print(json.dumps(child(step, name, Path(folder))))
        return
    from model.data.sources import data_folder

    steps = []
    for name in options.cases:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            if name == "made":
                made(folder / "made.parquet", rows=options.rows)
            else:
                stored = data_folder(os.environ) / name / "interactions.parquet"
                (folder / f"{name}.parquet").symlink_to(stored.resolve())
            steps += [measured(step, name, folder) for step in STEPS]
    if options.json:
        print(json.dumps({"steps": steps}, indent=1))
        return
    for step in steps:
        print("  ".join(f"{key} {value}" for key, value in step.items()))


if __name__ == "__main__":
    main()
