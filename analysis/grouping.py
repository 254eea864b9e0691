"""Aggregates over groups of rows, as one SQL statement on either database.

A term is a column, `n`, or an aggregate of a column: `mean(test_ndcg@10)`. Metrics enter an
aggregate from complete trials alone: trials that were stopped early or run at the moment are no
replicates. `std` and `sem` are of a sample (n - 1), missing below two values. `best(x)` is the x of
the group's row with the highest validation NDCG@10 under `popular-100`, whatever x is: so a test
score can be read without choosing by it.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pandas as pd
from sqlalchemy import (
    Boolean,
    ColumnElement,
    Float,
    FromClause,
    Integer,
    Select,
    Text,
    case,
    cast,
    func,
    select,
)

from model.errors import RequestError
from model.results import SELECTED_BY
from study.column_types import Utc
from study.schema import RESULT_METRICS
from study.space import all_subsets, label

AGGREGATES = ("mean", "std", "sem", "min", "max", "n", "best")
SPREADS = ("std", "sem")
SELECTION = f"validation_{SELECTED_BY}"

_TERM = re.compile(r"\s*(?:([A-Za-z]+)\(\s*([^()\s,]*)\s*\)|([^()\s,]+))\s*$")
_SUBSETS = {label(subset): place for place, subset in enumerate(((), *all_subsets()))}


@dataclass(frozen=True, slots=True)
class Term:
    """What one column of an answer holds.

    Attributes:
        column: the column that it is read from; None for `n`.
        aggregate: one of `AGGREGATES`; None for the column itself.
    """

    column: str | None
    aggregate: str | None = None

    @property
    def name(self) -> str:
        """The term as it is written."""
        if self.aggregate is None:
            return str(self.column)
        return self.aggregate if self.column is None else f"{self.aggregate}({self.column})"


def parse_terms(text: str, columns: Collection[str]) -> list[Term]:
    """Read terms separated by commas.

    Raises:
        RequestError: an unknown column or aggregate, with a mark under its place.
    """
    terms: list[Term] = []
    start = 0
    for part in text.split(","):
        terms.append(_term(text, part, start, columns))
        start += len(part) + 1
    return terms


def _term(text: str, part: str, start: int, columns: Collection[str]) -> Term:
    def refuse(problem: str, offset: int) -> NoReturn:
        raise RequestError(f"{problem}\n  {text}\n  {' ' * (start + offset)}^")

    found = _TERM.match(part)
    blank = len(part) - len(part.lstrip())
    if found is None:
        refuse("expected a column, or an aggregate such as mean(test_ndcg@10), here", blank)
    aggregate, inside, column = found.groups()
    if aggregate is None:
        if column == "n":
            return Term(None, "n")
        if column not in columns:
            refuse(unknown_column(column, columns), blank)
        return Term(column)
    if aggregate not in AGGREGATES:
        near = difflib.get_close_matches(aggregate, AGGREGATES, n=1)
        advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(AGGREGATES)}"
        refuse(f"no aggregate {aggregate}; {advice}", blank)
    if inside not in columns:
        refuse(unknown_column(inside, columns), found.start(2))
    return Term(inside, aggregate)


def unknown_column(name: str, columns: Iterable[str]) -> str:
    """Say that there is no such column, and which ones are like it."""
    near = difflib.get_close_matches(name, list(columns), n=3)
    advice = f"did you mean {' or '.join(near)}?" if near else "see them in docs/database.md"
    return f"no column {name!r}; {advice}"


def grouped(
    rows: FromClause,
    group_by: Sequence[str],
    *,
    shown: Sequence[Term],
    where: ColumnElement[bool] | None,
    sort: Sequence[tuple[Term, bool]],
    gated: bool,
) -> Select[*tuple[Any, ...]]:
    """Return the statement: a row for each group, a column for each term.

    Args:
        rows: what is grouped, a view.
        group_by: names of columns.
        shown: the terms; a plain column among them must be one of `group_by`.
        where: which rows enter.
        sort: terms with whether they descend; groups in canonical order decide between equals.
        gated: whether metrics count from complete trials alone.

    Raises:
        RequestError: a plain column that is no group, or an average of text.
    """
    used = dict.fromkeys([*shown, *(term for term, _ in sort)])
    for term in used:
        _require_meaning(term, rows, group_by)
    groups = [rows.c[name].label(f"group_{place}") for place, name in enumerate(group_by)]
    values = {
        name: _value(rows, name, gated=gated)
        for name in dict.fromkeys(t.column for t in used if t.aggregate and t.column)
    }
    partition = [rows.c[name] for name in group_by] or None
    inner: list[ColumnElement[Any]] = [*groups, rows.c.trial.label("row")]
    for place, (name, value) in enumerate(values.items()):
        inner.append(value.label(f"value_{place}"))
        if any(t.column == name and t.aggregate in SPREADS for t in used):
            # The mean first, then the squares: sums of squares alone lose all digits.
            mean = func.avg(_number(value)).over(partition_by=partition)
            inner.append((_number(value) - mean).label(f"offset_{place}"))
    chosen = _value(rows, SELECTION, gated=gated)
    if any(term.aggregate == "best" for term in used):
        order = [chosen.desc().nulls_last(), rows.c.trial]
        place_in_group = func.row_number().over(partition_by=partition, order_by=order)
        inner.append(case((chosen.is_not(None), place_in_group)).label("place"))
    statement = select(*inner)
    if where is not None:
        statement = statement.where(where)
    source = statement.subquery("chosen")
    places = {name: place for place, name in enumerate(values)}
    keys = {name: source.c[f"group_{place}"] for place, name in enumerate(group_by)}

    def expression(term: Term) -> ColumnElement[Any]:
        if term.aggregate is None:
            return keys[str(term.column)]
        if term.column is None:
            return func.count()
        return _aggregated(term.aggregate, source, places[term.column])

    order = [
        (expression(term).desc() if descending else expression(term).asc()).nulls_last()
        for term, descending in sort
    ]
    order += [
        (case(_SUBSETS, value=key, else_=len(_SUBSETS)) if name == "embeddings" else key)
        .asc()
        .nulls_last()
        for name, key in keys.items()
    ]
    return (
        select(*(expression(term).label(term.name) for term in shown))
        .select_from(source)  # `n` alone names no column of it
        .group_by(*keys.values())
        .order_by(*order)
    )


def with_roots(frame: pd.DataFrame, shown: Sequence[Term]) -> pd.DataFrame:
    """Turn variances into what `std` and `sem` name; not every SQLite has a square root."""
    for term in shown:
        if term.aggregate in SPREADS:
            frame[term.name] = frame[term.name].astype("float64") ** 0.5
    return frame


def varying(
    rows: FromClause,
    group_by: Sequence[str],
    *,
    names: Sequence[str],
    where: ColumnElement[bool] | None,
) -> Select[*tuple[Any, ...]]:
    """Return the statement that tells which columns differ within a group: 1 or 0 for each."""
    ends = [
        case((func.min(rows.c[name]) != func.max(rows.c[name]), 1), else_=0).label(name)
        for name in names
    ]
    statement = select(*ends).group_by(*(rows.c[name] for name in group_by))
    if where is not None:
        statement = statement.where(where)
    within = statement.subquery("within")
    return select(*(func.max(within.c[name]).label(name) for name in names))


def _require_meaning(term: Term, rows: FromClause, group_by: Sequence[str]) -> None:
    if term.aggregate is None:
        if term.column not in group_by:
            raise RequestError(
                f"a group has many values of {term.column}; add it to --group-by, or write "
                f"best({term.column}) or max({term.column})"
            )
        return
    if term.column is None:
        return
    kind = rows.c[term.column].type
    if term.aggregate in {"mean", *SPREADS} and isinstance(kind, Text | Utc):
        raise RequestError(
            f"{term.aggregate} takes a number, got {term.name}; write min, max, best or n"
        )


def _value(rows: FromClause, name: str, *, gated: bool) -> ColumnElement[Any]:
    column = rows.c[name]
    if gated and name in RESULT_METRICS:
        return case((rows.c.state == "complete", column))
    return column


def _number(value: ColumnElement[Any]) -> ColumnElement[float]:
    if isinstance(value.type, Boolean):
        value = cast(value, Integer)
    return cast(value, Float(53))


def _aggregated(aggregate: str, source: FromClause, place: int) -> ColumnElement[Any]:
    value: ColumnElement[Any] = source.c[f"value_{place}"]
    flag = isinstance(value.type, Boolean)
    count = func.count(value)
    match aggregate:
        case "n":
            return count
        case "mean":
            return func.avg(_number(value))
        case "std" | "sem":
            offset = source.c[f"offset_{place}"]
            variance = func.sum(offset * offset) / func.nullif(count - 1, 0)
            return variance if aggregate == "std" else variance / count
        case "min" | "max":
            found = getattr(func, aggregate)(cast(value, Integer) if flag else value)
        case _:
            value = cast(value, Integer) if flag else value
            found = func.max(case((source.c.place == 1, value)))
    return cast(found, Boolean) if flag else found
