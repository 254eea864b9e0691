"""What the README and studies.yaml promise about each other."""

import re
from collections import Counter
from pathlib import Path

import pytest

from study.definition import load_studies, study_named
from study.plan import plan

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def trials_of(name):
    file = load_studies(ROOT / "studies.yaml")
    return plan(study_named(file, name), file).trials


def test_the_readme_counts_the_quickstart_s_trials():
    (said,) = re.findall(r"a study of (\d+) trials", README)
    assert len(trials_of("quickstart")) == int(said) >= 8


def test_the_quick_study_on_real_data_is_what_it_promises():
    trials = trials_of("ml-100k-quick").values()
    assert len({t.embeddings for t in trials}) >= 4
    assert {t.seed for t in trials} == {0, 1}
    factors = [t.factors for t in trials]
    assert {(f["max_len"], f["batch"]) for f in factors} == {(50, 64)}
    assert min(f["epochs"] for f in factors) >= 12


@pytest.mark.parametrize(
    "name",
    [
        "quickstart",
        "planted-truth",
        "planted-truth-small",
        "ml-100k-quick",
        "ml-100k-subsets",
        "ml-100k-budget",
        "ml-100k-table",
        "ml-100k-relatives",
    ],
)
def test_what_two_cores_can_finish_has_no_infeasible_cell(name):
    file = load_studies(ROOT / "studies.yaml")
    cells = plan(study_named(file, name), file).cells
    assert {(cell.state, cell.reason) for cell in cells} == {("feasible", "")}


def test_the_table_s_models_have_the_same_number_of_trials_and_a_floor():
    file = load_studies(ROOT / "studies.yaml")
    study = study_named(file, "paper-table")
    cells = plan(study, file).cells
    counts = Counter((cell.dataset, cell.model) for cell in cells)
    assert {dataset for dataset, _ in counts} == {"ml-1m", "ml-20m", "beauty", "games"}
    for (_, model), count in counts.items():
        assert count == (1 + 3 if model == "popularity" else 16 + 3)
    assert len(counts) == 4 * 7
    reduced = Counter(trial.model for trial in trials_of("ml-100k-table").values())
    # One point with three seeds for all but the neighbours, whose number is tried.
    assert reduced.pop("item_knn") == 6
    assert set(reduced.values()) == {3}
    assert len(reduced) == 6


def test_the_relatives_and_the_floor_share_meantime_s_trials_with_the_table():
    relatives, table = trials_of("ml-100k-relatives"), trials_of("ml-100k-table")
    counts = Counter(trial.model for trial in relatives.values())
    assert counts.pop("time_lstm") == 3 * 3
    assert counts == dict.fromkeys(
        ("meantime", "cta", "transformer", "timesvd", "bptf", "popularity"), 3
    )
    shared = {trial.model for id_, trial in relatives.items() if id_ in table}
    assert shared == {"meantime", "popularity"}


def test_every_folder_at_the_top_is_explained():
    shown = set(re.findall(r"^\| `([^`]+?)/?` \|", README, re.MULTILINE))
    ignored = {".git", ".venv"}
    folders = {
        path.name
        for path in ROOT.iterdir()
        if path.is_dir() and (any(path.glob("*.py")) or path.name in {".ci", "docs"})
    }
    assert folders - ignored <= shown
    assert len(shown) >= 7


def test_every_link_of_the_pages_leads_somewhere():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    ]
    assert len(links) >= 8
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []
