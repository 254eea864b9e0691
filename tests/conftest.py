"""Databases for tests: a fresh SQLite file or a fresh database of a real PostgreSQL server."""

from itertools import count

import pytest

from tests.postgres import postgres_server, programs

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


@pytest.fixture(scope="session", name="postgres_server")
def running_server():
    """The URL of a server that listens on loopback only and lives as long as the tests."""
    if programs() is None:
        pytest.skip("PostgreSQL's server programs are not installed (apt-get install postgresql)")
    with postgres_server() as url:
        yield url
