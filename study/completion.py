"""What the shell offers after a tab: studies of the file and the store, columns, aggregates.

Whatever is wrong with file or store, the shell gets no message, only fewer offers.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import typer

from model.errors import RequestError

_AGGREGATES = ("mean", "std", "sem", "min", "max", "n", "best")


def studies(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of studies that begin so: those of the file, then those of the store."""
    names: dict[str, None] = {}
    with suppress(RequestError):
        from study.definition import load_studies  # noqa: PLC0415

        file = Path(context.params.get("file") or "studies.yaml")
        names.update(dict.fromkeys(load_studies(file).studies))
    with suppress(RequestError):
        names.update(dict.fromkeys(_stored(context)))
    return [name for name in names if name.startswith(incomplete)]


def terms(context: typer.Context, incomplete: str) -> list[str]:
    """Return what may end a list of columns and aggregates, separated by commas."""
    before, last = re.fullmatch(r"(.*[,(]\s*-?|-?)([^,(]*)", incomplete).groups()  # type: ignore[union-attr]
    inside = before.endswith("(")
    offers = [f"{name})" if inside else name for name in _columns(context)]
    if not inside:
        offers += [f"{name}(" for name in _AGGREGATES]
    return [before + offer for offer in offers if offer.startswith(last)]


def names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the columns that begin so, for a list of plain columns."""
    before, last = re.fullmatch(r"(.*,\s*)?([^,]*)", incomplete).groups("")  # type: ignore[union-attr]
    return [before + name for name in _columns(context) if name.startswith(last)]


def _columns(context: typer.Context) -> list[str]:
    from study.views import CURVES, RESULTS  # noqa: PLC0415

    view = CURVES if context.params.get("source") == "curves" else RESULTS
    return list(view.c.keys())


def _stored(context: typer.Context) -> Iterator[str]:
    from sqlalchemy import select  # noqa: PLC0415

    from study import engine  # noqa: PLC0415
    from study.schema import StudyRow  # noqa: PLC0415

    reader = engine.reading(str(context.params.get("store") or "sqlite:///results.db"))
    with reader.connect() as connection:
        yield from connection.scalars(select(StudyRow.name).order_by(StudyRow.name))
    reader.dispose()
