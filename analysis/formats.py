"""The formats that rows and figures come in: the one list that commands and writers share.

Nothing heavy is imported here, so that the console script can offer them before it loads more.
"""

from enum import StrEnum


class TableFormat(StrEnum):
    """How `query` prints its rows."""

    table = "table"
    csv = "csv"
    json = "json"
    jsonl = "jsonl"
    parquet = "parquet"
    markdown = "markdown"
    latex = "latex"


class SheetFormat(StrEnum):
    """How `tables` prints; LaTeX needs the package booktabs."""

    latex = "latex"
    markdown = "markdown"
    csv = "csv"


class ModeChoice(StrEnum):
    """How subsets are made comparable over a grid (`analysis.modes`)."""

    same = "same"
    tuned = "tuned"
    marginal = "marginal"


class FigureFormat(StrEnum):
    """Formats of figures; HTML is always written."""

    html = "html"
    png = "png"
    svg = "svg"
    pdf = "pdf"


class FigureSize(StrEnum):
    """What a static figure is made for: a file of its own, or one or two columns of a paper."""

    whole = "whole"
    two = "two-columns"
    one = "one-column"
