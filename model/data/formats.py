"""From a file to raw interactions: all faulty rows are reported at once, nothing is half-read.

`tables` says what a file holds, this module what is allowed: ids that are not empty, times that can
be told, ratings that are numbers, and repeated rows as the policy says.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from model.data.archives import unpacked
from model.data.columns import Columns
from model.data.interactions import Interactions
from model.data.tables import ENDINGS, Table, read_table
from model.data.times import Times, TimeUnit, read_times
from model.errors import RequestError

Duplicates = Literal["keep", "drop", "refuse"]

_SHOWN_FAULTS = 10
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


@dataclass(frozen=True, slots=True)
class Policy:
    """What a file's times are, and what to do with rows that repeat a user, item and time.

    Of repeated rows `keep` takes all, `drop` the first, and `refuse` calls the others faulty.
    """

    time_unit: TimeUnit = "auto"
    duplicates: Duplicates = "keep"


def silently(line: str) -> None:
    """Say nothing."""
    del line


def read_file(
    path: Path,
    columns: Columns,
    *,
    policy: Policy | None = None,
    member: str | None = None,
    say: Callable[[str], None] = silently,
) -> Interactions:
    """Read the interactions of a file, or of one `member` of a zip, in the file's row order.

    Args:
        path: an uncompressed, gzipped or zipped table (see `tables`).
        columns: which columns to read.
        policy: of times and of repeated rows; by default `Policy()`.
        member: path inside the zip; by default the one table that it holds.
        say: told what was found rather than declared: the unit of times, repeated rows.

    Raises:
        RequestError: the file is missing, broken or of unknown layout, or any row is faulty: with
            the places of the first ten faulty rows and the count of all.
    """
    policy = policy or Policy()
    name, content = unpacked(path, member=member, endings=ENDINGS)
    table = read_table(content, columns, name=name)
    del content
    if not len(table.numbers) and not table.broken:
        raise RequestError(f"a data file must hold interactions, got none in {name}; check it")
    users, items = table.users.dictionary_encode(), table.items.dictionary_encode()
    times = read_times(table.times, policy.time_unit)
    faults = _Faults(table)
    faults.add_ids("user", users)
    faults.add_ids("item", items)
    for rule, rows in times.faults.items():
        faults.add(rule, rows, values=table.times)
    ratings = None
    if table.ratings is not None:
        ratings, wrong = _ratings(table.ratings)
        faults.add("rating must be a number", wrong, values=table.ratings)
    user_codes, user_ids = _coded(users)
    item_codes, item_ids = _coded(items)
    repeats = _repeats(user_codes, item_codes, times.seconds) & ~faults.found
    if policy.duplicates == "refuse":
        faults.add("user, item and time must not be those of an earlier row", repeats)
    faults.raise_any(unclear=times.unclear)
    _tell(times, repeats, table=table, policy=policy, say=say)
    kept = ~repeats if policy.duplicates == "drop" else slice(None)
    return Interactions(
        users=user_ids[user_codes[kept]],
        items=item_ids[item_codes[kept]],
        timestamps=times.seconds[kept],
        ratings=ratings[kept] if ratings is not None else None,
    )


class _Faults:
    """Faulty rows of a table: each counts once, under the first rule that it breaks."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.found = np.zeros(len(table.numbers), dtype=np.bool_)
        self._texts = dict(table.broken)
        self._counts = {"row": len(table.broken)}

    def add(
        self, rule: str, rows: NDArray[np.bool_], *, values: pa.ChunkedArray | None = None
    ) -> None:
        """Note the rows that break a rule, with the offending values where there are any."""
        new = np.flatnonzero(rows & ~self.found)
        self.found |= rows
        kind = rule.partition(" must")[0]
        self._counts[kind] = self._counts.get(kind, 0) + len(new)
        for row in new[:_SHOWN_FAULTS].tolist():
            got = "" if values is None else f", got {_shown(values[row])}"
            self._texts[int(self._table.numbers[row])] = rule + got

    def add_ids(self, what: str, ids: pa.ChunkedArray) -> None:
        """Note the rows whose id is empty or could not stand in a line of text."""
        codes, distinct = _codes(ids)
        blank = pc.equal(pc.utf8_trim_whitespace(distinct), "")
        split = pc.match_substring_regex(distinct, "[\t\n\r\0]")
        for rule, wrong, missing in (("be empty", blank, True), ("hold tabs or", split, False)):
            of_code = np.append(wrong.to_numpy(zero_copy_only=False), missing)
            rule_text = f"{what} must not {rule}"
            if rule == "be empty":
                self.add(rule_text, of_code[codes])
            else:
                self.add(f"{rule_text} line breaks", of_code[codes], values=ids)

    def raise_any(self, *, unclear: str | None) -> None:
        """Raise one error with all there is to say, or return where there is nothing."""
        n_faults = sum(self._counts.values())
        if not n_faults:
            if unclear is not None:
                raise RequestError(unclear)
            return
        shown = sorted(self._texts)[:_SHOWN_FAULTS]
        listed = [
            f"  {place}: {self._texts[row]}"
            for row, place in zip(shown, self._table.place(shown), strict=True)
        ]
        if n_faults > len(listed):
            listed.append(f"  and {n_faults - len(listed)} more")
        kinds = ", ".join(f"{kind} {n}" for kind, n in self._counts.items() if n)
        total = len(self.found) + len(self._table.broken)
        lines = [
            f"every row must hold a user, an item and a time, got {n_faults} faulty of {total} in "
            f"{self._table.name} ({kinds}); correct or remove them",
            *listed,
        ]
        if unclear is not None:
            lines.append(unclear)
        raise RequestError("\n".join(lines))


def _codes(ids: pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.Array]:
    """Return each row's place among the distinct ids, -1 where null, and these."""
    combined = ids.unify_dictionaries().combine_chunks()
    if isinstance(combined, pa.ChunkedArray):  # no rows
        return np.zeros(0, dtype=np.int64), pa.array([], pa.string())
    codes = pc.fill_null(combined.indices, -1).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64), combined.dictionary


def _coded(ids: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.object_]]:
    """Return codes and ids as `_codes` does, the ids as one Python text each."""
    codes, distinct = _codes(ids)
    return codes, np.array(distinct.to_pylist(), dtype=object)


def _ratings(column: pa.ChunkedArray) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return ratings, and which rows have none."""
    number = pc.fill_null(pc.match_substring_regex(column, _NUMBER), fill_value=False).to_numpy()
    ratings = np.zeros(len(column))
    # Python's `float` for each distinct text: the same number on every platform.
    texts = column.filter(pa.array(number)).dictionary_encode()
    codes, distinct = _codes(texts)
    ratings[number] = np.array([float(text) for text in distinct.to_pylist()])[codes]
    return ratings, ~number | ~np.isfinite(ratings)


def _repeats(
    users: NDArray[np.int64], items: NDArray[np.int64], seconds: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which rows have the user, item and time of an earlier one."""
    rows = pd.DataFrame({"user": users, "item": items, "seconds": seconds})
    found: NDArray[np.bool_] = rows.duplicated().to_numpy()
    return found


def _tell(
    times: Times,
    repeats: NDArray[np.bool_],
    *,
    table: Table,
    policy: Policy,
    say: Callable[[str], None],
) -> None:
    first, last = (
        datetime.fromtimestamp(int(moment), tz=UTC).date()
        for moment in (times.seconds.min(), times.seconds.max())
    )
    unit = {"iso": "ISO dates"}.get(times.unit, times.unit)
    how = "declared" if policy.time_unit == times.unit else "found"
    say(f"times of {table.name} are {unit} ({how}): {first} to {last}, UTC")
    if n_repeats := int(np.count_nonzero(repeats)):
        done = "left out" if policy.duplicates == "drop" else "kept (--duplicates drop or refuse)"
        say(f"{n_repeats:,} rows repeat the user, item and time of an earlier row: {done}")


def _shown(value: pa.Scalar) -> str:
    found = value.as_py()
    text = "nothing" if found is None else repr(found if isinstance(found, str) else str(found))
    return text if len(text) <= 60 else text[:57] + "..."
