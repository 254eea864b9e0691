"""One HTML page a study: question, plan, coverage, results, figures, what is missing, environment.

The page is whole in one file and needs no network. It states means and spreads, no significance;
nothing in it depends on when it is written, so the same store gives the same page.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from sqlalchemy.engine import make_url

from analysis import frames
from analysis.export import PAGES, embed, plotly_script
from analysis.figures import named_figure
from analysis.files import write_atomically
from analysis.heatmap import panels
from analysis.tables import SELECTION, Table, arm_table, arms, level, measured_cells, score, swept

SHOWN_ARMS = 20
"""Arms that a results table shows at once; the others fold out below."""

LISTED_ARMS = 300
"""Arms that the page lists at all; past it, `meantime query` is the tool."""

LISTED_FAILURES = 100

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
class StudyFrames:
    """What the page is made from: the frames of `analysis.frames` for one study.

    Attributes:
        study: name of the study.
        question: what it asks.
        store: URL of the database, for the reader; without a password.
        cells: one row per declared cell.
        results: one row per trial.
        attempts: one row per attempt, with the environment's columns.
        datasets: one row per prepared data set.
    """

    study: str
    question: str
    store: str
    cells: pd.DataFrame
    results: pd.DataFrame
    attempts: pd.DataFrame
    datasets: pd.DataFrame


@dataclass(frozen=True, slots=True)
class ResultsTable:
    """The arms of one data set under one protocol: the best ones, and the others."""

    dataset: str
    protocol: str
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
        tables: per data set, each protocol on its own.
        missing: table of failed trials, if any, and how many it leaves out.
        infeasible: (rule with advice, number of cells).
        environments: one mapping of texts for each environment that attempts ran in.
        datasets: one mapping of texts for each data set of the study.
        n_seeds: declared seeds.
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


def compose(source: StudyFrames) -> Report:
    """Say what the page shows.

    Raises:
        RequestError: results of several preparations of one data set.
    """
    cells, results = source.cells, source.results
    table = arms(results, cells)
    factors = swept(cells)
    classes = cells["class"].value_counts()
    feasible = cells[~cells["class"].isin(["infeasible", "duplicate"])]
    infeasible = cells.loc[cells["class"] == "infeasible", "reason"].value_counts()
    ended = results["finished_at"].dropna()
    return Report(
        study=source.study,
        question=source.question,
        store=source.store,
        updated=f"{ended.max():%Y-%m-%d %H:%M} UTC" if len(ended) else "",
        findings=tuple(_findings(table, factors)),
        plan=(
            ("declared cells", len(cells)),
            ("infeasible cells", int(classes.get("infeasible", 0))),
            ("cells that repeat another's trial", int(classes.get("duplicate", 0))),
            ("distinct trials", int(feasible["trial"].nunique())),
        ),
        coverage=tuple(
            (name, int(classes[name]), CLASS_MEANINGS[name])
            for name in frames.CLASSES
            if name in classes
        ),
        n_declared=len(cells),
        tables=tuple(_results_tables(table, factors)),
        missing=_failures(results, cells, factors),
        infeasible=tuple((str(rule), int(count)) for rule, count in infeasible.items()),
        environments=tuple(_environments(source.attempts)),
        datasets=tuple(_datasets(source.datasets, results)),
        n_seeds=int(cells["seed"].nunique()),
    )


def render(source: StudyFrames) -> str:
    """Return the page as HTML."""
    return PAGES.get_template("report.html").render(
        report=compose(source),
        figures=[
            (figure, embed(figure.page, f"figure-{number}"))
            for number, figure in enumerate(
                map(named_figure, panels(source.results, source.cells)), start=1
            )
        ],
        plotly=plotly_script(),
    )


def write_report(store: str, study: str, path: Path) -> None:
    """Read a study from the store, read-only, and write its page.

    Raises:
        RequestError: no such store or study, or the file cannot be written.
    """
    engine = frames.open_reader(store)
    # Cells first: a trial that completes in between is still shown as missing, never half.
    cells = frames.cells(engine, study)
    declared = frames.studies(engine).set_index("study")
    source = StudyFrames(
        study=study,
        question=str(declared.loc[study, "question"]),
        store=make_url(store).render_as_string(hide_password=True),
        cells=cells,
        results=frames.results(engine, study),
        attempts=frames.attempts(engine, study),
        datasets=frames.datasets(engine),
    )
    engine.dispose()
    write_atomically(path, render(source).encode())


def _findings(table: pd.DataFrame, factors: list[str]) -> Iterable[str]:
    """Name the best arm of each data set by validation, and say what that does not prove."""
    for dataset, ranked in table.groupby("dataset", sort=False):
        valued = ranked[ranked[SELECTION].notna()]
        if valued.empty:
            yield f"{dataset}: no trial is complete yet."
            continue
        best, worst = valued.iloc[0], valued.iloc[-1]
        setting = "".join(f", {name.replace('_', ' ')} {level(best[name])}" for name in factors)
        rank = (
            f"best by validation among {len(valued)} arms with a result"
            if len(valued) > 1
            else "the only arm with a result"
        )
        seeds = "one seed" if best["seeds"] == 1 else f"the mean of {best['seeds']} seeds"
        yield (
            f"{dataset}: {best['embeddings']}{setting} is {rank}, with validation NDCG@10 "
            f"{score(best[SELECTION])} and test NDCG@10 {score(best['test_ndcg@10'])} "
            f"(popular-100, {seeds})."
        )
        if len(valued) > 1:
            yield (
                f"The lowest is {worst['embeddings']} with validation NDCG@10 "
                f"{score(worst[SELECTION])} and test NDCG@10 {score(worst['test_ndcg@10'])}."
            )


def _results_tables(table: pd.DataFrame, factors: list[str]) -> Iterable[ResultsTable]:
    for dataset, ranked in table.groupby("dataset", sort=False):
        for protocol, column in (("popular-100", SELECTION), ("full", "test_full_ndcg@10")):
            if column not in ranked or ranked[column].isna().all():
                continue
            listed = arm_table(
                ranked.iloc[:LISTED_ARMS],
                protocol="full" if protocol == "full" else "popular-100",
                factors=factors,
            )
            yield ResultsTable(
                dataset=str(dataset),
                protocol=protocol,
                shown=listed.rows_between(0, SHOWN_ARMS),
                folded=listed.rows_between(SHOWN_ARMS, LISTED_ARMS)
                if len(listed.rows) > SHOWN_ARMS
                else None,
                n_arms=len(ranked),
                n_left_out=len(ranked) - len(listed.rows),
            )


def _failures(
    results: pd.DataFrame, cells: pd.DataFrame, factors: list[str]
) -> tuple[Table, int] | None:
    failed = measured_cells(results, cells)
    failed = failed[failed["class"] == "failed"]
    if failed.empty:
        return None
    attempts = results.drop_duplicates("trial").set_index("trial")["attempts"]
    several = ["dataset"] if cells["dataset"].nunique() > 1 else []
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


def _datasets(datasets: pd.DataFrame, results: pd.DataFrame) -> Iterable[dict[str, str]]:
    """Describe the prepared data sets that the results come from."""
    used = set(results["fingerprint"].dropna())
    for _, dataset in datasets[datasets["fingerprint"].isin(used)].iterrows():
        yield {
            "name": str(dataset["name"]),
            "users": f"{dataset['n_users']:,}",
            "items": f"{dataset['n_items']:,}",
            "interactions": f"{dataset['n_interactions']:,}",
            "days": f"{dataset['n_days']:,}",
            "fingerprint": str(dataset["fingerprint"])[:16],
        }
