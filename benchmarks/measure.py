"""What the benchmarks share: the machine in words, best of several, memory above a baseline."""

import ctypes
import platform
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch


def machine() -> dict[str, object]:
    """Name what a figure was measured on."""
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "cpu": cpu,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def sgemm_rate(size: int = 1024, *, repeats: int = 10, device: str = "cpu") -> float:
    """Return the best float32 matrix product's rate, floating-point operations per second."""
    a, b = torch.ones(size, size, device=device), torch.ones(size, size, device=device)
    return 2 * size**3 / min(timed(lambda: (a @ b, settle(device))) for _ in range(repeats))


def settle(device: str) -> None:
    """Wait until a device has done what it was given; a CPU always has."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def peak_bytes(work: Callable[[], object]) -> int:
    """Return how far the process's resident memory rises above its level before the call.

    The level is sampled every millisecond in a thread of its own; freed memory is returned to the
    system first, so that a call before does not hide what this one needs.
    """
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    page, highest, stop = 4096, 0, threading.Event()
    statm = Path("/proc/self/statm")

    def resident() -> int:
        return int(statm.read_text(encoding="ascii").split()[1]) * page

    def watch() -> None:
        nonlocal highest
        while not stop.wait(0.001):
            highest = max(highest, resident())

    before = resident()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        stop.set()
        watcher.join()
    return max(0, highest - before)
