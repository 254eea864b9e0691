"""What dies: a worker, Ray itself on this machine, a cluster's node. No trial is lost for good."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from model.errors import RequestError
from study.checkpoints import Checkpoints
from study.cluster import RayDispatcher
from study.definition import Resources
from study.execute import Failed, Said, Started
from study.launch import backlog, launch, prepare_datasets
from study.needs import Need
from study.store import Store
from tests.study import pretended
from tests.study.small import planned
from tests.study.test_launch import launched as launched_serially
from tests.study.test_launch import rows

pytestmark = [pytest.mark.ray, pytest.mark.slow]

PATIENCE_SECONDS = 120


@pytest.fixture(autouse=True)
def importable(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(pretended.FOLDER))
    monkeypatch.setenv("PRETENDED_FOLDER", str(tmp_path))


def launched(folder, work, *, watch=lambda _: None, study="four", checkpoints=None, **options):
    """Launch a small study through Ray; return the outcome and what was said."""
    what = planned(study, folder)
    datasets, said = prepare_datasets(what, folder), []
    with Store.open(f"sqlite:///{folder}/results.db") as store, store.claim():
        left = backlog(what, store, datasets=datasets)
        outcome = launch(
            left.trials,
            store=store,
            dispatcher=RayDispatcher(
                Resources(**options.pop("resources", {})),
                work=f"pretended:{work}",
                say=said.append,
                checkpoints=checkpoints,
                **options,
            ),
            datasets=datasets,
            watch=watch,
            checkpoints=checkpoints,
        )
    return outcome, said


def children():
    """Return the processes below this one: pid -> its command line."""
    parents, names = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            names[int(entry.name)] = (entry / "cmdline").read_text(errors="replace")
            parents[int(entry.name)] = int(fields[1])
        except OSError:
            continue
    below, new = set(), {os.getpid()}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - below
        below |= new
    return {pid: names[pid] for pid in below}


def test_a_killed_worker_s_trials_are_lost_and_tried_again_in_the_same_launch(tmp_path):
    outcome, _ = launched(tmp_path, "killed_once")
    assert (outcome.completed, outcome.failed) == (4, {})
    assert rows(tmp_path, "SELECT state, failure, count(*) FROM attempt GROUP BY 1, 2") == [
        ("complete", None, 4),
        ("failed", "lost", 4),
    ]
    assert not [name for name in children().values() if "ray" in name]


def test_a_worker_killed_in_training_is_continued_from_its_checkpoint_to_the_same_ranks(tmp_path):
    folders = [tmp_path / name for name in ("killed", "undisturbed", "kept")]
    for folder in folders:
        folder.mkdir()
    killed, undisturbed, kept = folders
    outcome, _ = launched(killed, "killed_midway", checkpoints=Checkpoints(str(kept)))
    assert (outcome.completed, outcome.failed) == (4, {})
    launched_serially("four", undisturbed)
    ranks = 'SELECT trial, split, protocol, greater, equal FROM "rank" ORDER BY 1, 2, 3'
    assert len(rows(killed, ranks)) == 4 * 4
    assert rows(killed, ranks) == rows(undisturbed, ranks)
    assert list(kept.iterdir()) == []  # gone with the results


def test_ray_s_own_death_on_this_machine_costs_an_attempt_and_not_the_launch(tmp_path):
    killed = []

    def kill_ray(event):
        if isinstance(event, Started) and not killed:
            killed.extend(pid for pid, name in children().items() if "raylet/raylet" in name)
            os.kill(killed[0], signal.SIGKILL)
        if isinstance(event, Failed):
            (tmp_path / "go").touch()

    outcome, said = launched(tmp_path, "waiting", watch=kill_ray)
    assert (outcome.completed, outcome.failed) == (4, {})
    assert "starting it again" in said[0]
    lost = rows(tmp_path, "SELECT DISTINCT failure FROM attempt WHERE state = 'failed'")
    assert lost == [("lost",)]


def test_where_memory_decides_a_step_of_the_largest_trial_is_measured_first(tmp_path):
    what = planned("four", tmp_path)
    kind = ("meantime", "tiny")
    # Predicted: a tenth more than the machine has. A step takes a few megabytes.
    predicted = int(1.1 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    needs = {key: Need(predicted, 1.0, around=2**28, kind=kind) for key in what.trials}
    first, trial = next(iter(what.trials.items()))
    outcome, said = launched(tmp_path, "finished", needs=needs, rehearsed={kind: trial})
    assert (outcome.completed, outcome.failed) == (4, {})
    (told,) = said
    shown = re.fullmatch(
        rf"memory of meantime on tiny \({first}, the largest\): ([\d,]+) MiB measured in one step, "
        r"([\d,]+) predicted",
        told,
    )
    measured, expected = (int(number.replace(",", "")) for number in shown.groups())
    assert measured < 500
    assert expected == round((predicted - 2**28) / 2**20)


def test_a_trial_out_of_memory_runs_again_on_all_processors(tmp_path):
    outcome, _ = launched(tmp_path, "out_of_memory_beside_others")
    assert (outcome.completed, outcome.failed) == (4, {})
    assert rows(tmp_path, "SELECT failure FROM attempt WHERE state = 'failed'") == [("oom",)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster of two nodes, each a Ray node of its own with one CPU and a pretended GPU."""
    folder = tmp_path_factory.mktemp("cluster")
    environment = {
        **os.environ,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_worker_niceness": "0",
        "PYTHONPATH": str(pretended.FOLDER),
        "PRETENDED_FOLDER": str(folder),
    }
    ray = [sys.executable, "-c", "from ray.scripts.scripts import main; main()"]
    common = ["--num-cpus=1", "--num-gpus=1", "--object-store-memory=100000000", "--block"]
    address = "127.0.0.1:26379"

    def start(name, *where):
        return subprocess.Popen(
            [*ray, "start", f"--node-name={name}", *where, *common],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    head = start("first", "--head", "--port=26379", "--include-dashboard=false")
    _wait(lambda: _nodes(address, environment) == 1)
    second = start("second", f"--address={address}")
    _wait(lambda: _nodes(address, environment) == 2)
    yield address, second, folder
    for node in (second, head):
        _end(node)


def _nodes(address, environment):
    counted = (
        "import ray, sys\n"
        f"ray.init(address={address!r}, log_to_driver=False, logging_level='ERROR')\n"
        "print(sum(node['Alive'] for node in ray.nodes()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", counted],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return int(done.stdout or 0)


def _wait(condition):
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < give_up, "the cluster did not come up"


def _end(node):
    """Kill a node and everything that it started."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == node.pid:
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue
    node.wait()


class TestTwoNodes:
    """In this order: the last test kills a node."""

    @pytest.fixture(autouse=True)
    def without_tokens(self, monkeypatch):
        monkeypatch.setenv("RAY_AUTH_MODE", "disabled")

    def test_a_shortage_is_named_within_seconds(self, cluster, tmp_path):
        address, _, _ = cluster
        with pytest.raises(RequestError, match="2 CPU asked for, the largest node has 1"):
            launched(tmp_path, "finished", address=address, resources={"cpus": 2})

    def test_every_one_of_many_trials_on_a_share_of_a_gpu_sees_it(self, cluster, tmp_path):
        address, _, _ = cluster
        words = []
        outcome, _ = launched(
            tmp_path,
            "talking",
            address=address,
            study="shares",
            resources={"gpus": 0.25},
            watch=lambda event: words.append(event.text) if isinstance(event, Said) else None,
        )
        assert (outcome.completed, outcome.failed) == (24, {})
        assert len(words) == 24
        assert {text.split()[-1] for text in words} == {"0"}

    def test_both_train_and_a_killed_one_s_trial_runs_on_the_other(self, cluster, tmp_path):
        address, second, folder = cluster
        started = set()

        def kill_second(event):
            if isinstance(event, Started):
                started.add(event.environment.node)
            if started == {"first", "second"} and not (folder / "go").exists():
                _end(second)
                (folder / "go").touch()

        outcome, _ = launched(tmp_path, "waiting", address=address, watch=kill_second)
        assert (outcome.completed, outcome.failed) == (4, {})
        nodes = (
            "SELECT node, attempt.state, count(*) FROM attempt "
            "JOIN environment ON environment.id = attempt.environment GROUP BY 1, 2"
        )
        found = {row[:2]: row[2] for row in rows(tmp_path, nodes)}
        assert found["second", "failed"] == 1
        assert found["first", "complete"] >= 3
