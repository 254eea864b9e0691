"""A study of several models, from the file to its tables, through the console script."""

import json
from textwrap import dedent

import pytest

from tests.console import meantime

FILE = dedent(
    """\
    datasets:
      tiny:
        synthetic: {recipe: planted-order, users: 40, items: 20, events: 10}
    studies:
      several:
        question: Does every model take its place?
        datasets: [tiny]
        models:
          meantime: {embeddings: [[pos, log]], grid: {heads: 2}}
          sasrec: {grid: {loss: [binary, softmax]}}
          item_knn:
          popularity:
        grid: {hidden: 8, layers: 1, max_len: 10, batch: 32, epochs: 2}
        seeds: [0, 1, 2]
    """
)


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    (folder / "studies.yaml").write_text(FILE, encoding="utf-8")
    done = meantime("launch", "several", "--serial", folder=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_model_s_trials_are_stored_with_what_they_read(launched):
    printed = meantime("query", "--study", "several", "--format", "json", folder=launched)
    rows = json.loads(printed.stdout)
    assert len(rows) == 3 * (1 + 2 + 1 + 1)
    of_model = {row["model"]: row for row in rows}
    assert set(of_model) == {"meantime", "sasrec", "item_knn", "popularity"}
    assert of_model["meantime"]["embeddings"] == "Pos+Log"
    assert of_model["sasrec"]["embeddings"] == ""
    assert of_model["sasrec"]["hidden"] == 8
    assert of_model["popularity"]["hidden"] is None
    assert of_model["item_knn"]["neighbours"] == 100
    assert all(0 <= row["test_ndcg@10"] <= 1 for row in rows)
    assert all((row["n_parameters"] > 0) == (row["batch"] is not None) for row in rows)


def test_the_table_of_models_has_each_once_best_validation_first(launched):
    printed = meantime("tables", "several", "--kind", "models", folder=launched)
    lines = [line for line in printed.stdout.splitlines() if line.startswith("| ")][2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert sorted(row[0] for row in cells) == ["MEANTIME", "SASRec", "item kNN", "popularity"]
    validation = [float(row[2]) for row in cells]
    assert validation == sorted(validation, reverse=True)
    assert {row[1] for row in cells} == {"3 of 3"}
    means = {row[0]: float(row[3]) for row in cells}
    for name, _, _, _, _, difference, interval, _ in cells:
        if name == "MEANTIME":
            assert difference == interval == "–"
        else:
            found = float(difference.strip("*"))
            assert found == pytest.approx(means[name] - means["MEANTIME"], abs=0.0011)
            low, high = (float(x) for x in interval.replace("\\", "").strip("[]").split(","))
            assert low < found < high
    assert "Holm over the 3 comparisons shown" in printed.stdout


def test_the_figures_and_the_report_stand_beside_models_without_embeddings(launched):
    done = meantime("report", "several", "--out", "report.html", folder=launched)
    assert done.returncode == 0, done.stderr
    assert "sasrec" in (launched / "report.html").read_text(encoding="utf-8")


def test_one_subset_has_nothing_to_be_compared_with(launched):
    printed = meantime("tables", "several", "--power", folder=launched)
    assert printed.returncode == 2
    assert "at least two have complete trials, several has Pos+Log; use --kind models" in (
        printed.stderr.replace("\n", " ")
    )
