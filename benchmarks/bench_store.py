"""Time the results database at the size of a large grid: writing, asking, a report's frames.

    python benchmarks/bench_store.py [--database sqlite|postgresql] [--trials N] [--json FILE]

A study of `--trials` trials (50,000: 63 subsets, 4 data sets, 5 seeds, 40 hyperparameter points) of
20 epochs with 4 metrics and the epoch's seconds each, and per-user ranks of 1,000 users for 2,000
of them, is generated through the store's own tables. Then the queries that people ask are timed, in
a process that has everything loaded and as whole commands. Beside seconds stands the CPU time of
this process and its commands, not the server's: with SQLite, on a busy machine, the number to
trust. Ingest is what the driver does: reports of many trials, `--batch` of them in a transaction,
while four readers ask. PostgreSQL is a server of its own in a temporary folder; `TMPDIR` says where
that and the SQLite file lie (0.4 and 1 GB, removed at the end).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from sqlalchemy import Engine, event, insert, text

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analysis import frames, query
from analysis.coverage import coverage
from analysis.material import read_material
from analysis.status import status
from model.results import EpochReport, MetricValue
from study.engine import reading, writing
from study.packing import pack
from study.rows_between import TABLES
from study.space import all_subsets, label
from study.store import Store
from tests.postgres import postgres_server

EPOCHS, METRICS = 20, ("loss", "ndcg@10", "recall@10", "mrr")
SUBSETS = all_subsets()
STUDY = "large"


def cell_of(place: int) -> dict:
    """Return the factors of one trial: seeds vary first, so that ranked arms are whole."""
    seed, place = place % 5, place // 5
    subset, place = place % 63, place // 63
    dataset, place = place % 4, place // 4
    return {
        "dataset": f"data-{dataset}",
        "model": "meantime",
        "embeddings": label(SUBSETS[subset]),
        "hidden": (16, 32, 64, 128)[place % 4],
        "dropout": (0.1, 0.2, 0.3, 0.4, 0.5)[place // 4 % 5],
        "weight_decay": (0.0, 1e-5)[place // 20 % 2],
        "seed": seed,
    }


def trial_row(place: int) -> dict:
    subset = SUBSETS[place // 5 % 63]
    row = dict.fromkeys((column.name for column in TABLES["trial"].c), None)
    flags = {name: name in subset for name in ("day", "pos", "con", "sin", "exp", "log")}
    effective = {"place": place, "padding": "x" * 400}
    return {
        **row,
        **flags,
        "id": f"{place:016x}",
        **cell_of(place),
        "core": "once",
        "min_interactions": 5,
        "heads": 6,
        "layers": 2,
        "max_len": 50,
        "batch": 256,
        "lr": 1e-3,
        "epochs": EPOCHS,
        "target_time": "actual",
        "protocol": "popular-100",
        "repeats": "excluded",
        "effective": json.dumps(effective),
        "state": "complete",
        "attempts": 1,
        "result_attempt": 1,
    }


def generate(url: str, n_trials: int, n_ranked: int, users: int) -> None:
    """Write the study, 1,000 trials in a transaction."""
    rng = np.random.default_rng(0)
    engine = writing(url)
    began = datetime(2026, 3, 1, tzinfo=UTC)
    environment = {
        **dict.fromkeys((c.name for c in TABLES["environment"].c), ""),
        "id": "e",
        "commit": "0" * 40,
        "dirty": False,
        "packages": "{}",
        "threads": 1,
    }
    with engine.begin() as connection:
        connection.execute(
            insert(TABLES["study"]),
            {
                "name": STUDY,
                "question": "How large?",
                "definition": "{}",
                "declared": n_trials,
                "planned_at": began,
            },
        )
        connection.execute(insert(TABLES["environment"]), environment)
        connection.execute(
            insert(TABLES["dataset"]),
            {
                "fingerprint": "f",
                "name": "data-0",
                "n_users": users,
                "n_items": 1000,
                "n_interactions": 100_000,
                "n_days": 300,
                "preparation": "{}",
            },
        )
    metric_columns = [c.name for c in TABLES["result"].c if "@" in c.name or c.name.endswith("mrr")]
    greater = pack(rng.geometric(0.05, users).astype(np.int32) - 1)
    equal = pack(np.zeros(users, dtype=np.int32))
    for start in range(0, n_trials, 1000):
        places = range(start, min(start + 1000, n_trials))
        ids = [f"{place:016x}" for place in places]
        scores = rng.random((len(ids), EPOCHS))
        with engine.begin() as connection:
            connection.execute(insert(TABLES["trial"]), [trial_row(p) for p in places])
            connection.execute(
                insert(TABLES["cell"]),
                [
                    {
                        "study": STUDY,
                        "number": place,
                        **cell_of(place),
                        "heads": "6",
                        "others": "{}",
                        "stage": "final",
                        "state": "feasible",
                        "reason": None,
                        "trial": f"{place:016x}",
                    }
                    for place in places
                ],
            )
            connection.execute(
                insert(TABLES["attempt"]),
                [
                    {
                        "trial": trial,
                        "number": 1,
                        "state": "complete",
                        "started_at": began,
                        "ended_at": began + timedelta(seconds=60),
                        "environment": "e",
                        "fingerprint": "f",
                    }
                    for trial in ids
                ],
            )
            connection.execute(
                insert(TABLES["epoch_metric"]),
                [
                    {
                        "trial": trial,
                        "attempt": 1,
                        "epoch": epoch + 1,
                        "split": "train" if metric in {"loss", "seconds"} else "validation",
                        "protocol": "none" if metric in {"loss", "seconds"} else "popular-100",
                        "metric": metric,
                        "value": float(score[epoch]),
                    }
                    for trial, score in zip(ids, scores, strict=True)
                    for epoch in range(EPOCHS)
                    for metric in (*METRICS, "seconds")
                ],
            )
            connection.execute(
                insert(TABLES["result"]),
                [
                    {
                        "trial": trial,
                        "attempt": 1,
                        "fingerprint": "f",
                        "best_epoch": int(score.argmax()) + 1,
                        "epochs_trained": EPOCHS,
                        "stopped_by": "epochs",
                        "n_parameters": 100_000,
                        "seconds": 60.0,
                        **dict.fromkeys(metric_columns, float(score.max())),
                    }
                    for trial, score in zip(ids, scores, strict=True)
                ],
            )
            ranked = [trial for trial in ids if int(trial, 16) < n_ranked]
            if ranked:
                connection.execute(
                    insert(TABLES["rank"]),
                    [
                        {
                            "trial": trial,
                            "attempt": 1,
                            "split": split,
                            "protocol": protocol,
                            "n_users": users,
                            "greater": greater,
                            "equal": equal,
                        }
                        for trial in ranked
                        for split in ("validation", "test")
                        for protocol in ("popular-100", "full")
                    ],
                )
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ANALYZE"))
    engine.dispose()


def cpu_seconds() -> float:
    """Return what this process and its commands that have ended took of the processors."""
    return sum(os.times()[:4])


@contextmanager
def timed(found: dict, name: str):
    start, cpu = time.perf_counter(), cpu_seconds()
    yield
    found[name] = round(time.perf_counter() - start, 3)
    found[f"{name}, CPU"] = round(cpu_seconds() - cpu, 3)
    print(f"{name:44} {found[name]:8.3f} s, CPU {found[f'{name}, CPU']:8.3f}", file=sys.stderr)


def questions(url: str, n_trials: int, n_ranked: int) -> dict:
    """Time what people ask, second time of two: the first one warms the page cache."""
    found: dict = {}
    engine = reading(url)
    asked = {
        "group by subset over all trials": lambda: query.query(engine, group_by="embeddings"),
        "group by subset of the study": lambda: query.query(
            engine, study=STUDY, group_by="embeddings,hidden"
        ),
        "best subset of each data set": lambda: query.query(
            engine,
            group_by="dataset",
            columns="dataset,best(embeddings),best(validation_ndcg@10),best(test_ndcg@10)",
        ),
        "pivot": lambda: query.pivot(
            engine, row="embeddings", column="hidden", value="test_ndcg@10"
        ),
        "filter, sort, 20 rows": lambda: query.query(
            engine, where="day and not con", sort="test_ndcg@10", limit=20
        ),
        "coverage": lambda: coverage(engine, STUDY),
        "status": lambda: status(engine, STUDY),
        "curve of one trial": lambda: query.query(
            engine, source="curves", where=f"trial = '{7:016x}'"
        ),
        "ranks of the ranked trials": lambda: frames.ranks(engine, STUDY),
    }
    answers = {}
    for name, ask in asked.items():
        ask()
        with timed(found, name):
            answers[name] = ask()
    # Each answer is of what it is named after: an empty one would be fast.
    assert len(answers["group by subset over all trials"]) == min(63, n_trials)
    assert len(answers["filter, sort, 20 rows"]) == 20
    assert len(answers["curve of one trial"]) == EPOCHS
    assert answers["curve of one trial"]["validation_ndcg@10"].notna().all()
    assert answers["ranks of the ranked trials"]["trial"].nunique() == n_ranked
    statements: list[str] = []
    event.listen(Engine, "before_cursor_execute", lambda *a: statements.append(a[2]))
    with timed(found, "a report's frames"):
        material = read_material(url, STUDY)
    found["a report's statements"] = sum(s.startswith("SELECT") for s in statements)
    assert len(material.cells) == len(material.results) == n_trials
    assert len(material.values) == n_ranked
    assert len(material.curves) > 0
    engine.dispose()
    script = Path(sys.executable).with_name("meantime")
    for words in (["status"], ["query", "--group-by", "embeddings"]):
        with timed(found, f"command: meantime {' '.join(words)}"):
            subprocess.run([script, *words, "--store", url], check=True, capture_output=True)
    return found


def ingest(url: str, n_reports: int, batch: int) -> float:
    """Return epoch reports per second, recorded in batches while four readers ask."""
    code = (
        "import sys; from analysis import query; from study.engine import reading\n"
        "engine = reading(sys.argv[1])\n"
        "while True: query.query(engine, group_by='embeddings', where='seed < 3')"
    )
    readers = [subprocess.Popen([sys.executable, "-c", code, url]) for _ in range(4)]
    trials = [f"{place:016x}" for place in range(1000)]
    metrics = tuple(
        MetricValue(
            "train" if m == "loss" else "validation",
            "none" if m == "loss" else "popular-100",
            m,
            0.5,
        )
        for m in METRICS
    )
    try:
        with Store.open(url) as store:
            start = time.perf_counter()
            for first in range(0, n_reports, batch):
                with store.together():
                    for place in range(first, min(first + batch, n_reports)):
                        report = EpochReport(1000 + place // 1000, 1.0, metrics)
                        store.record_epoch(trials[place % 1000], 1, report)
            return n_reports / (time.perf_counter() - start)
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()


def size_of(url: str) -> int:
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        return sum(f.stat().st_size for f in path.parent.glob(f"{path.name}*"))
    engine = reading(url)
    with engine.connect() as connection:
        size = connection.scalar(text("SELECT pg_database_size(current_database())"))
    engine.dispose()
    return int(size)


def measured(url: str, options: argparse.Namespace) -> dict:
    found: dict = {"trials": options.trials, "epochs": EPOCHS}
    with timed(found, "generated"):
        generate(url, options.trials, options.ranked, options.users)
    rows = options.trials * EPOCHS * (len(METRICS) + 1)
    found["metric rows"] = rows
    found["megabytes"] = round(size_of(url) / 1e6, 1)
    print(f"{found['megabytes']} MB, {rows / found['generated']:,.0f} rows/s", file=sys.stderr)
    found |= questions(url, options.trials, min(options.ranked, options.trials))
    found["epoch reports/s while four readers ask"] = round(
        ingest(url, options.reports, options.batch)
    )
    print(f"{found['epoch reports/s while four readers ask']} reports/s", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--trials", type=int, default=50_000)
    parser.add_argument("--ranked", type=int, default=2_000)
    parser.add_argument("--users", type=int, default=1_000)
    parser.add_argument("--reports", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.database == "sqlite":
            found = measured(f"sqlite:///{folder}/results.db", options)
        else:
            with postgres_server() as server:
                found = measured(f"{server}/postgres", options)
    found["database"] = options.database
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
