"""The page of questions: each answered from the shell, in SQL and in Python, all three alike."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from typer.testing import CliRunner

from analysis.cli import app
from analysis.frames import open_reader
from analysis.query import sql
from model.data.prepare import load_prepared
from model.metrics import summarise
from model.results import MetricValue, Ranks
from tests.stored import ENVIRONMENT, opened, planned, report, result

PAGE = Path(__file__).parents[1] / "docs" / "queries.md"
BLOCK = re.compile(r"^```(bash|sql|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STUDIES = dedent(
    """\
    datasets:
      toy: {synthetic: {recipe: planted-order, users: 20, items: 12, events: 8}}
      other: {synthetic: {recipe: planted-order, users: 20, items: 12, events: 8, seed: 1}}
    studies:
      demo:
        question: Which subset is best?
        datasets: [toy, other]
        embeddings: [none, [pos], [pos, log]]
        grid: {hidden: [8, 16], heads: 2, dropout: [0.1, 0.5]}
        seeds: [0, 1, 2]
    """
)
SCORES = {
    "toy": {"none": 0.20, "Pos": 0.30, "Pos+Log": 0.40},
    "other": {"none": 0.10, "Pos": 0.35, "Pos+Log": 0.25},
}
"""Validation NDCG@10 at hidden 8, dropout .1, seed 0; test is the other way round: .6 less this."""


def score(trial):
    factors = trial.factors
    value = SCORES[trial.dataset][trial.title]
    return (
        value
        + 0.01 * (factors["hidden"] == 16)
        - 0.02 * (factors["dropout"] == 0.5)
        + (0.002 * trial.seed)
    )


def fill(url, folder):
    """72 trials: the first failed, the second pending, the others complete."""
    what = planned("demo", folder, text=STUDIES)
    generator = np.random.default_rng(0)
    with opened(url) as store, store.together():
        prints = {}
        for trial in what.trials.values():
            config = trial.config().dataset
            if config not in prints:
                data = load_prepared(config, folder)
                store.record_dataset(data, config)
                prints[config] = data.fingerprint
        store.record_plan(what)
        for place, trial in enumerate(what.trials.values()):
            fingerprint = prints[trial.config().dataset]
            if place == 1:
                continue
            attempt = store.begin_attempt(trial.id, ENVIRONMENT, fingerprint=fingerprint)
            if place == 0:
                store.fail(trial.id, attempt, failure="oom", message="3 GB asked, 2 GB there")
                continue
            value = score(trial)
            reports = [(trial.id, attempt, report(e, ndcg=value * e / 2)) for e in (1, 2)]
            store.record_epochs(reports)
            ranks = tuple(
                Ranks(
                    split,
                    protocol,
                    greater=generator.integers(0, 40, 20).astype(np.int32),
                    equal=np.zeros(20, dtype=np.int32),
                )
                for split in ("validation", "test")
                for protocol in ("popular-100", "full")
            )
            metrics = [m for r in ranks for m in summarise(r) if m.metric != "ndcg@10"]
            for split, ndcg in (("validation", value), ("test", 0.6 - value)):
                metrics += [MetricValue(split, "popular-100", "ndcg@10", ndcg)]
                metrics += [MetricValue(split, "full", "ndcg@10", ndcg / 2)]
            hidden = trial.factors["hidden"]
            given = replace(result(0.1), metrics=tuple(metrics), ranks=ranks, seconds=float(hidden))
            store.complete(trial.id, attempt, given, fingerprint=fingerprint)


EXPECTED = {
    1: ("Pos+Log", "0.412"),  # .40 + .01 + the mean of 0, .002, .004
    2: ("0.392", "0.412"),
    3: ("oom",),
    4: ("16", "34"),  # one of 36 trials of hidden 8 failed, one is pending
    5: ("0.002",),
    6: ("0.207", "0.414"),
    7: ("oom", "pending"),
    8: (),
    9: ("toy", "other"),
    10: ("0" * 40,),
}


def questions():
    """Number of the question -> its blocks by language; the shared start stands under 0."""
    parts = re.split(r"^## (\d+)\. ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    numbers = [0, *map(int, parts[1::2])]
    return {
        number: dict(BLOCK.findall(part))
        for number, part in zip(numbers, [parts[0], *parts[2::2]], strict=True)
    }


def test_there_are_ten_questions_each_answered_three_ways():
    found = questions()
    assert list(found) == list(range(11))
    assert [sorted(found[n]) for n in range(1, 11)] == [["bash", "python", "sql"]] * 10
    assert list(found[0]) == ["python"]


def test_no_answer_is_chosen_by_a_test_score():
    for blocks in questions().values():
        for source in blocks.values():
            chosen = re.findall(r"(?:sort=|--sort |ORDER BY |sort_values\()(.*)", source)
            assert not any("test" in each for each in chosen), source


def test_every_answer_from_the_shell_and_in_python_is_right(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEANTIME_STORE", f"sqlite:///{tmp_path}/results.db")
    fill(f"sqlite:///{tmp_path}/results.db", tmp_path)
    found = questions()
    space = {}
    exec(found[0]["python"], space)
    for number in range(1, 11):
        words = shlex.split(found[number]["bash"])
        assert words[0] == "meantime"
        done = CliRunner().invoke(app, [*words[1:], "--format", "csv"])
        assert done.exit_code == 0, done.output
        assert done.output.count("\n") > 1
        capsys.readouterr()
        exec(found[number]["python"], space)
        printed = capsys.readouterr().out
        for said in (done.output, printed):
            for expected in EXPECTED[number]:
                assert expected in said, (number, expected, said)
    space["engine"].dispose()


def test_every_answer_in_sql_is_right_on_either_database(store_url, tmp_path):
    fill(store_url, tmp_path)
    engine = open_reader(store_url)
    answers = {number: sql(engine, questions()[number]["sql"]) for number in range(1, 11)}
    engine.dispose()
    assert answers[1][["dataset", "embeddings", "hidden"]].to_numpy().tolist() == [
        ["other", "Pos", 16],
        ["toy", "Pos+Log", 16],
    ]
    assert answers[1]["test"].tolist() == pytest.approx([0.6 - 0.362, 0.6 - 0.412])
    assert len(answers[2]) == 8
    assert answers[3]["message"].tolist() == ["3 GB asked, 2 GB there"]
    assert answers[4]["trials"].tolist() == [34, 36]
    assert answers[4]["mean_seconds"].tolist() == [8, 16]
    assert answers[5]["spread"].tolist() == pytest.approx([0.004] * 5)
    assert answers[6]["validation_ndcg@10"].tolist() == pytest.approx([0.207, 0.414])
    assert answers[7]["class"].tolist() == ["failed", "pending"]
    assert answers[8]["difference"].tolist() == pytest.approx([0.1] * 3)
    assert len(answers[9]) == 6
    assert answers[10]["attempts"].tolist() == [71]
