"""The folder that keeps data sets, filled from the catalogue or from local files.

What is stored under a catalogue's name has been verified against it. Files appear whole or not at
all: each is written under a temporary name and renamed, one writer at a time.
"""

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import platformdirs
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock
from numpy.typing import NDArray

from model.data.catalogue import CATALOGUE, Counts, KnownDataset
from model.data.columns import Columns
from model.data.download import Progress, UnreachableError, no_progress
from model.data.formats import Policy, read_file, silently
from model.data.interactions import Interactions, content_sha256
from model.errors import RequestError

PREPARED = "prepared"
"""The folder, beside the data sets, of the arrays that they were prepared into."""

_FILE = "interactions.parquet"


def data_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder that keeps data sets: `MEANTIME_DATA`, or the user's cache folder."""
    declared = environ.get("MEANTIME_DATA")
    return Path(declared).expanduser() if declared else platformdirs.user_cache_path("meantime")


def stored(folder: Path) -> list[str]:
    """Return the names of the data sets in `folder`, sorted; none where there is no folder."""
    return sorted(file.parent.name for file in folder.glob(f"*/{_FILE}"))


def fetch(
    name: str,
    *,
    folder: Path,
    report: Callable[[str], None],
    progress: Progress = no_progress,
) -> Path:
    """Download a data set of the catalogue, unless `folder` has it, and return its stored file.

    Args:
        name: a name in `CATALOGUE`.
        folder: the data folder.
        report: receives lines for the user: terms of use, places tried, why one was left.
        progress: told the bytes that are here as they come.

    Raises:
        RequestError: an unknown name, no place with the right content, or an unwritable folder.
    """
    if name not in CATALOGUE:
        raise RequestError(
            f"only data sets of the catalogue can be fetched ({', '.join(CATALOGUE)}), got {name}; "
            f"use: meantime data import PATH --as {name}"
        )
    return fetch_known(CATALOGUE[name], folder=folder, report=report, progress=progress)


def fetch_known(
    known: KnownDataset,
    *,
    folder: Path,
    report: Callable[[str], None],
    progress: Progress = no_progress,
) -> Path:
    """Do what `fetch` says for one entry, from its first place with the right content.

    What came before a connection broke is kept beside the data set, and the next call continues it.
    """
    report(known.terms)
    with _held(folder, known.name) as file:
        if file.exists():
            report(f"{known.name} is already in {file.parent}")
            return file
        for nth, place in enumerate(known.places):
            report(f"fetching {known.name} from {place}")
            scratch = file.parent / f"unfinished-{nth}"
            scratch.mkdir(exist_ok=True)
            try:
                interactions = place.download(scratch, progress=progress)
                _verify(interactions, known)
            except UnreachableError as reason:
                report(f"left {place}: {reason}")
                continue
            except RequestError as reason:
                shutil.rmtree(scratch)  # what came is not the data set
                report(f"left {place}: {reason}")
                continue
            _write(interactions, file)
            for left in file.parent.glob("unfinished-*"):
                shutil.rmtree(left)
            report(f"{known.name}: {len(interactions):,} rows verified and stored in {file.parent}")
            return file
    raise RequestError(
        f"{known.name} must come from one of its {len(known.places)} places with the right "
        f"content, got it from none; download it elsewhere and use: "
        f"meantime data import PATH --as {known.name}"
    )


def import_file(
    path: Path,
    *,
    name: str,
    folder: Path,
    columns: Columns,
    policy: Policy | None = None,
    say: Callable[[str], None] = silently,
) -> Path:
    """Store a local file as data set `name`, in place of one of that name, and return where.

    A name of the catalogue is kept for that data set's own content. `columns`, `policy` and `say`
    are as of `formats.read_file`.

    Raises:
        RequestError: a faulty file (see `formats.read_file`), other content than the catalogue
            expects under this name, a name that is no plain file name, or an unwritable folder.
    """
    interactions = read_file(path, columns, policy=policy, say=say)
    if name in CATALOGUE:
        _verify(interactions, CATALOGUE[name])
    with _held(folder, name) as file:
        _write(interactions, file)
    return file


def stored_file(name: str, folder: Path) -> Path:
    """Return the file that keeps data set `name`.

    Raises:
        RequestError: nothing is stored under that name.
    """
    file = folder / name / _FILE
    if not file.exists():
        raise RequestError(
            f"data set {name} must be in the data folder, got none in {folder}; use: {_bring(name)}"
        )
    return file


def load(name: str, folder: Path) -> Interactions:
    """Return the rows stored under `name`.

    Raises:
        RequestError: nothing is stored under that name, or it cannot be read.
    """
    file = stored_file(name, folder)
    try:
        # As codes of distinct ids: a text for every row would fill the memory.
        table = pq.read_table(file, read_dictionary=["user", "item"])
    except (OSError, pa.ArrowInvalid) as error:
        raise RequestError(
            f"a stored data set must be readable, got {file} ({error}); use: {_bring(name)}"
        ) from error
    return Interactions(
        users=_texts(table["user"]),
        items=_texts(table["item"]),
        timestamps=table["timestamp"].to_numpy(),
        ratings=table["rating"].to_numpy() if "rating" in table.column_names else None,
    )


def _bring(name: str) -> str:
    local = f"meantime data import PATH --as {name}"
    return f"meantime data fetch {name}, or: {local}" if name in CATALOGUE else local


def _texts(column: pa.ChunkedArray) -> NDArray[np.object_]:
    """Return a text for each row; equal ids share one object."""
    codes = column.unify_dictionaries().combine_chunks()
    texts = codes.dictionary.to_numpy(zero_copy_only=False)
    found: NDArray[np.object_] = texts[codes.indices.to_numpy()]
    return found


def _verify(interactions: Interactions, known: KnownDataset) -> None:
    found: str | Counts
    if isinstance(known.expected, Counts):
        found = Counts(
            rows=len(interactions),
            users=len(pd.unique(interactions.users)),
            items=len(pd.unique(interactions.items)),
        )
    else:
        found = content_sha256(interactions)
    if found != known.expected:
        raise RequestError(
            f"the content of {known.name} must be {known.expected}, got {found}; "
            "take the official file, or import this one under another name"
        )


@contextmanager
def _held(folder: Path, name: str) -> Iterator[Path]:
    """Yield the file that keeps `name`, its folder made, while no one else writes it."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or name == PREPARED:
        raise RequestError(
            f"a data set's name must be letters, digits, '.', '_' and '-', and not {PREPARED}, "
            f"got {name!r}; choose such a name"
        )
    try:
        (folder / name).mkdir(parents=True, exist_ok=True)
        with FileLock(folder / name / "lock"):
            yield folder / name / _FILE
    except OSError as error:
        raise RequestError(
            f"the data folder must be writable, got {folder} ({error.strerror or error}); "
            "set MEANTIME_DATA to another folder"
        ) from error


def _write(interactions: Interactions, file: Path) -> None:
    columns = {
        "user": pa.array(interactions.users, pa.string()),
        "item": pa.array(interactions.items, pa.string()),
        "timestamp": pa.array(interactions.timestamps, pa.int64()),
    }
    if interactions.ratings is not None:
        columns["rating"] = pa.array(interactions.ratings, pa.float64())
    unfinished = file.with_suffix(".unfinished")
    pq.write_table(pa.table(columns), unfinished)
    unfinished.replace(file)
