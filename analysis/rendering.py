"""Rows of a frame as text or bytes: what `meantime query` prints, in every format."""

import io
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from pyarrow.lib import ArrowException
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.formats import TableFormat
from model.config import EMBEDDINGS
from model.errors import RequestError
from study.schema import RESULT_METRICS
from study.views import FACTOR_COLUMNS, RESULTS

_ALWAYS_SHOWN = ("embeddings", "validation_ndcg@10", "test_ndcg@10")
_SHOWN_WHEN_VARYING = (
    "study",
    "dataset",
    "model",
    *(n for n in FACTOR_COLUMNS if n not in (*EMBEDDINGS, "embeddings", "model", "synthetic")),
    "state",
    "failure",
)
_SAID_WHEN_FIXED = {
    "study",
    "dataset",
    "hidden",
    "heads",
    "dropout",
    "weight_decay",
    "seed",
    "state",
}
_WIDEST = 40


def render(frame: pd.DataFrame, form: str, *, width: int = 80) -> str | bytes:
    """Return a frame in one of `TableFormat`: as text, or as bytes for `parquet`.

    A table shows what fits into `width` characters: of whole results rows the embeddings, two
    metrics and the columns that vary, with those that do not in a line above. The other formats
    hold every column; csv, json, jsonl and parquet in full precision, with null for NaN and text
    for infinities in JSON; markdown and latex (booktabs) as a reader wants the numbers.

    Raises:
        RequestError: an unknown format, or a column that parquet cannot hold.
    """
    if form not in set(TableFormat):
        raise RequestError(f"format must be one of {', '.join(TableFormat)}, got {form!r}")
    written: dict[str, Callable[[pd.DataFrame], str | bytes]] = {
        TableFormat.table: lambda rows: _table(rows, width),
        TableFormat.csv: lambda rows: rows.to_csv(index=False, lineterminator="\n"),
        TableFormat.json: _json,
        TableFormat.jsonl: _jsonl,
        TableFormat.parquet: _parquet,
        TableFormat.markdown: _markdown,
        TableFormat.latex: _latex,
    }
    return written[form](frame)


def _parquet(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    try:
        frame.to_parquet(buffer, index=False)
    except ArrowException as error:
        # SQLite types values, not columns, so that a query can mix them.
        mixed = [
            f"{name} with {' and '.join(kinds)}"
            for name in frame.columns
            if len(kinds := sorted({type(value).__name__ for value in frame[name].dropna()})) > 1
        ]
        raise RequestError(
            f"a column of a parquet file holds one type, got {', '.join(mixed) or error}; "
            "CAST it in the SQL, or use another --format"
        ) from None
    return buffer.getvalue()


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    columns = {str(name): [_plain(value) for value in frame[name]] for name in frame.columns}
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _json(frame: pd.DataFrame) -> str:
    return json.dumps(_records(frame), indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return a cell's value as JSON can hold it."""
    if pd.isna(value):
        return None
    if isinstance(value, pd.Timestamp):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    plain = value.item() if hasattr(value, "item") else value
    return str(plain) if isinstance(plain, float) and math.isinf(plain) else plain


def _jsonl(frame: pd.DataFrame) -> str:
    return "".join(f"{json.dumps(row, allow_nan=False)}\n" for row in _records(frame))


def _markdown(frame: pd.DataFrame) -> str:
    columns = [[str(name), "---", *_shown_column(frame, name)] for name in frame.columns]
    lines = ([cell.replace("|", r"\|") for cell in row] for row in zip(*columns, strict=True))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _latex(frame: pd.DataFrame) -> str:
    shown = pd.DataFrame({str(name): _shown_column(frame, name) for name in frame.columns})
    numeric = [pd.api.types.is_numeric_dtype(frame[name].dtype) for name in frame.columns]
    shape = "".join("r" if right else "l" for right in numeric)
    return shown.to_latex(index=False, escape=True, column_format=shape)


def _table(frame: pd.DataFrame, width: int) -> str:
    fixed, shown = _choice(frame)
    if not len(frame):
        return "no rows\n"
    cells = {name: _shown_column(frame, name) for name in shown}
    heads = {name: re.sub(r"([_(=])", r"\1\n", str(name)) for name in shown}
    widths = {
        name: min(_WIDEST, max(map(len, [*heads[name].split("\n"), *cells[name]])))
        for name in shown
    }
    kept = _fitting(shown, widths, width)
    table = Table(box=None, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for name in kept:
        numeric = pd.api.types.is_numeric_dtype(frame[name].dtype)
        table.add_column(
            Text(heads[name]),
            justify="right" if numeric else "left",
            min_width=widths[name],
            overflow="fold",
        )
    for row in zip(*(cells[name] for name in kept), strict=True):
        table.add_row(*(Text(cell) for cell in row))
    console = Console(file=io.StringIO(), width=max(width, 20), color_system=None)
    if fixed:
        console.print(Text("all rows: " + ", ".join(f"{n}={v}" for n, v in fixed.items())))
    over = frame.attrs.get("over")
    if over:
        value = frame.attrs.get("value")
        each = f"{value}, each value over" if value else "each row is over"
        console.print(Text(f"{each}: {', '.join(over)}; metrics of complete trials"))
    console.print(table)
    left_out = [str(name) for name in shown if name not in kept]
    if left_out:
        console.print(
            Text(f"not shown: {', '.join(left_out)} (choose with --columns, or --format csv)")
        )
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _choice(frame: pd.DataFrame) -> tuple[dict[str, str], list[str]]:
    """Return what all rows share, and the columns worth a place; a chosen frame is left alone."""
    if list(frame.columns) != RESULTS.c.keys():
        return {}, list(frame.columns)
    fixed: dict[str, str] = {}
    shown: list[str] = ["embeddings"]
    for name in _SHOWN_WHEN_VARYING:
        known = frame[name].dropna().unique()
        # NULL beside one value says no more than the embeddings do: nothing reads the factor.
        if len(known) > 1:
            shown.append(name)
        elif len(known) == 1 and name in _SAID_WHEN_FIXED:
            fixed[name] = _shown(name, known[0])
    return fixed, [*shown, "validation_ndcg@10", "test_ndcg@10", "test_recall@10", "seconds"]


def _fitting(names: Sequence[str], widths: dict[str, int], width: int) -> list[str]:
    """Return the columns that fit side by side, the indispensable ones first in line."""
    first = [name for name in names if name in _ALWAYS_SHOWN]
    kept: set[str] = set()
    used = -1
    for name in [*first, *(name for name in names if name not in first)]:
        if not kept or used + 1 + widths[name] <= width:
            kept.add(name)
            used += 1 + widths[name]
    return [name for name in names if name in kept]


def _shown_column(frame: pd.DataFrame, name: Any) -> list[str]:  # noqa: ANN401
    return [_shown(name, value) for value in frame[name]]


def _shown(name: Any, value: Any) -> str:  # noqa: ANN401
    """Return a value as a person reads it."""
    if pd.isna(value):
        return ""
    if isinstance(value, pd.Timestamp):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, float):
        column = re.sub(r"^\w+\((.*)\)$", r"\1", str(name))
        if column in RESULT_METRICS:
            return f"{value:.4f}"
        return f"{value:.1f}" if column == "seconds" else f"{value:.6g}"
    return str(value)
