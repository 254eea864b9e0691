"""What a launch costs for each trial beside its training: trials that do nothing, recorded in full.

Beside it, in the same run: as many through bare Ray Tune with a new worker for each, and through
Optuna's own loop on SQLite.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import optuna
from measure import machine

from study.cluster import RayDispatcher
from study.definition import Resources, load_studies, study_named
from study.execute import Completed, Event
from study.launch import backlog, launch, prepare_datasets
from study.plan import plan
from study.store import Store

STUDY = """\
datasets:
  tiny:
    synthetic: {{recipe: planted-order, users: 400, items: 40, events: 10}}
studies:
  nothing:
    question: What does a trial cost that does nothing?
    datasets: [tiny]
    embeddings: [[pos]]
    seeds: [{seeds}]
"""

BARE = """\
import os, sys, tempfile, time
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AIR_NEW_OUTPUT="0")
import ray
from ray import tune
def nothing(config):
    tune.report({"value": config["x"]})
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
with tempfile.TemporaryDirectory() as folder:
    started = time.perf_counter()
    tune.Tuner(
        tune.with_resources(nothing, {"cpu": 1}),
        param_space={"x": tune.grid_search(list(range(int(sys.argv[1]))))},
        run_config=tune.RunConfig(storage_path=folder, verbose=0),
    ).fit()
    print("seconds", time.perf_counter() - started)
ray.shutdown()
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--bare-trials", type=int, default=None, help="default: --trials")
    parser.add_argument("--ours-alone", action="store_true", help="measure nothing beside it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    # Workers import the training from this folder.
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    n = options.trials
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        found = {
            "trials": n,
            **through_everything(n, folder),
        }
        if not options.ours_alone:
            found["bare_tune_seconds_per_trial"] = bare_tune(options.bare_trials or n)
            found["optuna_seconds_per_trial"] = optuna_alone(n, folder)
        found["machine"] = machine()
    if options.json:
        print(json.dumps(found))
        return
    for key, value in found.items():
        print(f"{key}: {value}")


def through_everything(n: int, folder: Path) -> dict[str, float]:
    """Plan, launch and record n trials, the start and end of Ray included."""
    file = folder / "studies.yaml"
    file.write_text(STUDY.format(seeds=", ".join(map(str, range(n)))), encoding="utf-8")
    declared = load_studies(file)
    what = plan(study_named(declared, "nothing"), declared)
    started = time.perf_counter()
    with Store.open(f"sqlite:///{folder}/results.db") as store, store.claim():
        datasets = prepare_datasets(what, folder)
        left = backlog(what, store, datasets=datasets)
        first_at: list[float] = []
        ray_bytes = [0]

        def watch(event: Event) -> None:
            if not first_at:
                first_at.append(time.perf_counter())
            if isinstance(event, Completed):
                ray_bytes.append(max(map(peak_bytes, children()), default=0))

        outcome = launch(
            left.trials,
            store=store,
            dispatcher=RayDispatcher(Resources(), work="nothing:train"),
            datasets=datasets,
            watch=watch,
        )
    seconds = time.perf_counter() - started
    if outcome.completed != n:
        sys.exit(f"only {outcome.completed} of {n} trials ended: {outcome.failed}")
    return {
        "seconds_per_trial": seconds / n,
        "seconds": seconds,
        "seconds_to_first_event": first_at[0] - started,
        # The launch and the process that drives Ray for it.
        "driver_peak_bytes": peak_bytes("self") + max(ray_bytes),
        "ray_driver_peak_bytes": max(ray_bytes),
    }


def peak_bytes(process: str) -> int:
    """Return the highest resident memory of a process so far; 0 where it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return next(
        (int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")),
        0,
    )


def children() -> list[str]:
    """Return the ids of this process's children."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()


def bare_tune(n: int) -> float:
    """Return seconds a trial of Ray Tune as it comes, with a worker process for each trial."""
    done = subprocess.run(
        [sys.executable, "-c", BARE, str(n)], capture_output=True, text=True, check=True
    )
    return float(done.stdout.split("seconds")[-1]) / n


def optuna_alone(n: int, folder: Path) -> float:
    """Return seconds a trial of Optuna's own loop, in one process, random points, SQLite."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage=f"sqlite:///{folder}/optuna.db", sampler=optuna.samplers.RandomSampler(seed=0)
    )
    started = time.perf_counter()
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=n)
    return (time.perf_counter() - started) / n


if __name__ == "__main__":
    main()
