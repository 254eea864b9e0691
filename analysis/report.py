"""One HTML page a study: question, plan, coverage, results, figures, what is missing, environment.

The page is whole in one file and needs no network. It states means and spreads, no significance;
nothing in it depends on when it is written, so the same store gives the same page.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis.captions import candidates, own_protocol, replaced_time
from analysis.coverage import CLASSES
from analysis.export import PAGES, embed_later, plotly_script
from analysis.figures import draw_all
from analysis.files import write_atomically
from analysis.findings import Findings, findings
from analysis.layout import NARROWEST
from analysis.material import Material, read_material
from analysis.modes import Mode
from analysis.tables import (
    PROBLEM_FACTORS,
    SELECTION,
    Group,
    Table,
    arm_table,
    arms,
    level,
    measure,
    measured_cells,
    score,
    separated,
    swept,
)
from model.errors import RequestError
from model.results import SELECTED_BY

SHOWN_ARMS = 20
"""Arms that a results table shows at once; the others fold out below."""

LISTED_ARMS = 300
"""Arms that the page lists at all; past it, `meantime query` is the tool."""

LISTED_FAILURES = 100

_FULL_NOTE = "Sampled protocols can order models differently. Same order of rows as above."

CLASS_MEANINGS = {
    "complete": "trained, with a result",
    "running": "being trained",
    "pending": "waiting to be trained",
    "failed": "ended without a result",
    "censored": "stopped early by a scheduler, kept out of comparisons",
    "infeasible": "no such network exists",
    "duplicate": "asks for the trial of another cell",
}


@dataclass(frozen=True, slots=True)
class ResultsTable:
    """The arms that answer one problem, under one protocol: the best ones, and the others.

    Attributes:
        title: data set, the problem's levels where the study sweeps them, and protocol.
        notes: sentences that say what competes and what is known of the target.
        shown: the best arms by validation.
        folded: the others, where there are any.
        n_arms: arms of the problem.
        n_left_out: arms in neither table.
    """

    title: str
    notes: tuple[str, ...]
    shown: Table
    folded: Table | None
    n_arms: int
    n_left_out: int


@dataclass(frozen=True, slots=True)
class Report:
    """The page's contents, as texts and numbers.

    Attributes:
        study: name of the study.
        question: what it asks.
        store: where the results come from.
        updated: when the last trial ended, UTC; empty before the first.
        findings: sentences that carry their numbers.
        plan: (text, count) of cells and trials.
        coverage: (class, count, meaning) of the declared cells; adds up to `n_declared`.
        n_declared: declared cells.
        tables: per data set and problem, each protocol on its own.
        missing: table of failed trials, if any, and how many it leaves out.
        infeasible: (rule with advice, number of cells).
        environments: one mapping of texts for each environment that attempts ran in.
        datasets: one mapping of texts for each data set of the study.
        n_seeds: declared seeds.
        selected_by: the metric that chooses epochs and orders arms, `NDCG@10`.
        supported: what the comparisons of subsets support, by data set and problem.
    """

    study: str
    question: str
    store: str
    updated: str
    findings: tuple[str, ...]
    plan: tuple[tuple[str, int], ...]
    coverage: tuple[tuple[str, int, str], ...]
    n_declared: int
    tables: tuple[ResultsTable, ...]
    missing: tuple[Table, int] | None
    infeasible: tuple[tuple[str, int], ...]
    environments: tuple[dict[str, str], ...]
    datasets: tuple[dict[str, str], ...]
    n_seeds: int
    selected_by: str
    supported: tuple[Findings, ...]


def compose(source: Material) -> Report:
    """Say what the page shows.

    Raises:
        RequestError: results of several preparations of one data set.
    """
    cells, results = source.cells, source.results
    measured = measured_cells(results, cells)
    factors = swept(cells)
    problem = [name for name in factors if name in PROBLEM_FACTORS]
    compared = [name for name in factors if name not in PROBLEM_FACTORS]
    ranked = [(group, arms(group.cells, compared)) for group in separated(measured, problem)]
    classes = cells["class"].value_counts()
    feasible = cells[~cells["class"].isin(["infeasible", "duplicate"])]
    infeasible = cells.loc[cells["class"] == "infeasible", "reason"].value_counts()
    ended = results["finished_at"].dropna()
    return Report(
        study=source.study,
        question=source.question,
        store=source.store,
        updated=f"{ended.max():%Y-%m-%d %H:%M} UTC" if len(ended) else "",
        findings=tuple(
            sentence for group, table in ranked for sentence in _findings(group, table, compared)
        ),
        plan=(
            ("declared cells", len(cells)),
            ("infeasible cells", int(classes.get("infeasible", 0))),
            ("cells that repeat another's trial", int(classes.get("duplicate", 0))),
            ("distinct trials", int(feasible["trial"].nunique())),
        ),
        coverage=tuple(
            (name, int(classes[name]), CLASS_MEANINGS[name]) for name in CLASSES if name in classes
        ),
        n_declared=len(cells),
        tables=tuple(
            listed for group, table in ranked for listed in _results_tables(group, table, compared)
        ),
        missing=_failures(results, measured, factors),
        infeasible=tuple((str(rule), int(count)) for rule, count in infeasible.items()),
        environments=tuple(_environments(source.attempts)),
        datasets=tuple(_datasets(source, results)),
        n_seeds=int(cells["seed"].nunique()),
        selected_by=measure(SELECTION).title,
        supported=findings(source),
    )


def render(source: Material) -> str:
    """Return the page as HTML."""
    drawn = draw_all(source)
    return PAGES.get_template("report.html").render(
        report=compose(source),
        figures=[(figure, embed_later(figure.page)) for figure in drawn.figures],
        not_drawn=drawn.not_drawn,
        plotly=plotly_script(),
        narrowest=NARROWEST,
    )


def write_report(
    store: str,
    study: str,
    path: Path,
    *,
    data_folder: Path,
    mode: Mode = "tuned",
    pool_seeds: bool = False,
) -> None:
    """Read a study from the store, read-only, and write its page.

    Args:
        store: URL of the results database.
        study: name of the study.
        path: the HTML file.
        data_folder: where data sets are stored, for what is known of their users.
        mode: how subsets are made comparable over the grid.
        pool_seeds: estimate the seeds' error over all arms of a figure, not each pair's own.

    Raises:
        RequestError: no such store or study, or the file cannot be written.
    """
    material = read_material(
        store, study, data_folder=data_folder, mode=mode, pool_seeds=pool_seeds
    )
    write_atomically(path, render(material).encode())


def _findings(group: Group, ranked: pd.DataFrame, factors: list[str]) -> Iterable[str]:
    """Name the best arm of a group by validation, and say what that does not prove."""
    valued = ranked[ranked[SELECTION].notna()]
    if valued.empty:
        yield f"{group.title}: no trial is complete yet."
        return
    best, worst = valued.iloc[0], valued.iloc[-1]
    rank = (
        f"best by validation among {len(valued)} arms with a result"
        if len(valued) > 1
        else "the only arm with a result"
    )
    own = own_protocol("popular-100", group.cells)
    seeds = "one seed" if best["seeds"] == 1 else f"the mean of {best['seeds']} seeds"
    yield (
        f"{group.title}: {_name(best, factors)} is {rank}, with {_scores(best)} ({own}, {seeds})."
    )
    if len(valued) > 1:
        yield f"The lowest is {_name(worst, factors)} with {_scores(worst)}."


def _name(arm: "pd.Series[Any]", factors: list[str]) -> str:
    """Name an arm among those it is compared with: `Day+Log, hidden 32`."""
    setting = "".join(f", {name.replace('_', ' ')} {level(arm[name])}" for name in factors)
    return f"{arm['embeddings']}{setting}"


def _scores(arm: "pd.Series[Any]") -> str:
    """Say an arm's validation value, which ranks it, and its test value."""
    return " and ".join(
        f"{measure(column).split} {measure(column).title} {score(float(arm[column]))}"
        for column in (SELECTION, f"test_{SELECTED_BY}")
    )


def _results_tables(
    group: Group, ranked: pd.DataFrame, factors: list[str]
) -> Iterable[ResultsTable]:
    protocols: tuple[tuple[Literal["popular-100", "full"], str], ...] = (
        ("popular-100", SELECTION),
        ("full", f"test_full_{SELECTED_BY}"),
    )
    own = own_protocol("popular-100", group.cells)
    for protocol, column in protocols:
        if column not in ranked or ranked[column].isna().all():
            continue
        if protocol == own == "full":
            continue  # the table above is it
        named = own_protocol(protocol, group.cells)
        listed = arm_table(ranked.iloc[:LISTED_ARMS], protocol=protocol, factors=factors)
        yield ResultsTable(
            title=f"{group.title}, protocol {named}",
            notes=(
                f"{candidates(protocol, group.cells).capitalize()}.",
                f"The target's time is an input of the problem{replaced_time(group.cells)}.",
                *((_FULL_NOTE,) if protocol == "full" else ()),
            ),
            shown=listed.rows_between(0, SHOWN_ARMS),
            folded=listed.rows_between(SHOWN_ARMS, LISTED_ARMS)
            if len(listed.rows) > SHOWN_ARMS
            else None,
            n_arms=len(ranked),
            n_left_out=len(ranked) - len(listed.rows),
        )


def _failures(
    results: pd.DataFrame, measured: pd.DataFrame, factors: list[str]
) -> tuple[Table, int] | None:
    failed = measured[measured["class"] == "failed"]
    if failed.empty:
        return None
    attempts = results.drop_duplicates("trial").set_index("trial")["attempts"]
    several = ["dataset"] if measured["dataset"].nunique() > 1 else []
    columns = [*several, "embeddings", *factors, "seed", "reason"]
    rows = tuple(
        (
            *(level(cell[name]) for name in columns),
            level(attempts.get(cell["trial"])),
            str(cell["trial"]),
        )
        for _, cell in failed.iloc[:LISTED_FAILURES].iterrows()
    )
    spoken = {"embeddings": "subset", "reason": "failure"}
    heading = (
        *(spoken.get(name, name.replace("_", " ")) for name in columns),
        "attempts",
        "trial",
    )
    listed = Table(heading, rows, frozenset(), tuple(False for _ in heading))
    return listed, len(failed) - len(rows)


def _environments(attempts: pd.DataFrame) -> Iterable[dict[str, str]]:
    """Describe each environment once, with how many attempts ran there."""
    columns = ["commit", "dirty", "python", "packages", "platform", "cpu", "gpus", "device"]
    columns = [name for name in (*columns, "threads") if name in attempts.columns]
    known = attempts[attempts["python"].notna()] if "python" in attempts.columns else attempts[:0]
    for _, group in known.groupby(columns, dropna=False, sort=False):
        first = group.iloc[0]
        facts = {name: level(first[name]) for name in columns}
        if facts.pop("dirty", "False") == "True":
            facts["commit"] += ", with changes that are not committed"
        if "packages" in facts:
            packages = json.loads(facts["packages"])
            facts["packages"] = ", ".join(f"{name} {packages[name]}" for name in sorted(packages))
        facts["gpus"] = facts.get("gpus") or "none"
        yield {"attempts": str(len(group)), **facts}


def _datasets(source: Material, results: pd.DataFrame) -> Iterable[dict[str, str]]:
    """Describe the prepared data sets that the results come from, by the names they go by there."""
    # Two declared names may stand for the same rows, and then share a fingerprint.
    prepared = source.datasets.drop(columns="name").set_index("fingerprint")
    used = results[["dataset", "fingerprint"]].dropna().drop_duplicates()
    for name, fingerprint in sorted(used.itertuples(index=False)):
        dataset = prepared.loc[fingerprint]
        yield {
            "name": str(name),
            "users": f"{dataset['n_users']:,}",
            "items": f"{dataset['n_items']:,}",
            "interactions": f"{dataset['n_interactions']:,}",
            "days": f"{dataset['n_days']:,}",
            "fingerprint": str(fingerprint)[:16],
            "users_like": _users_like(source, str(fingerprint)),
        }


def _users_like(source: Material, fingerprint: str) -> str:
    """Describe a data set's users, in a sentence; empty where the data are not on this machine."""
    try:
        traits = source.traits(fingerprint)
    except RequestError:
        return ""
    return (
        f"Before the test target the median user has {np.median(traits.history):.0f} events over "
        f"{_duration(float(np.median(traits.span)))}; {traits.same_time.mean():.0%} of test "
        "targets carry the time of the event before them, which tells a time-aware model nothing "
        "new."
    )


def _duration(seconds: float) -> str:
    """Write a duration in the largest unit that it holds two of.

    >>> [_duration(seconds) for seconds in (2_791, 90, 86_400, 30 * 86_400)]
    ['46.5 minutes', '90 seconds', '24 hours', '30 days']
    """
    units = (("days", 86_400), ("hours", 3_600), ("minutes", 60))
    name, size = next((unit for unit in units if seconds >= 2 * unit[1]), ("seconds", 1))
    return f"{seconds / size:.3g} {name}"
