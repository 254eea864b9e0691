"""A PostgreSQL server of one's own on loopback, for as long as a `with` block lasts."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def programs() -> Path | None:
    """Return the folder of Debian's newest server programs, or None where there are none."""
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@contextmanager
def postgres_server() -> Iterator[str]:
    """Start a server with its own data folder and yield its URL, without a database's name."""
    found = programs()
    assert found is not None, "PostgreSQL's server programs are not installed"
    # The server refuses to be root, and its user cannot enter pytest's own folders.
    owner = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="meantime-postgres-") as home:
        if owner:
            shutil.chown(home, **owner)
            owner["extra_groups"] = []
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(
            [found / "initdb", "-D", f"{home}/data", *options],
            cwd=home,
            check=True,
            stdout=subprocess.DEVNULL,
            **owner,
        )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        address = ["-h", "127.0.0.1", "-p", port]
        server = subprocess.Popen(
            [found / "postgres", "-D", f"{home}/data", *address, "-k", home, "-F"],
            cwd=home,
            stderr=subprocess.DEVNULL,
            **owner,
        )
        with server:
            ready = [found / "pg_isready", "-q", "-t", "1", *address]
            deadline = time.monotonic() + 30
            while subprocess.run(ready, check=False).returncode != 0:
                assert server.poll() is None, "the PostgreSQL server did not start"
                assert time.monotonic() < deadline, "the PostgreSQL server is not ready"
            yield f"postgresql://postgres@127.0.0.1:{port}"
            server.send_signal(signal.SIGINT)  # SIGTERM would wait for clients to leave
