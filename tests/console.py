"""The installed console script, run as a user runs it."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(sys.executable).with_name("meantime")


def environment(folder: Path, **extra: str) -> dict[str, str]:
    """Return an environment whose data and store live in `folder`."""
    return {
        **os.environ,
        "MEANTIME_DATA": str(folder / "data"),
        "MEANTIME_STORE": f"sqlite:///{folder}/results.db",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "120",
        **extra,
    }


def meantime(*words: str, folder: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run `meantime WORDS..` in `folder` and return what it said."""
    return subprocess.run(
        [SCRIPT, *words],
        cwd=folder,
        env=environment(folder, **extra),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
