"""Files that are written whole or not at all."""

import os
import tempfile
from pathlib import Path

from model.errors import RequestError


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; its folder is made.

    Raises:
        RequestError: the folder or file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        unfinished = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            # mkstemp makes files for their owner alone; a figure is for everyone who may read here.
            unfinished.chmod(0o666 & ~_umask())
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RequestError(
            f"{path} must be writable, got {error.strerror or error}; name another place"
        ) from error


def _umask() -> int:
    """Return the process's mask; the only way to read it is to set it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
