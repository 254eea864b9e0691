"""Times as files write them, into whole seconds since 1970 UTC; a unit is declared or found.

A number is found to be seconds or milliseconds by the one reading under which the file's times lie
between March 1973 and the year 5138. Where neither or both units would do, nothing is guessed.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

TimeUnit = Literal["auto", "seconds", "milliseconds", "iso"]

_WHOLE = r"^[0-9]{1,18}(\.0*)?$"
_NEGATIVE = r"^-[0-9]+(\.[0-9]*)?$"
# pandas alone would also take `now` and `today`, which are other times tomorrow.
_ISO = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?$"
)
_LATEST_SECONDS = 100_000_000_000
"""The year 5138 in seconds, March 1973 in milliseconds."""
_EARLIEST_SECONDS = 100_000_000
"""March 1973 in seconds, the second day of 1970 in milliseconds."""

_RULES = {
    "seconds": "whole seconds since 1970",
    "milliseconds": "whole milliseconds since 1970",
    "iso": "an ISO date such as 2014-07-23 or 2014-07-23T12:30:00Z",
    "auto": "whole seconds or milliseconds since 1970 or an ISO date",
}


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """A column of times, read.

    Attributes:
        seconds: since 1970 UTC, int64, shape (rows,); 0 where faulty.
        unit: what the column is written in; `auto` where nothing tells.
        faults: by rule, which rows break it, bool, shape (rows,); no row breaks two.
        unclear: why the unit must be declared, or None.
    """

    seconds: NDArray[np.int64]
    unit: TimeUnit
    faults: dict[str, NDArray[np.bool_]]
    unclear: str | None = None


def read_times(column: pa.ChunkedArray, unit: TimeUnit) -> Times:
    """Read a column of text, or of dates and times of their own type, which no unit can change.

    Dates without a zone are UTC, fractions of a second are cut off.
    """
    if pa.types.is_temporal(column.type):
        return _dated(column)
    numeric = _matches(column, _WHOLE)
    if unit == "iso":
        return _iso(column)
    if unit == "auto":
        dates = _matches(column, _ISO)
        if np.count_nonzero(dates) > np.count_nonzero(numeric):
            return _iso(column)
    values = np.zeros(len(column), dtype=np.int64)
    texts = column.filter(pa.array(numeric))
    if pc.any(pc.match_substring(texts, ".")).as_py():
        texts = pc.replace_substring_regex(texts, r"\..*", "")
    values[numeric] = pc.cast(texts, pa.int64()).to_numpy()
    unclear = None
    if unit == "auto":
        unit, unclear = _found(values[numeric])
    per_second = 1_000 if unit == "milliseconds" else 1
    seconds = values // per_second
    late = (seconds >= _LATEST_SECONDS) & (unit != "auto")
    negative = _matches(column, _NEGATIVE)
    smaller = "microseconds" if unit == "milliseconds" else "milliseconds"
    return Times(
        seconds=np.where(late, 0, seconds),
        unit=unit,
        faults={
            "time must not be negative": negative,
            f"time must be {_RULES[unit]}": ~numeric & ~negative,
            f"time must be in {unit} ({smaller}?)": late,
        },
        unclear=unclear,
    )


def _found(values: NDArray[np.int64]) -> tuple[TimeUnit, str | None]:
    """Tell the unit of whole numbers, or why it must be declared."""
    if len(values) == 0:
        return "auto", None
    n_late = np.count_nonzero(values >= _LATEST_SECONDS)
    n_early = np.count_nonzero(values < _EARLIEST_SECONDS)
    n_between = len(values) - n_late - n_early
    if n_between and not n_late:
        return "seconds", None
    if n_late and not n_between:
        return "milliseconds", None
    why = (
        f"{n_between} that look like seconds and {n_late} like milliseconds"
        if n_late
        else f"{values.min()} to {values.max()}, which is 1970 to 1973 in either"
    )
    return "auto", (
        f"times must tell whether they are seconds or milliseconds, got {why}; declare the unit "
        "with --time-unit seconds or milliseconds"
    )


def _iso(column: pa.ChunkedArray) -> Times:
    dates = _matches(column, _ISO)
    texts = pd.Series(column.to_pandas()).where(dates)
    moments = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
    return _of_moments(moments)


def _dated(column: pa.ChunkedArray) -> Times:
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s"))
    if not pa.types.is_timestamp(column.type):  # a time of day
        return Times(
            seconds=np.zeros(len(column), dtype=np.int64),
            unit="iso",
            faults={"time must be a date": np.ones(len(column), dtype=np.bool_)},
        )
    # Parquet's instants are UTC, whatever zone they are shown in.
    values = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[column.type.unit]
    return _of_seconds(values // per_second, missing=pc.is_null(column).to_numpy())


def _of_moments(moments: "pd.Series[pd.Timestamp]") -> Times:
    missing = moments.isna().to_numpy()
    seconds = moments.dt.floor("s").dt.as_unit("s").astype("int64").to_numpy()
    return _of_seconds(seconds.astype(np.int64), missing=missing)


def _of_seconds(seconds: NDArray[np.int64], *, missing: NDArray[np.bool_]) -> Times:
    early = (seconds < 0) & ~missing
    return Times(
        seconds=np.where(early | missing, 0, seconds),
        unit="iso",
        faults={
            "time must not be before 1970": early,
            f"time must be {_RULES['iso']}": missing,
        },
    )


def _matches(column: pa.ChunkedArray, pattern: str) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.fill_null(
        pc.match_substring_regex(column, pattern), fill_value=False
    ).to_numpy()
    return found
