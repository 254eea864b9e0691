"""Trainings for tests of everything around them, imported by workers by the name `pretended`."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from model.results import PROTOCOLS, EpochReport, MetricValue, Ranks, TrialResult

FOLDER = Path(__file__).parent
"""To be on PYTHONPATH where workers are to import this module."""


def finished(config, data, *, report, **_):
    """Train nothing, report every epoch and return a result."""
    value = (config.seed + len(config.model.embeddings)) / 97
    metric = MetricValue("validation", "popular-100", "ndcg@10", value)
    for epoch in range(1, config.training.epochs + 1):
        report(EpochReport(epoch, 0.0, (metric,)))
    ranks = tuple(
        Ranks(split, protocol, *(np.full(data.n_users, config.seed + n, np.int32) for n in (0, 1)))
        for split in ("validation", "test")
        for protocol in PROTOCOLS
    )
    return TrialResult(1, config.training.epochs, "epochs", (metric,), ranks, 1, 0.0)


def killed_once(config, data, *, report, **options):
    """Be killed, as by the kernel, the first time the trial is tried."""
    if _first_time(config):
        os.kill(os.getpid(), signal.SIGKILL)
    return finished(config, data, report=report, **options)


def killed_midway(config, data, *, report, **options):
    """Train for real, and be killed after the first epoch the first time the trial is tried."""
    from model.train import train

    first = _first_time(config)

    def tell(epoch):
        report(epoch)
        if first:
            os.kill(os.getpid(), signal.SIGKILL)

    return train(config, data, report=tell, **options)


def out_of_memory_beside_others(config, data, *, report, **options):
    """Run out of memory the first time the trial with Day is tried."""
    if "day" in config.model.embeddings and _first_time(config):
        raise MemoryError
    return finished(config, data, report=report, **options)


def always_out_of_memory(config, data, *, report, **options):
    """Run out of memory where the embedding is Day."""
    if "day" in config.model.embeddings:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried ..")
    return finished(config, data, report=report, **options)


def talking(config, data, *, report, **options):
    """Print which process this is and which GPU it may use."""
    print(f"process {os.getpid()} sees GPU {os.environ.get('CUDA_VISIBLE_DEVICES')}")  # noqa: T201
    return finished(config, data, report=report, **options)


def waiting(config, data, *, report, **options):
    """Report an epoch, then wait until the file `go` lies in the folder that the test named."""
    report(EpochReport(1, 0.0, ()))
    while not (Path(os.environ["PRETENDED_FOLDER"]) / "go").exists():
        time.sleep(0.05)
    return finished(config, data, report=lambda _: None, **options)


def _first_time(config):
    marks = Path(os.environ["PRETENDED_FOLDER"])
    name = f"{config.seed}-{'+'.join(config.model.embeddings)}"
    try:
        (marks / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
