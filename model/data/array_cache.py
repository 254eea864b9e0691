"""Named arrays on disk, written once and mapped by every reader: what is damaged is built again.

An entry is a folder of `.npy` files and `contents.json`, which has the SHA-256 of each. It appears
whole, by renaming, under a lock, so any number of processes may ask for one that is not there yet:
one builds it. Entries can be deleted at any time.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]

_CONTENTS = "contents.json"


def mapped(entry: Path, build: Callable[[], Arrays]) -> Arrays:
    """Return the arrays of an entry, read-only and not copied into memory.

    Args:
        entry: the folder; its name must tell everything that the arrays depend on.
        build: makes them where the entry is missing or damaged. Where the disk cannot keep them,
            they are returned as they were built.
    """
    found = _read(entry)
    if found is not None:
        return found
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(entry.with_name(f"{entry.name}.lock"))
        lock.acquire()
    except OSError:  # a read-only folder
        return build()
    try:
        found = _read(entry)  # someone else may have built it meanwhile
        if found is not None:
            return found
        built = build()
        try:
            _write(built, entry)
        except OSError:  # a full disk
            return built
        return _read(entry) or built
    finally:
        lock.release()


def peek(entry: Path, name: str) -> NDArray[Any] | None:
    """Return one array of an entry, its hash not compared; None where it is not there."""
    try:
        return np.asarray(np.load(entry / f"{name}.npy"))
    except (OSError, ValueError):
        return None


def size(folder: Path) -> int:
    """Return the bytes that the entries of a folder take."""
    return sum(file.stat().st_size for file in folder.glob("*/*.npy"))


def _read(entry: Path) -> Arrays | None:
    """Map an entry's arrays; None where any is not as it was written."""
    try:
        contents = json.loads((entry / _CONTENTS).read_bytes())
        if set(contents) != {file.stem for file in entry.glob("*.npy")}:
            return None
        arrays = {}
        for name, digest in contents.items():
            file = entry / f"{name}.npy"
            if _digest(file) != digest:
                return None
            # As a plain array: pickling a memmap would copy what can be handed on as it is.
            arrays[name] = np.asarray(np.load(file, mmap_mode="r"))
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return arrays


def _write(arrays: Arrays, entry: Path) -> None:
    unfinished = entry.with_name(f"{entry.name}.unfinished")
    for old in (unfinished, entry):
        shutil.rmtree(old, ignore_errors=True)
    unfinished.mkdir()
    contents = {}
    try:
        for name, array in arrays.items():
            file = unfinished / f"{name}.npy"
            np.save(file, array)
            contents[name] = _digest(file)
        (unfinished / _CONTENTS).write_text(json.dumps(contents, indent=1), encoding="utf-8")
        unfinished.rename(entry)
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
