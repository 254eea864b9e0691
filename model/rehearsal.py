"""How much memory a training adds to a process: one step and some users ranked, and measured.

Memory peaks in a step or in ranking, so an epoch would show no more. On a CPU it is the process's
peak above what it held before, on a GPU what torch's allocator took. A process rehearses once: what
an earlier training left would hide what this one needs.
"""

import re
from dataclasses import replace
from pathlib import Path

import torch

from model.config import TrialConfig
from model.data.prepare import PreparedData
from model.evaluate import evaluate
from model.limits import LIMITS
from model.results import reported
from model.train import Fit

_STATUS = Path("/proc/self/status")


def peak_bytes(
    config: TrialConfig, data: PreparedData, *, device: str = "cpu", threads: int = 1
) -> int | None:
    """Return the bytes that training adds at its peak; None where nothing tells.

    That is a model without weights, or a system other than Linux for training on a CPU.
    """
    if not config.model.training_factors:
        return None
    torch.set_num_threads(threads)
    _load_libraries(device)
    before = _held(device, peak=False)
    fit = Fit(config, data, device=device)
    fit.rehearse()
    evaluate(
        fit.model,
        _ranked_at_once(data, LIMITS[torch.device(device).type].logits),
        "test",
        protocols=reported(config.evaluation.protocol),
        evaluation=config.evaluation,
        max_len=config.model.span,
        device=device,
    )
    after = _held(device, peak=True)
    return None if before is None or after is None else max(0, after - before)


def _load_libraries(device: str) -> None:
    """Bring in what torch loads with the first step: it is the process's, not the training's."""
    weight = torch.ones(8, 8, device=device, requires_grad=True)
    optimizer = torch.optim.Adam([weight], fused=True)
    (weight @ weight).sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def _ranked_at_once(data: PreparedData, logits: int) -> PreparedData:
    """Return the data of the first users, as many as are ranked together at most."""
    n_users = min(data.n_users, max(1, logits // (data.n_items + 1)))
    n_events = int(data.offsets[n_users])
    return replace(
        data,
        n_users=n_users,
        items=data.items[:n_events],
        timestamps=data.timestamps[:n_events],
        days=data.days[:n_events],
        offsets=data.offsets[: n_users + 1],
        user_ids=data.user_ids[:n_users],
        negatives={name: drawn[:n_users] for name, drawn in data.negatives.items()},
    )


def _held(device: str, *, peak: bool) -> int | None:
    """Return the bytes that this process holds on the device, or held at most."""
    if torch.device(device).type == "cuda":
        held = torch.cuda.max_memory_reserved if peak else torch.cuda.memory_reserved
        return int(held(device))
    if not _STATUS.exists():
        return None
    name = "VmHWM" if peak else "VmRSS"
    found = re.search(rf"^{name}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    return None if found is None else int(found[1]) * 1024
