"""Databases for tests: a fresh SQLite file or a fresh database of a real PostgreSQL server."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path

import pytest

DATABASES = count()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store_url(request, tmp_path):
    """The URL of an empty database, once for each kind that a store can be."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/results.db"
    return request.getfixturevalue("postgres_database")


@pytest.fixture
def postgres_database(postgres_server):
    """The URL of an empty database on the tests' own server."""
    import psycopg

    name = f"meantime_{next(DATABASES)}"
    with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{postgres_server}/{name}"


@pytest.fixture(scope="session")
def postgres_server():
    """The URL of a server that listens on loopback only and lives as long as the tests."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
    if programs is None:
        pytest.skip("PostgreSQL's server programs are not installed (apt-get install postgresql)")
    # The server refuses to be root, and its user cannot enter pytest's own folders.
    owner = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="meantime-postgres-") as home:
        if owner:
            shutil.chown(home, **owner)
            owner["extra_groups"] = []
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(
            [programs / "initdb", "-D", f"{home}/data", *options],
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
            [programs / "postgres", "-D", f"{home}/data", *address, "-k", home, "-F"],
            cwd=home,
            stderr=subprocess.DEVNULL,
            **owner,
        )
        with server:
            ready = [programs / "pg_isready", "-q", "-t", "1", *address]
            deadline = time.monotonic() + 30
            while subprocess.run(ready, check=False).returncode != 0:
                assert server.poll() is None, "the PostgreSQL server did not start"
                assert time.monotonic() < deadline, "the PostgreSQL server is not ready"
            yield f"postgresql://postgres@127.0.0.1:{port}"
            server.send_signal(signal.SIGINT)  # SIGTERM would wait for clients to leave
