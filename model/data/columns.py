"""Which columns of a file are the user, the item, the time and the rating.

A column is declared by its name, or found by one of the names that published data sets use. A file
without a header line has the columns 1, 2, ..
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import NamedTuple

from model.errors import RequestError

_USUAL = {
    "user": ("user", "user_id", "userId", "reviewerID"),
    "item": ("item", "item_id", "itemId", "movieId", "asin"),
    "timestamp": ("timestamp", "unixReviewTime"),
    "rating": ("rating", "overall"),
}
"""MovieLens, RecBole and Amazon reviews of 2014, 2018 and 2023; the first is this project's."""

_UNNAMED = {3: ("user", "item", "timestamp"), 4: ("user", "item", "rating", "timestamp")}
"""By the number of columns, what a file without a header line has."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Names in the header line; None takes the usual names, and no rating where there is none."""

    user: str | None = None
    item: str | None = None
    time: str | None = None
    rating: str | None = None


class Places(NamedTuple):
    """Where the columns of a file are, from 0; `rating` is None where there is none."""

    user: int
    item: int
    time: int
    rating: int | None


def numbered(columns: Columns) -> bool:
    """Tell columns that are all declared by number, which says that there is no header line."""
    declared = [name for name in astuple(columns) if name is not None]
    return bool(declared) and all(name.isdecimal() for name in declared)


def places(header: Sequence[str], columns: Columns, *, name: str) -> Places:
    """Find the columns in a file's header.

    >>> places(["asin", "reviewerID", "unixReviewTime"], Columns(), name="a.jsonl")
    Places(user=1, item=0, time=2, rating=None)

    Args:
        header: the names in the file's order.
        columns: the declared ones.
        name: of the file, for messages.

    Raises:
        RequestError: a wanted column is not there exactly once; all such are named.
    """
    known = [column.strip() for column in header]
    # RecBole writes a type behind the name, as in `user_id:token`.
    plain = [column.partition(":")[0] for column in known]
    found: dict[str, int] = {}
    faults = []
    for role, declared in zip(_USUAL, astuple(columns), strict=True):
        at = [
            n
            for n, column in enumerate(known)
            if column == declared or (declared is None and plain[n] in _USUAL[role])
        ]
        if len(at) == 1:
            found[role] = at[0]
        elif at or declared is not None or role != "rating":
            faults.append(declared or role)
    if faults:
        raise RequestError(
            f"each column must stand once in the header line, got {name} without one "
            f"{' and one '.join(faults)}: it has {', '.join(known) or 'no line'}; "
            "name the columns with --user, --item, --time and --rating (by number, from 1, where "
            "there is no header line)"
        )
    return Places(found["user"], found["item"], found["timestamp"], found.get("rating"))


def unnamed_places(width: int, columns: Columns, *, name: str) -> Places:
    """Find the columns of a file without a header line: by number, or user, item, rating, time.

    >>> unnamed_places(3, Columns(), name="a.csv")
    Places(user=0, item=1, time=2, rating=None)
    >>> unnamed_places(5, Columns(user="5", item="1", time="2"), name="a.csv")
    Places(user=4, item=0, time=1, rating=None)
    """
    if columns == Columns():
        return places(_UNNAMED.get(width, ()), columns, name=name)
    if not numbered(columns):
        raise RequestError(
            f"columns can be named only where a header line names them, got {name}, which has "
            "none; give their numbers, from 1, or leave out --user, --item, --time and --rating"
        )
    return places([str(n) for n in range(1, width + 1)], columns, name=name)
