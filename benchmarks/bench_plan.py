"""Planning 100,000 cells, and launching a study of 2,000 trials again that is complete."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import machine

from study.definition import Resources, load_studies, study_named
from study.dispatch import SerialDispatcher
from study.launch import backlog, launch, prepare_datasets
from study.plan import plan
from study.store import Store

STUDIES = """\
datasets:
  tiny:
    synthetic: {recipe: planted-order, users: 400, items: 40, events: 10}
defaults: {heads: 6}
studies:
  wide:
    question: How long does it take to plan 100,000 cells?
    datasets: [tiny]
    embeddings: all-subsets-and-none
    grid:
      hidden: [16, 32, 64, 128, 256]
      dropout: [0.1, 0.2, 0.5]
      weight_decay: [0, 1e-6, 1e-5, 1e-4]
      lr: [1e-3, 2e-3, 4e-3]
      max_len: [25, 50, 100]
    seeds: [0, 1, 2]
  finished:
    question: How long does a launch take that has nothing to do?
    datasets: [tiny]
    embeddings: [[pos]]
    grid: {hidden: [16, 32, 64, 128], dropout: [0.1, 0.2, 0.3, 0.4, 0.5]}
    seeds: [SEEDS]
"""
SEEDS = 100


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        file = folder / "studies.yaml"
        text = STUDIES.replace("SEEDS", ", ".join(map(str, range(SEEDS))))
        file.write_text(text, encoding="utf-8")
        found = {**planned(file), **relaunched(file), "machine": machine()}
    if options.json:
        print(json.dumps(found))
        return
    for key, value in found.items():
        print(f"{key}: {value}")


def planned(file: Path) -> dict[str, float]:
    """Read the file and plan its wide study."""
    started = time.perf_counter()
    declared = load_studies(file)
    what = plan(study_named(declared, "wide"), declared)
    return {"plan_seconds": time.perf_counter() - started, "plan_cells": len(what.cells)}


def relaunched(file: Path) -> dict[str, float]:
    """Complete the other study with trials that do nothing, then launch it as a user does."""
    folder = file.parent
    declared = load_studies(file)
    what = plan(study_named(declared, "finished"), declared)
    environment = {
        **os.environ,
        "MEANTIME_DATA": str(folder / "data"),
        "MEANTIME_STORE": f"sqlite:///{folder}/results.db",
    }
    with Store.open(environment["MEANTIME_STORE"]) as store, store.claim():
        datasets = prepare_datasets(what, folder / "data")
        left = backlog(what, store, datasets=datasets)
        launch(
            left.trials,
            store=store,
            dispatcher=SerialDispatcher(Resources(), work="nothing:train"),
            datasets=datasets,
            watch=lambda _: None,
        )
    script = Path(sys.executable).with_name("meantime")
    started = time.perf_counter()
    done = subprocess.run(
        [script, "launch", "finished"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - started
    if done.returncode or "Nothing to start" not in done.stderr:
        sys.exit(done.stderr)
    return {"relaunch_seconds": seconds, "relaunch_trials": len(what.trials)}


if __name__ == "__main__":
    main()
