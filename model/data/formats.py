"""From a file to raw interactions: every faulty line is reported at once, nothing is half-read.

The ending names the layout: `.csv`, `.tsv` and `.inter` have a header line (or none, where the
first line is user, item, rating, seconds or user, item, seconds); `.data` (tabs) and
`.dat` (`::`) are GroupLens's user, item, rating, seconds without one. `.gz` may follow, and a zip
must hold one of GroupLens's official members.
"""

import csv
import gzip
import io
import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath

import numpy as np

from model.data.interactions import Interactions
from model.errors import RequestError

OFFICIAL_MEMBERS = ("ml-100k/u.data", "ml-1m/ratings.dat", "ml-20m/ratings.csv")
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".inter": "\t", ".data": "\t", ".dat": "::"}
_WITHOUT_HEADER = (".data", ".dat")
_USUAL = {"userId": "user", "movieId": "item"}
"""GroupLens's names in `ratings.csv`."""
_SHOWN_FAULTS = 10
_SECONDS = re.compile(r"[0-9]{1,18}(\.0*)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_LATEST_SECONDS = 100_000_000_000
"""The year 5138: larger times are milliseconds or worse."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Names in the header line; `rating=None` takes a column `rating` where there is one."""

    user: str = "user"
    item: str = "item"
    time: str = "timestamp"
    rating: str | None = None


def read_file(path: Path, columns: Columns, *, member: str | None = None) -> Interactions:
    """Read the interactions of a file, or of one `member` of a zip.

    Args:
        path: an uncompressed, gzipped or zipped file.
        columns: which columns of the header line to read; as it is for files without one.
        member: path inside the zip; by default the official member that it holds.

    Raises:
        RequestError: the file is missing, broken or of unknown layout, or any line is faulty: with
            the numbers of the first ten faulty lines and the count of all.
    """
    name, content = _content(path, member)
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in _SEPARATORS:
        raise RequestError(
            f"a data file must end in {', '.join(_SEPARATORS)} (or these and .gz) or be an "
            f"official zip, got {name}; rename or convert it"
        )
    rows = _rows(_text(content, name), _SEPARATORS[suffix], name=name)
    if suffix in _WITHOUT_HEADER:
        if columns != Columns():
            raise RequestError(
                f"columns can be named only where a header line names them, got {name}, which is "
                "user, item, rating, time; leave out --user, --item, --time and --rating"
            )
        return _parsed(rows, name, width=4, positions=(0, 1, 3, 2))
    line, header = next(rows, (0, []))
    if columns == Columns() and _is_event(header):
        # As Amazon's ratings: user, item, rating, time, or without the rating.
        rated = len(header) == 4
        return _parsed(
            chain([(line, header)], rows),
            name,
            width=len(header),
            positions=(0, 1, 3, 2) if rated else (0, 1, 2, -1),
        )
    return _parsed(rows, name, width=len(header), positions=_positions(header, columns, name=name))


def _is_event(fields: Sequence[str]) -> bool:
    """Tell a first line that is an event from a header line: its last field is whole seconds."""
    return len(fields) in (3, 4) and bool(_SECONDS.fullmatch(fields[-1]))


def _content(path: Path, member: str | None) -> tuple[str, bytes]:
    try:
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as file:
                return path.stem, file.read()
        if member is None and path.suffix.lower() != ".zip":
            return path.name, path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            held = archive.namelist()
            chosen = [one for one in ((member,) if member else OFFICIAL_MEMBERS) if one in held]
            if len(chosen) != 1:
                raise RequestError(
                    f"a zip must hold {member or ' or '.join(OFFICIAL_MEMBERS)}, got {path} with "
                    f"{', '.join(held[:5]) or 'nothing'}; unpack it and import the data file"
                )
            return f"{path.name}/{chosen[0]}", archive.read(chosen[0])
    except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, RuntimeError) as error:
        raise RequestError(
            f"a compressed file must be whole, got {path} ({error}); download it again"
        ) from error
    except OSError as error:
        raise RequestError(
            f"a data file must be readable, got {path} ({error.strerror}); check the path"
        ) from error


def _text(content: bytes, name: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RequestError(
            f"a data file must be UTF-8 text, got another byte in {name}, line {line}; convert it"
        ) from error
    if "\0" in text:
        raise RequestError(f"a data file must be text, got NUL in {name}; export it as text")
    return text


def _rows(text: str, separator: str, *, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line numbers from 1 and fields; empty lines are passed over."""
    lines = io.StringIO(text, newline=None)
    if len(separator) > 1:
        yield from (
            (n, line.rstrip("\n").split(separator))
            for n, line in enumerate(lines, 1)
            if line.strip()
        )
        return
    reader = csv.reader(
        lines,
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE,
    )
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, fields
    except csv.Error as error:
        raise RequestError(
            f"fields must be plain or properly quoted, got line {reader.line_num} of {name} "
            f"({error}); correct it"
        ) from error


def _positions(header: Sequence[str], columns: Columns, *, name: str) -> tuple[int, int, int, int]:
    """Return the places of user, item, time and rating; -1 for no rating."""
    known = [_USUAL.get(column.strip(), column.strip()) for column in header]
    if columns != Columns():
        known = [column.strip() for column in header]
    wanted = [columns.user, columns.item, columns.time]
    if columns.rating is not None:
        wanted.append(columns.rating)
    elif "rating" in known:
        wanted.append("rating")
    missing = [column for column in wanted if known.count(column) != 1]
    if missing:
        raise RequestError(
            f"each column must stand once in the header line, got {name} without one "
            f"{' and one '.join(missing)}: it has {', '.join(known) or 'no line'}; "
            "name the columns with --user, --item, --time and --rating"
        )
    user, item, time, *rating = (known.index(column) for column in wanted)
    return user, item, time, rating[0] if rating else -1


def _parsed(
    rows: Iterator[tuple[int, list[str]]],
    name: str,
    *,
    width: int,
    positions: tuple[int, int, int, int],
) -> Interactions:
    user_at, item_at, time_at, rating_at = positions
    users, items, times, ratings = [], [], [], []
    shown: list[str] = []
    n_faults = 0
    for line, fields in rows:
        if len(fields) != width:
            fault: str | None = f"{width} fields expected, got {len(fields)}"
        else:
            rating = fields[rating_at] if rating_at >= 0 else None
            fault = _fault(fields[user_at], fields[item_at], time=fields[time_at], rating=rating)
        if fault is not None:
            n_faults += 1
            if len(shown) < _SHOWN_FAULTS:
                shown.append(f"  line {line}: {fault}")
        elif n_faults == 0:
            users.append(fields[user_at])
            items.append(fields[item_at])
            times.append(int(fields[time_at].partition(".")[0]))
            if rating_at >= 0:
                ratings.append(float(fields[rating_at]))
    if n_faults:
        raise RequestError(
            f"every line must hold a user, an item and a time in whole seconds, got {n_faults} "
            f"faulty in {name}; correct or remove them\n" + "\n".join(shown)
        )
    if not users:
        raise RequestError(f"a data file must hold interactions, got none in {name}; check it")
    return Interactions(
        users=np.array(users, dtype=object),
        items=np.array(items, dtype=object),
        timestamps=np.array(times, dtype=np.int64),
        ratings=np.array(ratings, dtype=np.float64) if rating_at >= 0 else None,
    )


def _fault(user: str, item: str, *, time: str, rating: str | None) -> str | None:
    """Return what is wrong with a line, or None."""
    for what, value in (("user", user), ("item", item)):
        if not value.strip():
            return f"{what} must not be empty"
        if "\t" in value or "\n" in value:
            return f"{what} must not hold tabs or line breaks, got {value!r}"
    if not _SECONDS.fullmatch(time):
        return f"time must be whole seconds since 1970, got {time!r}"
    if int(time.partition(".")[0]) >= _LATEST_SECONDS:
        return f"time must be in seconds, got {time!r} (milliseconds?)"
    if rating is not None and not (_NUMBER.fullmatch(rating) and math.isfinite(float(rating))):
        return f"rating must be a number, got {rating!r}"
    return None
