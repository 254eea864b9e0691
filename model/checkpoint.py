"""A checkpoint is one file that holds an interrupted training whole, or is not used.

It is replaced in one move after every epoch, so that there is one file per trial however long it
trains, with the last and the best state in it, both of the same moment. Rules for what is found:

- none, or damaged, or from another kind of device or version: training begins anew, which costs
  time and no result, since the same configuration gives the same numbers;
- of another trial, by its configuration or its data's fingerprint: refused, and left as it is.
"""

import errno
import hashlib
import io
import json
import logging
import os
from pathlib import Path
from typing import Any

import torch

from model.config import TrialConfig
from model.errors import RequestError

_log = logging.getLogger(__name__)

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORMAT = 2
_DIGEST_BYTES = 32

State = dict[str, Any]
"""Tensors, numbers, text, and lists and dictionaries of them: what `weights_only` may load."""


def identity(config: TrialConfig, fingerprint: str) -> str:
    """Return what two trainings must share for one to go on where the other stopped."""
    return json.dumps([config.model_dump(mode="json"), fingerprint], sort_keys=True)


def save(path: Path, state: State, *, identity: str, device: str) -> None:
    """Replace the file by this state; after a crash at any moment one of the two is there whole.

    Args:
        path: where; the folder must exist.
        state: of the training.
        identity: of the trial, see `identity`.
        device: `cpu` or `cuda`; generators of one do not continue on the other.
    """
    written = io.BytesIO()
    torch.save({"format": _FORMAT, "identity": identity, "device": device, **state}, written)
    payload = written.getbuffer()
    temporary = path.with_name(f"{path.name}.partial")
    try:
        with temporary.open("wb") as file:
            # torch reads an archive with a flipped bit without complaint.
            file.write(hashlib.sha256(payload).digest())
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.errno not in _FULL:
            raise
        # A checkpoint saves time and no result depends on it: the earlier one stays.
        _log.warning("no space for a checkpoint of %d bytes at %s", len(payload), path)
        return
    temporary.replace(path)


def load(path: Path, *, identity: str, device: str) -> State | None:
    """Return the state on the CPU, or None if training must begin anew.

    Raises:
        RequestError: the file is another trial's.
    """
    try:
        content = memoryview(path.read_bytes())
    except FileNotFoundError:
        return None
    digest, payload = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if hashlib.sha256(payload).digest() != digest:
        return None
    state: State = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    if state["identity"] != identity:
        raise RequestError(
            f"a checkpoint must be of the trial that it continues, got another trial's in {path}; "
            "name another file, or delete this one"
        )
    return state if (state["format"], state["device"]) == (_FORMAT, device) else None
