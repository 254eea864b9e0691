"""Published data sets: where each can be taken from, and how its content is recognised."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from model.data.columns import Columns
from model.data.download import (
    SOCKET_SECONDS,
    Progress,
    UnreachableError,
    download,
    no_progress,
)
from model.data.formats import Policy, read_file
from model.data.interactions import Interactions

_PIP_SECONDS = 300
_SECONDS = Policy(time_unit="seconds")
"""All published data sets here say so."""


class Place(Protocol):
    """Somewhere to take a data set from."""

    def download(self, scratch: Path, *, progress: Progress) -> Interactions:
        """Return the place's rows, using a folder of its own, which an earlier try may have filled.

        Raises:
            UnreachableError: the place cannot be reached.
            RequestError: what it gave is broken.
        """


@dataclass(frozen=True, slots=True)
class Archive:
    """An official file at a URL, a zip or a table; certificates are always verified."""

    url: str

    def __str__(self) -> str:
        return self.url

    def download(self, scratch: Path, *, progress: Progress = no_progress) -> Interactions:
        """Download the file and read it, of a zip the official member."""
        file = scratch / self.url.rpartition("/")[2]
        download(self.url, file, progress=progress)
        return read_file(file, Columns(), policy=_SECONDS)


@dataclass(frozen=True, slots=True)
class WheelMember:
    """A file inside a wheel of the package index, which is downloaded but never installed."""

    requirement: str
    member: str
    columns: Columns

    def __str__(self) -> str:
        return f"{self.member.rpartition('/')[2]} in the wheel {self.requirement}"

    def download(self, scratch: Path, *, progress: Progress = no_progress) -> Interactions:
        """Download the wheel with pip, so that its index settings hold, and read one member."""
        del progress  # pip says nothing that could be shown
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-cache-dir", "--disable-pip-version-check", "--only-binary", ":all:"]
        command += ["--timeout", f"{SOCKET_SECONDS:.0f}", "--retries", "1"]
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
        return read_file(wheels[0], self.columns, policy=_SECONDS, member=self.member)


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

_AMAZON = "https://snap.stanford.edu/data/amazon/productGraph/categoryFiles"
_AMAZON_TERMS = (
    "Amazon reviews 2014: for research (snap.stanford.edu/data/amazon/productGraph); cite McAuley, "
    "Targett, Shi and van den Hengel, Image-based Recommendations on Styles and Substitutes, "
    "SIGIR 2015, doi:10.1145/2766462.2767755"
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
        KnownDataset(
            name="ml-20m",
            title="MovieLens 20M: 138,493 users, 26,744 films, 1995 to 2015",
            places=(Archive("https://files.grouplens.org/datasets/movielens/ml-20m.zip"),),
            expected=Counts(rows=20_000_263, users=138_493, items=26_744),
            terms=_MOVIELENS_TERMS,
        ),
        KnownDataset(
            name="beauty",
            title="Amazon Beauty, ratings of 1996 to 2014: 1,210,271 users, 249,274 products",
            places=(Archive(f"{_AMAZON}/ratings_Beauty.csv"),),
            expected=Counts(rows=2_023_070, users=1_210_271, items=249_274),
            terms=_AMAZON_TERMS,
        ),
        KnownDataset(
            name="games",
            title="Amazon Video Games, ratings of 1996 to 2014: 826,767 users, 50,210 products",
            places=(Archive(f"{_AMAZON}/ratings_Video_Games.csv"),),
            expected=Counts(rows=1_324_753, users=826_767, items=50_210),
            terms=_AMAZON_TERMS,
        ),
    )
}
