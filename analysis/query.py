"""Rows of the views, chosen, grouped and sorted by the database; or what read-only SQL returns."""

from collections.abc import Sequence
from typing import Any, Literal

import pandas as pd
from sqlalchemy import ColumnElement, Engine, FromClause, Table, and_, or_, select
from sqlalchemy.exc import DBAPIError

from analysis.coverage import declared_cells
from analysis.expression import condition
from analysis.frames import read, untyped_column
from analysis.grouping import (
    SPREADS,
    Term,
    grouped,
    parse_terms,
    unknown_column,
    varying,
    with_roots,
)
from model.config import EMBEDDINGS
from model.errors import RequestError
from study.schema import RESULT_METRICS, CellRow
from study.views import CURVES, EPOCH_METRICS, FACTOR_COLUMNS, RESULTS, TRIALS

Source = Literal["results", "curves"]

_VIEWS: dict[Source, Table] = {"results": RESULTS, "curves": CURVES}
_ORDER = ("study", "dataset", "model", "embeddings", *FACTOR_COLUMNS, "trial", "epoch")
_OF_CELLS = ("study", "stage")
_BETTER_HIGH = {*RESULT_METRICS, *EPOCH_METRICS} - {"train_loss"}
_USUAL_TERMS = (
    "n(test_ndcg@10), mean(validation_ndcg@10), mean(test_ndcg@10), sem(test_ndcg@10)",
    "n, mean(train_loss), mean(validation_ndcg@10), sem(validation_ndcg@10)",
)
_COMPARED = tuple(
    name for name in ("dataset", *FACTOR_COLUMNS) if name not in {*EMBEDDINGS, "synthetic"}
)


def query(
    engine: Engine,
    *,
    source: Source = "results",
    study: str | None = None,
    where: str | None = None,
    sort: str | None = None,
    limit: int | None = None,
    columns: str | Sequence[str] | None = None,
    group_by: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return rows of a view; everything is done by the database.

    Args:
        engine: from `analysis.frames.open_reader`.
        source: the view, `results` or `curves`.
        study: only this study's trials.
        where: an expression, see `analysis.expression`.
        sort: terms, separated by commas. A metric sorts best first, any other term smallest
            first, and a `-` before its name the other way round. Missing values come last.
        limit: at most so many rows.
        columns: which, in this order; default all, and of groups `_USUAL_TERMS`. Groups that
            are not among them come first.
        group_by: columns; each combination of their values is one row of aggregates, see
            `analysis.grouping`; without any, aggregates among `columns` are over all rows.
            `attrs["over"]` of the frame names what differs within rows.
            Metrics of different protocols are never mixed.
            Without a study a trial that several share counts once. Cells that only screen
            candidates stay out unless `stage` is named.

    Raises:
        RequestError: an unknown study or column, or a mistake in the expression.
    """
    if limit is not None and limit < 1:
        raise RequestError(f"limit must be at least 1, got {limit}; leave it out for all rows")
    view = _VIEWS[source]
    condition_of = _Condition(view, where)
    groups = [term.name for term in _plain_terms(group_by, view)] if group_by is not None else None
    listed = None if columns is None else parse_terms(_joined(columns), view.c.keys())
    order = _order(sort, view)
    if groups is None and any(term.aggregate for term in (*(listed or ()), *(t for t, _ in order))):
        groups = []  # all rows are one group
    with engine.connect() as connection:
        if study is not None:
            declared_cells(connection, study)
        if groups is None:
            statement = _listing(view, listed, order, condition_of, study)
            return read(connection, statement if limit is None else statement.limit(limit))
        if listed is None:
            listed = parse_terms(_USUAL_TERMS[source == "curves"], view.c.keys())
        names = {term.name for term in listed}
        # A row of aggregates says what it is over, whatever else was asked for.
        shown = [*(Term(name) for name in groups if name not in names), *listed]
        named = (
            {t.column for t in (*shown, *(t for t, _ in order))} | {*groups} | condition_of.names
        )
        rows: FromClause = view
        if source == "results" and study is None and named.isdisjoint(_OF_CELLS):
            rows = TRIALS
        chosen = condition_of(rows, study, screened="stage" in named)
        statement = grouped(
            rows, groups, shown=shown, where=chosen, sort=order, gated=source == "results"
        )
        others = [name for name in _COMPARED if name not in groups]
        ends = varying(rows, groups, names=others, where=chosen)
        differs = connection.execute(ends).one()
        over = [name for name, found in zip(others, differs, strict=True) if found]
        if "protocol" in over:
            _require_one_protocol([*shown, *(term for term, _ in order)])
        frame = read(connection, statement if limit is None else statement.limit(limit))
    frame.attrs["over"] = over
    return with_roots(frame, shown)


def pivot(
    engine: Engine,
    *,
    row: str,
    column: str,
    value: str,
    source: Source = "results",
    study: str | None = None,
    where: str | None = None,
) -> pd.DataFrame:
    """Return one aggregate as a table: a row for each value of `row`, a column of `column`.

    Args:
        engine: from `analysis.frames.open_reader`.
        row: columns, separated by commas.
        column: the column whose values become columns, such as `hidden=16`.
        value: an aggregate; a plain column stands for its mean.
        source: the view, `results` or `curves`.
        study: only this study's trials.
        where: an expression, see `analysis.expression`.

    Raises:
        RequestError: as `query`.
    """
    view = _VIEWS[source]
    [term] = _one_term(value, view)
    if term.aggregate is None and term.column is not None:
        term = Term(term.column, "mean")
    rows = [each.name for each in _plain_terms(row, view)]
    [across] = _plain_terms(column, view) if "," not in column else _one_term(column, view)
    if across.name in rows:
        raise RequestError(f"rows and columns of a pivot must differ, got {across.name} twice")
    groups = [*rows, across.name]
    frame = query(
        engine,
        source=source,
        study=study,
        where=where,
        group_by=groups,
        columns=[*groups, term.name],
    )
    frame["across"] = [
        f"{across.name}={'' if pd.isna(level) else _spelt(level)}" for level in frame[across.name]
    ]
    levels = frame.sort_values(across.name, kind="stable")["across"].unique()
    if across.name == "embeddings":
        levels = frame["across"].unique()
    key = frame[rows].astype("str").agg("\x00".join, axis=1)
    table = frame[rows].loc[~key.duplicated()].reset_index(drop=True)
    order = key[~key.duplicated()]
    for level in levels:
        here = frame["across"] == level
        values = pd.Series(frame.loc[here, term.name].to_numpy(), index=key[here])
        table[level] = values.reindex(order).to_numpy()
    table.attrs["over"] = frame.attrs["over"]
    table.attrs["value"] = term.name
    return table


def sql(engine: Engine, text: str) -> pd.DataFrame:
    """Return what a SELECT returns; the connection, not the text, keeps it from writing.

    Raises:
        RequestError: what the database says of the text, or two columns of one name.
    """
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "postgresql":
                # After a statement the transaction cannot be made writable, and as a cursor's
                # query the text can neither end it nor bring a second statement.
                connection.exec_driver_sql("SELECT 1")
                connection.execution_options(stream_results=True)
            # Without parameters a driver would still read percent signs as their places.
            options = {"no_parameters": True}
            found = connection.exec_driver_sql(text, execution_options=options)
            if not found.returns_rows:
                raise RequestError(f"--sql takes a SELECT, which returns rows, got: {text}")
            names, rows = list(found.keys()), found.all()
    except DBAPIError as error:
        reason = str(error.orig).strip().splitlines()[0]
        raise RequestError(f"--sql takes one read-only SELECT: {reason}\n  {text}") from None
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise RequestError(
            f"columns need names of their own, got {', '.join(sorted(doubled))} twice; "
            "rename one with AS"
        )
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    return pd.DataFrame(dict(zip(names, map(untyped_column, columns), strict=True)))


def _require_one_protocol(terms: Sequence[Term]) -> None:
    """Refuse an aggregate over trials whose metrics were counted among other candidates."""
    for term in terms:
        mixed = term.column in _BETTER_HIGH and "_full_" not in str(term.column)
        if mixed and term.aggregate not in {None, "n"}:
            raise RequestError(
                f"metrics of different protocols never share an aggregate, got {term.name} over "
                "several; add protocol to --group-by, or choose one with --where"
            )


class _Condition:
    """What `--where` asks for, on whichever relation it is put to; knows the columns it names."""

    def __init__(self, view: Table, text: str | None) -> None:
        self._text = text
        self.names: set[str] = set()
        if text is not None:
            condition(text, _Noticing(view, self.names))  # refused before the database is asked

    def __call__(
        self, rows: FromClause, study: str | None, *, screened: bool = True
    ) -> ColumnElement[bool] | None:
        parts: list[ColumnElement[bool]] = []
        if self._text is not None:
            parts.append(condition(self._text, dict(rows.c.items())))
        if study is not None and "study" in rows.c:
            parts.append(rows.c.study == study)
        # Lists that are made once: a look at `cell` for each row takes PostgreSQL seconds.
        answering = select(CellRow.trial).where(CellRow.state == "feasible")
        if study is not None:
            answering = answering.where(CellRow.study == study)
        if study is not None and "study" not in rows.c:
            parts.append(rows.c.trial.in_(answering))
        if not screened and "stage" in rows.c:
            parts.append(or_(rows.c.stage.is_(None), rows.c.stage != "screen"))
        elif not screened:
            parts.append(
                or_(
                    rows.c.trial.not_in(answering.where(CellRow.stage == "screen")),
                    rows.c.trial.in_(answering.where(CellRow.stage == "final")),
                )
            )
        return and_(*parts) if parts else None


class _Noticing(dict[str, ColumnElement[Any]]):
    """A view's columns by name, and which of them were asked for."""

    def __init__(self, view: Table, names: set[str]) -> None:
        super().__init__(view.c.items())
        self._names = names

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        self._names.add(name)
        return super().get(name, default)


def _listing(
    view: Table,
    listed: list[Term] | None,
    order: Sequence[tuple[Term, bool]],
    chosen: _Condition,
    study: str | None,
) -> Any:  # noqa: ANN401 - a Select of whatever columns
    statement = select(*(view.c if listed is None else [view.c[t.name] for t in listed]))
    where = chosen(view, study)
    if where is not None:
        statement = statement.where(where)
    sorted_by = [
        (view.c[term.name].desc() if descending else view.c[term.name].asc()).nulls_last()
        for term, descending in order
    ]
    # Ties in the same order on every database and on every call.
    ties = [view.c[name].nulls_last() for name in _ORDER if name in view.c]
    return statement.order_by(*sorted_by, *ties)


def _order(sort: str | None, view: Table) -> list[tuple[Term, bool]]:
    order: list[tuple[Term, bool]] = []
    for name in sort.split(",") if sort is not None else []:
        reverse = name.strip().startswith("-")
        [term] = _one_term(name.strip().removeprefix("-"), view)
        metric = term.column in _BETTER_HIGH and term.aggregate not in {*SPREADS, "n"}
        order.append((term, metric != reverse))
    return order


def _joined(columns: str | Sequence[str]) -> str:
    return columns if isinstance(columns, str) else ",".join(columns)


def _plain_terms(columns: str | Sequence[str], view: Table) -> list[Term]:
    terms = parse_terms(_joined(columns), view.c.keys())
    for term in terms:
        if term.aggregate is not None:
            raise RequestError(f"groups are made of columns, got {term.name}; name a column")
    return terms


def _one_term(text: str, view: Table) -> list[Term]:
    if not text.strip():
        raise RequestError(unknown_column(text, view.c.keys()))
    terms = parse_terms(text, view.c.keys())
    if len(terms) != 1:
        raise RequestError(f"one column or aggregate belongs here, got {text}")
    return terms


def _spelt(level: object) -> str:
    """Write a value as it stands in a column's name: 0.5, 16, Day+Pos."""
    return f"{level:g}" if isinstance(level, float) else str(level)
