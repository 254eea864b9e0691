"""Published data sets: where each can be taken from, and how its content is recognised."""

import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Protocol

from model.data.formats import Columns, read_file
from model.data.interactions import Interactions

_SOCKET_SECONDS = 10
_PIP_SECONDS = 300


class UnreachableError(Exception):
    """A place gives nothing; the next one may."""


class Place(Protocol):
    """Somewhere to take a data set from."""

    def download(self, scratch: Path) -> Interactions:
        """Return the place's rows, using the empty folder `scratch`.

        Raises:
            UnreachableError: the place cannot be reached.
            RequestError: what it gave is broken.
        """


@dataclass(frozen=True, slots=True)
class Archive:
    """An official zip at a URL; certificates are always verified."""

    url: str

    def __str__(self) -> str:
        return self.url

    def download(self, scratch: Path) -> Interactions:
        """Download the zip and read its official member."""
        file = scratch / "archive.zip"
        try:
            with urllib.request.urlopen(self.url, timeout=_SOCKET_SECONDS) as response:
                file.write_bytes(response.read())
        except (OSError, HTTPException) as error:
            raise UnreachableError(str(error)) from error
        return read_file(file, Columns())


@dataclass(frozen=True, slots=True)
class WheelMember:
    """A file inside a wheel of the package index, which is downloaded but never installed."""

    requirement: str
    member: str
    columns: Columns

    def __str__(self) -> str:
        return f"{self.member.rpartition('/')[2]} in the wheel {self.requirement}"

    def download(self, scratch: Path) -> Interactions:
        """Download the wheel with pip, so that its index settings hold, and read one member."""
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-cache-dir", "--disable-pip-version-check", "--only-binary", ":all:"]
        command += ["--timeout", str(_SOCKET_SECONDS), "--retries", "1"]
        command += ["--dest", str(scratch), self.requirement]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_PIP_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise UnreachableError(f"pip took more than {_PIP_SECONDS} seconds") from error
        wheels = list(scratch.glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            last_words = done.stderr.strip().splitlines() or ["pip brought no wheel"]
            raise UnreachableError(last_words[-1])
        return read_file(wheels[0], self.columns, member=self.member)


@dataclass(frozen=True, slots=True)
class Counts:
    """Size of a data set whose exact rows are not known in advance."""

    rows: int
    users: int
    items: int


@dataclass(frozen=True, slots=True)
class KnownDataset:
    """A published data set: `places` are tried in order; the content must be what is `expected`.

    `expected` is the SHA-256 of the rows as `content_sha256` defines it, or their counts.
    """

    name: str
    title: str
    places: tuple[Place, ...]
    expected: str | Counts
    terms: str


_MOVIELENS_TERMS = (
    "MovieLens: free for research, no redistribution (grouplens.org/datasets/movielens); cite "
    "Harper and Konstan, The MovieLens Datasets, ACM TiiS 5(4):19, 2015, doi:10.1145/2827872"
)

CATALOGUE: Mapping[str, KnownDataset] = {
    known.name: known
    for known in (
        KnownDataset(
            name="ml-100k",
            title="MovieLens 100K: 943 users, 1,682 films, 1997 to 1998",
            places=(
                Archive("https://files.grouplens.org/datasets/movielens/ml-100k.zip"),
                WheelMember(
                    "recbole==1.2.1",
                    "recbole/dataset_example/ml-100k/ml-100k.inter",
                    Columns("user_id:token", "item_id:token", "timestamp:float", "rating:float"),
                ),
            ),
            expected="06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
            terms=_MOVIELENS_TERMS,
        ),
        KnownDataset(
            name="ml-1m",
            title="MovieLens 1M: 6,040 users, 3,706 films, 2000 to 2003",
            places=(Archive("https://files.grouplens.org/datasets/movielens/ml-1m.zip"),),
            expected=Counts(rows=1_000_209, users=6_040, items=3_706),
            terms=_MOVIELENS_TERMS,
        ),
    )
}
