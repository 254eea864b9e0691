"""Where an attempt trains: source commit, package versions, machine; no torch import needed."""

import hashlib
import json
import os
import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path

PACKAGES = ("meantime-study", "torch", "numpy", "ray", "optuna")
"""Distributions whose versions can move results or decide what ran."""

_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class Environment:
    """What a trial's numbers may depend on beside its configuration.

    Attributes:
        commit: Git commit of the source tree; None for an installed package.
        dirty: whether the tree differs from that commit; None without a commit.
        python: version of the interpreter.
        packages: (name, version) of the installed ones among `PACKAGES`, in that order.
        platform: operating system and architecture.
        node: name of the machine, or of the Ray node where it has one of its own.
        cpu: name of the processor.
        gpus: names of the GPUs that the process may use.
        device: torch device that the attempt trains on.
        threads: torch threads.
    """

    commit: str | None
    dirty: bool | None
    python: str
    packages: tuple[tuple[str, str], ...]
    platform: str
    node: str
    cpu: str
    gpus: tuple[str, ...]
    device: str
    threads: int

    @cached_property
    def id(self) -> str:
        """Hash of all fields: equal environments are stored once."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def machine_name() -> str:
    """Return the name that this machine has in its network."""
    return platform.node()


@cache
def environment(*, device: str, threads: int, node: str) -> Environment:
    """Return this process's environment, read once: it does not change while the process lives."""
    commit, dirty = source_commit(Path(__file__).resolve().parent.parent)
    return Environment(
        commit=commit,
        dirty=dirty,
        python=platform.python_version(),
        packages=tuple(_installed()),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        node=node,
        cpu=_processor(Path("/proc/cpuinfo")),
        gpus=() if device == "cpu" else _gpus(os.environ.get("CUDA_VISIBLE_DEVICES")),
        device=device,
        threads=threads,
    )


def source_commit(root: Path) -> tuple[str | None, bool | None]:
    """Return the commit of the tree at `root` and whether its tracked files differ from it.

    (None, None) where `root` is not the top of a Git tree: a package that is installed into some
    other project's folder must not take that project's commit for its own.
    """
    if _output("git", "-C", str(root), "rev-parse", "--show-toplevel") != str(root):
        return None, None
    commit = _output("git", "-C", str(root), "rev-parse", "HEAD")
    if commit is None:  # a tree without a commit
        return None, None
    changes = _output("git", "-C", str(root), "status", "--porcelain", "--untracked-files=no")
    return commit, changes != ""


def _installed() -> list[tuple[str, str]]:
    versions: list[tuple[str, str]] = []
    for name in PACKAGES:
        try:
            versions.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return versions


def _processor(cpuinfo: Path) -> str:
    """Return the processor's name; Linux keeps it in a file, other systems know it themselves."""
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _gpus(visible: str | None) -> tuple[str, ...]:
    """Return the names of the GPUs that `CUDA_VISIBLE_DEVICES` leaves to this process."""
    if shutil.which("nvidia-smi") is None:
        return ()
    listing = _output("nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader") or ""
    wanted = None if visible is None else [part.strip() for part in visible.split(",")]
    names: list[str] = []
    for line in listing.splitlines():
        index, uuid, name = (part.strip() for part in line.split(",", 2))
        if wanted is None or index in wanted or uuid in wanted:
            names.append(name)
    return tuple(names)


def gpu_bytes() -> int | None:
    """Return the memory of this machine's smallest GPU, or None where it has none."""
    if shutil.which("nvidia-smi") is None:
        return None
    listing = _output("nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits")
    sizes = [int(line) for line in (listing or "").split() if line.isdigit()]
    return min(sizes) * 2**20 if sizes else None


def _output(*command: str) -> str | None:
    """Return what a command prints, or None where it is missing, slow or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=_TIMEOUT_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
