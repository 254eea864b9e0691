"""Captions: the sentences under a figure that say protocol, means, setting and what is missing."""

from typing import Literal

import pandas as pd

from analysis.style import TIME_MARK
from analysis.tables import Measure, level
from study.space import PER_EMBEDDING

_SETTINGS = ("hidden", "heads", "dropout", "weight_decay", "max_len", "batch", "epochs")
"""Factors that every caption states, swept or not."""


def coverage_sentence(n_counted: int, n_declared: int, classes: dict[str, int]) -> str:
    """Say "n of N cells" and, where classes differ, how the declared cells divide."""
    whole = f"{n_counted} of {n_declared} cells"
    if classes == {"complete": n_counted}:
        return whole
    parts = [f"{count} {name}" for name, count in classes.items()]
    return f"{whole} ({', '.join(parts)})"


def own_protocol(protocol: Literal["popular-100", "full"], declared: pd.DataFrame) -> str:
    """Name the protocol of a column: without one in its name it is the factor `protocol`'s."""
    (own,) = _levels(declared, "protocol") or ["popular-100"]
    return own if protocol == "popular-100" else protocol


def candidates(protocol: Literal["popular-100", "full"], declared: pd.DataFrame) -> str:
    """Say which items compete with the target, where all cells answer the same problem."""
    match own_protocol(protocol, declared):
        case "popular-100":
            return "protocol popular-100 (up to 100 negatives per user, by popularity)"
        case "uniform-100":
            return "protocol uniform-100 (up to 100 negatives per user, each as likely)"
    if "allowed" in _levels(declared, "repeats"):
        return "protocol full (all items)"
    return "protocol full (all items except those the user already had)"


def replaced_time(declared: pd.DataFrame) -> str:
    """Say in brackets what stands for the target's time, or nothing where it is the actual one."""
    if "last" in _levels(declared, "target_time"):
        return " (here replaced by the time of the last known interaction)"
    return ""


def notes(column: Measure, declared: pd.DataFrame, grid: list[str]) -> tuple[str, ...]:
    """Return the sentences under the figure.

    Args:
        column: the metric shown.
        declared: the panel's cells as `analysis.tables.measured_cells` joins them.
        grid: the factors that the panel averages over.
    """
    epoch = {
        "test": "test, read at the best validation epoch",
        "validation": "validation, at the epoch chosen on the same users, hence optimistic",
    }[column.split]
    seeds = declared["seed"].nunique()
    over_seeds = f"mean over {seeds} seeds" if seeds > 1 else "one seed, no mean"
    mode = "marginal" if grid else "same"
    settings = [
        f"{factor.replace('_', ' ')} {', '.join(_levels(declared, factor))}"
        for factor in _SETTINGS
        if _levels(declared, factor)
    ]
    if grid:
        points = declared[grid].map(level).drop_duplicates().shape[0]
        each = f"each the {over_seeds}" if seeds > 1 else "one seed each"
        over_seeds = f"mean over the grid: {points} hyperparameter points, {each}"
        settings += [
            f"{factor.replace('_', ' ')} {', '.join(_levels(declared, factor))}"
            for factor in grid
            if factor not in _SETTINGS
        ]
    sentences = [
        f"{column.title}, {epoch}; {candidates(column.protocol, declared)}.",
        f"Mode {mode}: {over_seeds}.",
    ]
    if settings:
        sentences[-1] = f"Mode {mode}: {over_seeds}; {'; '.join(settings)}."
    if _levels(declared, "heads") == [PER_EMBEDDING]:
        sentences.append(
            "With one head per embedding each further embedding narrows every head: "
            "subsets differ in capacity, too."
        )
    counted = declared.groupby(["embeddings"])["counted"].agg(["sum", "size"])
    if ((counted["sum"] > 0) & (counted["sum"] < counted["size"])).any():
        sentences.append(
            "n/N in a cell: it rests on n of its N declared cells and is not the same mean "
            "as its neighbours'."
        )
    sentences.append(
        f"{TIME_MARK} sees the target's time, which is an input of the problem"
        f"{replaced_time(declared)}; the outlined subsets do not."
    )
    return tuple(sentences)


def _levels(declared: pd.DataFrame, factor: str) -> list[str]:
    """Return the known levels of a factor, as text, in numeric order where they are numbers."""
    if factor not in declared.columns:
        return []
    return [level(value) for value in sorted(declared[factor].dropna().unique())]
