from pathlib import Path

import pytest

from analysis.figures import KINDS
from tests.console import meantime
from tests.stored import fill


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    fill(f"sqlite:///{folder}/results.db", folder)
    return folder


def test_a_format_that_no_browser_can_draw_does_not_look_done(folder):
    done = meantime(
        "figures", "small", "--only", "cost", "--format", "png",
        folder=folder, BROWSER_PATH="/nonexistent",
    )  # fmt: skip
    assert done.returncode == 1
    assert "PNG, SVG and PDF need Chrome or Chromium" in done.stderr
    assert done.stdout.splitlines() == [
        "figures/cost_tiny_test_ndcg-at-10.html",
        "figures/plotly.min.js",
        "figures/cost_tiny_test_ndcg-at-10.json",
    ]
    for line in done.stdout.splitlines():
        assert (folder / line).is_file()


def test_kinds_that_the_rows_do_not_support_are_named_with_what_they_lack(folder):
    done = meantime("figures", "small", "--out", "all", folder=folder)
    assert done.returncode == 0
    assert "not drawn: time-unit: it takes a study that sweeps tau" in done.stderr
    assert meantime("figures", "small", "--out", "all", "--check", folder=folder).returncode == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--only", "cots"), "a figure is one of subsets, "),
        (("--only", "time-unit"), "small lacks them: time-unit: it takes a study that sweeps tau"),
        (("--strict",), "small has 1 running, 6 pending, 1 failed of 18 cells"),
        (("--check", "--out", "nowhere"), "must hold figures of small"),
        (("--check", "--only", "cost"), "--check draws nothing"),
    ],
)
def test_what_cannot_be_drawn_is_one_message(folder, words, told):
    done = meantime("figures", "small", *words, folder=folder)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_every_kind_has_a_name_of_its_own():
    assert len(KINDS) == 15
    assert all(name == name.lower() and " " not in name for name in KINDS)


def test_the_page_of_figures_describes_every_kind():
    rows = (Path(__file__).parents[2] / "docs" / "figures.md").read_text().splitlines()
    described = [row.split("`")[1] for row in rows if row.startswith("| `") and "--only" not in row]
    assert sorted(described) == sorted(KINDS)
