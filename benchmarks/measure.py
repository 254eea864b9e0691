"""What the benchmarks share: the machine in words, best of several, memory above a baseline."""

import ctypes
import platform
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


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


def products(work: Callable[[], object]) -> int:
    """Return the floating-point operations of a call's matrix products, also in inference mode."""
    counter = _Products()
    with counter:
        work()
    return counter.operations


class _Products(TorchDispatchMode):
    """torch's own counter, which wants gradients, plus what inference mode does not take apart."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        match str(packet := func._overloadpacket):
            case "aten.linear" | "aten.matmul":
                self.operations += 2 * out.numel() * args[0].shape[-1]
            case "aten.scaled_dot_product_attention":
                self.operations += 4 * out.numel() * args[1].shape[-2]
            case _ if packet in flop_registry:
                self.operations += flop_registry[packet](*args, **(kwargs or {}), out_val=out)
        return out


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
