"""The table of a file, as text and unjudged: delimited text, Parquet, or JSON lines.

The ending names the layout. `.csv`, `.tsv` and `.inter` have a header line or none; `.data` (tabs)
and `.dat` (`::`) are GroupLens's, without one; `.json`, `.jsonl` and `.ndjson` hold one object a
line, `.parquet` is Parquet. Rows that are no rows of the table stay beside it, with the reason.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from model.data.columns import Columns, numbered, places, unnamed_places
from model.errors import RequestError

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".inter": "\t", ".data": "\t", ".dat": "::"}
_HEADERLESS = (".data", ".dat")
_JSON = (".json", ".jsonl", ".ndjson")
ENDINGS = (*_SEPARATORS, ".parquet", *_JSON)
_STAND_IN = "\x1f"
"""For `::`, since the reader of delimited text wants one character: a separator of units."""
_ROLES = ("user", "item", "time", "rating")


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The wanted columns of a file and the rows that do not have them.

    Attributes:
        name: of the file, for messages.
        users: text or null, one chunked array of each column.
        items: likewise.
        times: text or null, or dates and times of their own type.
        ratings: text or null; None where the file has no such column.
        numbers: how the file counts the rows, from 1, int64, shape (rows,).
        broken: why a row is none, by its number.
        place: turns ascending row numbers into words, such as `line 5`.
    """

    name: str
    users: pa.ChunkedArray
    items: pa.ChunkedArray
    times: pa.ChunkedArray
    ratings: pa.ChunkedArray | None
    numbers: NDArray[np.int64]
    broken: dict[int, str] = field(default_factory=dict)
    place: Callable[[list[int]], list[str]] = lambda rows: [f"row {n}" for n in rows]


def read_table(content: bytes, columns: Columns, *, name: str) -> Table:
    """Read the content of a file called `name`.

    Raises:
        RequestError: an unknown ending, missing columns, or content that is not what it says.
    """
    suffix = PurePosixPath(name).suffix.lower()
    if suffix == ".parquet":
        return _parquet(content, columns, name=name)
    if suffix in _JSON:
        return _json_lines(_checked(content, name), columns, name=name)
    if suffix not in _SEPARATORS:
        raise RequestError(
            f"a data file must end in {', '.join(ENDINGS)} (or these and .gz) or be a zip of one, "
            f"got {name}; rename or convert it"
        )
    return _delimited(
        _checked(content, name),
        columns,
        name=name,
        separator=_SEPARATORS[suffix],
        headerless=suffix in _HEADERLESS,
    )


def _checked(content: bytes, name: str) -> bytes:
    """Return UTF-8 text without its byte order mark, or say where it is none."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    if not content.isascii():
        try:
            content.decode()
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise RequestError(
                f"a data file must be UTF-8 text, got another byte in {name}, line {line}; "
                "convert it"
            ) from error
    if b"\0" in content:
        raise RequestError(f"a data file must be text, got NUL in {name}; export it as text")
    return content


def _delimited(
    content: bytes, columns: Columns, *, name: str, separator: str, headerless: bool
) -> Table:
    if separator == "::":
        if _STAND_IN.encode() in content:
            raise RequestError(
                f"a data file must be text, got the control character 0x1F in {name}; remove it"
            )
        content, separator = content.replace(b"::", _STAND_IN.encode()), _STAND_IN
    if not content.endswith((b"\n", b"\r")):
        content += b"\n"  # without it the reader finds no row in a file of one line
    quoted = separator == ","
    try:
        first = next((row for _, row in _records(content, separator)), [])
    except csv.Error as error:
        raise RequestError(
            f"the first line must be plain or properly quoted, got {name} ({error}); correct it"
        ) from error
    if not first:
        raise RequestError(f"a data file must hold interactions, got none in {name}; check it")
    headerless = headerless or numbered(columns) or (columns == Columns() and _is_event(first))
    at = (
        unnamed_places(len(first), columns, name=name)
        if headerless
        else places(first, columns, name=name)
    )
    kept = [f"f{n}" for n in at if n is not None]
    broken: dict[int, str] = {}

    def leave(row: pa_csv.InvalidRow) -> str:
        broken[row.number] = f"{row.expected_columns} fields expected, got {row.actual_columns}"
        if quoted and row.text.count('"') % 2:
            broken[row.number] += " (a quote that is never closed?)"
        return "skip"

    try:
        read = pa_csv.read_csv(
            pa.py_buffer(content),
            # One thread: else the numbers of broken rows are unknown.
            read_options=pa_csv.ReadOptions(use_threads=False, autogenerate_column_names=True),
            parse_options=pa_csv.ParseOptions(
                delimiter=separator,
                quote_char='"' if quoted else False,
                newlines_in_values=quoted,
                invalid_row_handler=leave,
            ),
            convert_options=pa_csv.ConvertOptions(
                include_columns=kept,
                column_types=dict.fromkeys(kept, pa.string()),
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise RequestError(
            f"fields must be plain or properly quoted, got {name} ({error}); correct it"
        ) from error
    numbers = np.arange(1, len(read) + len(broken) + 1)
    numbers = np.delete(numbers, [n - 1 for n in broken])
    skip = 0 if headerless else 1
    found = {
        role: read[f"f{n}"][skip:] for role, n in zip(_ROLES, at, strict=True) if n is not None
    }
    return Table(
        name,
        users=found["user"],
        items=found["item"],
        times=found["time"],
        ratings=found.get("rating"),
        numbers=numbers[skip:],
        broken=broken,
        place=lambda rows: _lines(content, separator, rows),
    )


def _is_event(fields: list[str]) -> bool:
    """Tell a first line that is an event from a header line: its last field begins with digits."""
    return len(fields) in (3, 4) and fields[-1].strip()[:4].isdecimal()


def _records(content: bytes, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line, from 1, of every record that is not an empty line, and its fields."""
    reader = csv.reader(
        io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline=None),
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE,
    )
    line = 1
    for fields in reader:
        if fields:
            yield line, fields
        line = reader.line_num + 1


def _lines(content: bytes, separator: str, rows: list[int]) -> list[str]:
    """Find the lines of records, which empty lines and quoted line breaks set apart."""
    wanted, found = set(rows), {}
    try:
        for n, (line, _) in enumerate(islice(_records(content, separator), max(rows)), 1):
            if n in wanted:
                found[n] = f"line {line}"
    except csv.Error:  # a field beyond the limit of Python's reader
        pass
    return [found.get(n, f"row {n}") for n in rows]


def _parquet(content: bytes, columns: Columns, *, name: str) -> Table:
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        header = file.schema_arrow.names
        at = places(header, columns, name=name)
        read = file.read(columns=[header[n] for n in at if n is not None])
    except (OSError, pa.ArrowException) as error:
        raise RequestError(
            f"a Parquet file must be whole, got {name} ({error}); download or write it again"
        ) from error
    found = {
        role: _as_text(read[header[n]], role=role, name=name)
        for role, n in zip(_ROLES, at, strict=True)
        if n is not None
    }
    return Table(
        name,
        users=found["user"],
        items=found["item"],
        times=found["time"],
        ratings=found.get("rating"),
        numbers=np.arange(1, len(read) + 1),
    )


def _as_text(column: pa.ChunkedArray, *, role: str, name: str) -> pa.ChunkedArray:
    """Return a typed column as text; dates and times keep their type."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if role == "time" and pa.types.is_temporal(kind):
        return column
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
    if texts or pa.types.is_integer(kind) or (role == "rating" and pa.types.is_decimal(kind)):
        return column.cast(pa.string())
    if pa.types.is_floating(kind) and role != "rating":
        # An integer column with gaps is read as floats by pandas, `5.0`: the text is `5`.
        values = column.to_numpy()
        return pa.chunked_array([pa.array([_number_text(x) for x in values.tolist()], pa.string())])
    if pa.types.is_floating(kind):
        return pc.cast(column, pa.string())
    wanted = "a number" if role == "rating" else "text or whole numbers"
    raise RequestError(f"the {role} column must be {wanted}, got {kind} in {name}; convert it")


def _json_lines(content: bytes, columns: Columns, *, name: str) -> Table:
    """Read one object a line, the columns being the fields of the first.

    Python's own parser, since a line that is no JSON must not end the reading of those after it.
    """
    at: list[str] | None = None
    values: list[list[str | None]] = [[] for _ in _ROLES]
    numbers: list[int] = []
    broken: dict[int, str] = {}
    for line, text in enumerate(io.BytesIO(content), 1):
        if not text.strip():
            continue
        try:
            found = json.loads(text)
        except ValueError as error:
            broken[line] = f"a line must be one JSON object ({error})"
            continue
        if not isinstance(found, dict):
            broken[line] = f"a line must be one JSON object, got {_shown(found)}"
            continue
        if at is None:
            header = list(found)
            at = [header[n] for n in places(header, columns, name=name) if n is not None]
        row = [found.get(key) for key in at]
        fault = next(
            (
                f"{role} must be text or a number, got {_shown(value)}"
                for role, value in zip(_ROLES, row, strict=False)
                if not _is_plain(value)
            ),
            None,
        )
        if fault is not None:
            broken[line] = fault
            continue
        numbers.append(line)
        for role_values, value in zip(values, row, strict=False):
            role_values.append(value if isinstance(value, str | None) else _number_text(value))
    texts = [pa.chunked_array([pa.array(column, pa.string())]) for column in values]
    return Table(
        name,
        users=texts[0],
        items=texts[1],
        times=texts[2],
        ratings=texts[3] if at is not None and len(at) == len(_ROLES) else None,
        numbers=np.array(numbers, dtype=np.int64),
        broken=broken,
        place=lambda rows: [f"line {n}" for n in rows],
    )


def _is_plain(value: object) -> bool:
    if isinstance(value, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in value)  # half a character
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _number_text(value: float | None) -> str | None:
    """Write a number as text, `5.0` as `5`; what is missing or NaN stays missing."""
    if value is None or value != value:  # noqa: PLR0124 - only NaN differs from itself
        return None
    return str(int(value)) if float(value).is_integer() else repr(value)


def _shown(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
