import math
import re
from dataclasses import replace

import pandas as pd
import pytest

from analysis.report import LISTED_FAILURES, SHOWN_ARMS, compose, render, write_report
from model.errors import RequestError
from tests.analysis.browser import look
from tests.analysis.hand_made import (
    ALL_SUBSETS,
    figures_of,
    full_study,
    plausible,
    report_source,
    study,
)
from tests.stored import fill


def report_of(points, **changes):
    return compose(report_source(*study(points), **changes))


def text_of(page):
    """What a reader sees: scripts, styles and tags taken out, spaces made single."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


@pytest.fixture(scope="module")
def page():
    return render(report_source(*full_study()))


def test_the_page_is_whole_without_a_network(page):
    assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", page)
    assert page.count("plotly.js v") == 1
    assert len(page) < 8_000_000


def test_the_page_has_every_part(page):
    text = text_of(page)
    for part in (
        "Which temporal embeddings suit MovieLens 100K?",
        "Plan and coverage",
        "121 complete + 2 pending + 3 failed + 2 censored = 128 declared",
        "ml-100k, protocol popular-100",
        "ml-100k, protocol full",
        "Figure 1. Test NDCG@10 on ml-100k",
        "121 of 128 cells",
        "Failed trials",
        "diverged: the loss is nan at epoch 3",
        "943 users, 1,349 items, 99,287 interactions, 215 days",
        "numpy 2.2.1, torch 2.13.0",
        "0123abc, with changes that are not committed",
        "Results up to 2026-11-30 12:00 UTC",
        "The target's time is an input of the problem",
    ):
        assert part in text.replace("&#39;", "'"), part


def test_the_same_store_gives_the_same_page(page):
    assert render(report_source(*full_study())) == page


def test_coverage_adds_up_to_the_declared_cells():
    report = compose(report_source(*full_study()))
    assert sum(count for _, count, _ in report.coverage) == report.n_declared == 128
    assert dict(report.plan)["distinct trials"] == 128


def test_the_plan_tells_cells_from_trials():
    report = report_of(
        [
            {"embeddings": "Pos", "heads": "1", "trial": "a" * 16},
            {"embeddings": "Pos", "heads": "7", "class": "duplicate", "trial": "a" * 16},
            {"embeddings": "Day+Pos", "heads": "1", "class": "infeasible", "reason": "2 need 2"},
            {"embeddings": "Day+Pos", "heads": "1", "seed": 1, "class": "infeasible",
             "reason": "2 need 2"},
        ]
    )  # fmt: skip
    assert [count for _, count in report.plan] == [4, 2, 1, 1]
    assert report.infeasible == (("2 need 2", 2),)


def test_the_finding_names_the_best_by_validation_with_its_test_value():
    results, cells = study(
        [
            {"embeddings": subset, "seed": seed, "value": value}
            for subset, value in (("Pos", 0.30), ("Day", 0.20))
            for seed in (0, 1)
        ]
    )
    results["validation_ndcg@10"] = [0.1, 0.1, 0.4, 0.4]
    first, second = compose(report_source(results, cells)).findings
    assert first == (
        "ml-100k: Day is best by validation among 2 arms with a result, with validation NDCG@10 "
        ".400 and test NDCG@10 .200 (popular-100, the mean of 2 seeds)."
    )
    assert "Pos with validation NDCG@10 .100 and test NDCG@10 .300" in second


@pytest.mark.parametrize(
    ("factor", "levels", "told"),
    [
        (
            "repeats",
            ("excluded", "allowed"),
            (
                "Protocol full (all items except those the user already had).",
                "Protocol full (all items).",
            ),
        ),
        (
            "target_time",
            ("actual", "last"),
            (
                "The target's time is an input of the problem.",
                "The target's time is an input of the problem (here replaced by the time of the "
                "last known interaction).",
            ),
        ),
    ],
)
def test_levels_that_pose_another_problem_share_no_table_finding_or_bold(factor, levels, told):
    report = report_of(
        [
            {"embeddings": subset, factor: level, "value": value}
            for level, worse in zip(levels, (0.0, 0.1), strict=True)
            for subset, value in (("Log", 0.4 - worse), ("Day", 0.2 - worse))
        ]
    )
    spoken = factor.replace("_", " ")
    assert [listed.title for listed in report.tables] == [
        f"ml-100k, {spoken} {level}, protocol {protocol}"
        for level in levels
        for protocol in ("popular-100", "full")
    ]
    for full, sentence in zip(report.tables[1::2], told, strict=True):
        assert sentence in full.notes
        others = [text for text in told if text != sentence]
        assert not set(others) & set(full.notes)
    for listed in report.tables:
        assert [row[0] for row in listed.shown.rows] == ["Log", "Day"]
        assert spoken not in listed.shown.heading
        test = listed.shown.heading.index("test NDCG@10")
        assert {place for place in listed.shown.best if place[1] == test} == {(0, test)}
    best = [finding for finding in report.findings if "best by validation" in finding]
    assert [finding.split(": ")[0] for finding in best] == [
        f"ml-100k, {spoken} {level}" for level in levels
    ]
    assert all("among 2 arms" in finding for finding in best)


def test_levels_of_heads_are_columns_of_one_table_and_name_its_arms():
    report = report_of(
        [
            {"embeddings": "Log", "heads": heads, "value": value}
            for heads, value in (("1", 0.2), ("6", 0.3))
        ]
    )
    sampled, _ = report.tables
    best, lowest = report.findings
    assert best.startswith("ml-100k: Log, heads 6 is best")
    assert lowest.startswith("The lowest is Log, heads 1 with")
    assert sampled.shown.heading[:2] == ("subset", "heads")
    assert [row[1] for row in sampled.shown.rows] == ["6", "1"]


def test_the_report_shows_the_figures_that_are_written_as_files(page):
    figures = figures_of(*full_study())
    assert len(figures) == 9
    shown = re.findall(r"<h3>Figure \d+\. (.*?)</h3>", page)
    assert shown == [figure.title for figure in figures]


def test_one_arm_alone_is_not_called_the_best():
    (only,) = report_of([{"embeddings": "Pos", "value": 0.25}]).findings
    assert only == (
        "ml-100k: Pos is the only arm with a result, with validation NDCG@10 .270 and test "
        "NDCG@10 .250 (popular-100, one seed)."
    )


def test_one_seed_brings_a_warning_about_significance():
    text = text_of(render(report_source(*study([{"embeddings": "Pos"}]))))
    assert "With one seed nothing can be said about significance" in text


def test_a_study_without_results_is_still_reported():
    results, cells = study([{"embeddings": "Pos", "class": "pending"}])
    results["finished_at"] = pd.NaT
    text = text_of(render(report_source(results, cells, attempts=pd.DataFrame())))
    assert "ml-100k: no trial is complete yet." in text
    assert "No result yet" in text
    assert "0 of 1 cells (1 pending)" in text
    assert "No attempt has said where it ran." in text


def test_texts_from_the_store_are_never_markup():
    hostile = "</script><script>alert('x')</script>"
    results, cells = study([{"embeddings": "Pos", "class": "failed", "reason": hostile}])
    page = render(report_source(results, cells, question=hostile))
    assert hostile not in page
    assert "&lt;/script&gt;&lt;script&gt;alert(&#39;x&#39;)" in page


def test_long_tables_fold():
    points = [{"embeddings": "Pos", "hidden": hidden} for hidden in range(SHOWN_ARMS + 5)]
    sampled, full = report_of(points).tables
    assert sampled.title == "ml-100k, protocol popular-100"
    assert full.title == "ml-100k, protocol full"
    assert len(sampled.shown.rows) == SHOWN_ARMS
    assert len(sampled.folded.rows) == 5
    assert (sampled.n_arms, sampled.n_left_out) == (SHOWN_ARMS + 5, 0)


def test_a_protocol_that_was_not_measured_has_no_table():
    results, cells = study([{"embeddings": "Pos"}])
    results["test_full_ndcg@10"] = math.nan
    (only,) = compose(report_source(results, cells)).tables
    assert only.title == "ml-100k, protocol popular-100"


def test_failures_beyond_a_pageful_are_counted():
    points = [
        {"embeddings": "Pos", "seed": seed, "class": "failed", "reason": "oom"}
        for seed in range(LISTED_FAILURES + 3)
    ]
    table, left_out = report_of(points).missing
    assert len(table.rows) == LISTED_FAILURES
    assert left_out == 3
    assert table.heading == ("subset", "seed", "failure", "attempts", "trial")


def test_each_environment_is_described_once():
    (only,) = compose(report_source(*full_study())).environments
    assert only["attempts"] == "128"
    assert only["gpus"] == "none"


def test_two_names_for_the_same_rows_are_both_described():
    source = report_source(*full_study())
    both = pd.concat([source.results, source.results.assign(dataset="twin")])
    described = compose(replace(source, results=both)).datasets
    assert [dataset["name"] for dataset in described] == ["ml-100k", "twin"]
    assert described[0]["users"] == described[1]["users"] == "943"


def test_a_report_is_written_from_the_store(tmp_path):
    url = f"sqlite:///{tmp_path}/results.db"
    fill(url, tmp_path)
    write_report(url, "small", tmp_path / "reports" / "small.html", data_folder=tmp_path)
    text = text_of((tmp_path / "reports" / "small.html").read_text())
    assert "Does order matter?" in text
    assert "18 cells" in text
    assert "diverged: loss is NaN" in text
    assert "2 complete + 1 running" in text
    assert "torch 2.13.0" in text


def test_a_report_of_an_unknown_study_is_refused(tmp_path):
    url = f"sqlite:///{tmp_path}/results.db"
    fill(url, tmp_path)
    with pytest.raises(RequestError, match="did you mean small"):
        write_report(url, "smal", tmp_path / "small.html", data_folder=tmp_path)
    assert not (tmp_path / "small.html").exists()


@pytest.mark.browser
def test_the_report_opens_on_phone_and_desktop_and_tells_why_a_cell_is_empty(page, tmp_path):
    (tmp_path / "report.html").write_text(page)
    # Row Day, column Sin: the second column of eight, the fifth row of eight.
    views = look(tmp_path / "report.html", widths=(390, 1280), point_at=(1.5 / 8, 4.5 / 8))
    for seen in views:
        assert seen.complaints == ()
        assert seen.figures_drawn == 9
        assert seen.page_width <= seen.width
        assert "Day+Sin" in seen.hover
        assert "diverged: the loss is nan at epoch 3" in seen.hover
        # On the phone figures are not squeezed but made smaller, and still tell what is pointed at.
        assert seen.narrowest >= 420
    assert [seen.width for seen in views] == [390, 1280]
    # At the width of a desk every column of a study with two seeds is in sight.
    assert views[1].scrolling == ()


@pytest.mark.slow
@pytest.mark.browser
def test_a_report_of_63_subsets_two_data_sets_and_three_seeds_is_small_and_draws_all(tmp_path):
    points = [
        {"embeddings": subset, "dataset": name, "seed": seed, "value": plausible(subset, seed)}
        for name in ("ml-100k", "game")
        for subset in ALL_SUBSETS[1:]
        for seed in (0, 1, 2)
    ]
    whole = render(report_source(*study(points)))
    assert len(whole.encode()) < 8_000_000
    (tmp_path / "report.html").write_text(whole)
    for seen in look(tmp_path / "report.html", widths=(390, 1280)):
        assert seen.complaints == ()
        assert seen.figures_drawn == whole.count('class="figure"') > 12
        assert seen.page_width <= seen.width
