"""Whether there is space for what a launch will write, asked before days of training.

Results are small: a rank is eight bytes a user, two splits, two protocols, before compression.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from model.errors import RequestError

RANK_BYTES_PER_USER = 2 * 4 * 4
"""Two int32 counts, of two splits under two protocols each."""

BYTES_PER_TRIAL = 200_000
"""Metrics of some hundred epochs, the attempt, its log."""

RESERVE_BYTES = 64 * 2**20
"""Left for the database's own journal and for everybody else."""


def result_bytes(n_users: Iterable[int]) -> int:
    """Return how much the results of trials take at most; `n_users` has one number a trial."""
    return sum(RANK_BYTES_PER_USER * n + BYTES_PER_TRIAL for n in n_users)


def require_space(folder: Path, n_bytes: int) -> None:
    """Make sure that a folder's disk has room for so much, and a reserve.

    Raises:
        RequestError: it has not.
    """
    free = shutil.disk_usage(folder).free
    if free < n_bytes + RESERVE_BYTES:
        raise RequestError(
            f"the disk of {folder} must have {_megabytes(n_bytes + RESERVE_BYTES)} free for the "
            f"results of this launch, it has {_megabytes(free)}; free space, or name a store on "
            "another disk with --store"
        )


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.0f} MB"
