"""A table for a paper, as LaTeX (booktabs), Markdown or CSV: texts with marks, notes below.

What is printed is decided where a sheet is made; here it is written down, escaped. In LaTeX and
Markdown the best entry is bold and the second underlined; CSV holds the bare texts.
"""

import csv
import io
from typing import Literal, NamedTuple

from analysis.formats import SheetFormat

Mark = Literal["", "best", "second"]


class Entry(NamedTuple):
    """One cell: its text, and whether it is the best or second of those it competes with."""

    text: str
    mark: Mark = ""


class Span(NamedTuple):
    """A heading over several columns, empty for none."""

    text: str
    columns: int


class Sheet(NamedTuple):
    """A table.

    Attributes:
        caption: one sentence: what it shows.
        heading: a text per column.
        rows: as many entries per row.
        numeric: for each column whether it is set flush right.
        notes: sentences below: protocol, selection, what is missing.
        spans: headings over the heading, which cover all columns; may be empty.
        rules: rows that a rule stands before.
    """

    caption: str
    heading: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    numeric: tuple[bool, ...]
    notes: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    rules: frozenset[int] = frozenset()


_LONG = 40
"""Rows above which a table may break over pages."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "±": r"$\pm$",
    "−": r"$-$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "τ": r"$\tau$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    '"': "''",
}


def write_sheet(sheet: Sheet, form: SheetFormat) -> str:
    """Return the sheet as text that ends with a line break."""
    match form:
        case SheetFormat.latex:
            return _latex(sheet)
        case SheetFormat.markdown:
            return _markdown(sheet)
        case SheetFormat.csv:
            return _csv(sheet)


def escaped(text: str) -> str:
    r"""Return text that LaTeX prints as it stands.

    >>> print(escaped("ndcg@10 ± 5% of a_b"))
    ndcg@10 $\pm$ 5\% of a\_b
    """
    return "".join(_LATEX.get(character, character) for character in text)


def _latex(sheet: Sheet) -> str:
    columns = "".join("r" if numeric else "l" for numeric in sheet.numeric)
    long = len(sheet.rows) > _LONG
    packages = r"\usepackage{booktabs,longtable}" if long else r"\usepackage{booktabs}"
    heading = []
    if sheet.spans:
        heading.append(
            " & ".join(
                rf"\multicolumn{{{s.columns}}}{{c}}{{{escaped(s.text)}}}" for s in sheet.spans
            )
        )
    heading.append(" & ".join(escaped(text) for text in sheet.heading))
    lines = [rf"{line} \\" for line in heading]
    if sheet.spans:
        lines.insert(1, " ".join(_rules_under(sheet.spans)))
    body = []
    for place, row in enumerate(sheet.rows):
        if place in sheet.rules:
            body.append(r"\midrule")
        body.append(" & ".join(_latex_entry(entry) for entry in row) + r" \\")
    caption = escaped(sheet.caption)
    notes = " ".join(escaped(note) for note in sheet.notes)
    if long:
        parts = [
            rf"\begin{{longtable}}{{{columns}}}",
            rf"\caption{{{caption}}} \\",
            r"\toprule",
            *lines,
            r"\midrule",
            r"\endhead",
            *body,
            r"\bottomrule",
            *(
                [rf"\multicolumn{{{len(columns)}}}{{p{{\linewidth}}}}{{\footnotesize {notes}}} \\"]
                if notes
                else []
            ),
            r"\end{longtable}",
        ]
    else:
        parts = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            *lines,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *([rf"\par\smallskip\footnotesize {notes}"] if notes else []),
            r"\end{table}",
        ]
    return "\n".join([f"% needs {packages}", *parts, ""])


def _rules_under(spans: tuple[Span, ...]) -> list[str]:
    rules, start = [], 1
    for span in spans:
        if span.text:
            rules.append(rf"\cmidrule(lr){{{start}-{start + span.columns - 1}}}")
        start += span.columns
    return rules


def _latex_entry(entry: Entry) -> str:
    text = escaped(entry.text)
    match entry.mark:
        case "best":
            return rf"\textbf{{{text}}}"
        case "second":
            return rf"\underline{{{text}}}"
        case _:
            return text


def _markdown(sheet: Sheet) -> str:
    heading = sheet.heading
    if sheet.spans:
        above = [span.text for span in sheet.spans for _ in range(span.columns)]
        heading = tuple(f"{a}: {b}" if a else b for a, b in zip(above, heading, strict=True))
    lines = [
        f"**{_plain(sheet.caption)}**",
        "",
        _row([_plain(text) for text in heading]),
        _row(["--:" if numeric else ":--" for numeric in sheet.numeric]),
        *(_row([_markdown_entry(entry) for entry in row]) for row in sheet.rows),
    ]
    if sheet.notes:
        lines += ["", " ".join(_plain(note) for note in sheet.notes)]
    return "\n".join([*lines, ""])


def _row(texts: list[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _plain(text: str) -> str:
    for character in "\\|*_<>[]`":
        text = text.replace(character, f"\\{character}")
    return text


def _markdown_entry(entry: Entry) -> str:
    text = _plain(entry.text)
    match entry.mark:
        case "best":
            return f"**{text}**"
        case "second":
            return f"<u>{text}</u>"
        case _:
            return text


def _csv(sheet: Sheet) -> str:
    above = [span.text for span in sheet.spans for _ in range(span.columns)]
    heading = [
        f"{a}: {b}" if a else b
        for a, b in zip(above or [""] * len(sheet.heading), sheet.heading, strict=True)
    ]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows([entry.text for entry in row] for row in sheet.rows)
    return buffer.getvalue()
