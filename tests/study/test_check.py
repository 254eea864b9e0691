"""A check finds each kind of damage, names it, and changes nothing."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from model.metrics import summarise
from study.check import check
from tests.stored import ENVIRONMENT, opened, planned, prepared, report, result


def consistent(url, tmp_path):
    """Fill a store whose metrics are what its ranks come to."""
    what = planned("small", tmp_path)
    data, config = prepared(what, tmp_path)
    given = result(0.4)
    whole = replace(given, metrics=tuple(m for ranks in given.ranks for m in summarise(ranks)))
    with opened(url) as store, store.together():
        store.record_dataset(data, config)
        store.record_plan(what)
        for trial in list(what.trials)[:3]:
            attempt = store.begin_attempt(trial, ENVIRONMENT, fingerprint=data.fingerprint)
            reports = [(trial, attempt, report(epoch, ndcg=0.01)) for epoch in (1, 3)]
            store.record_epochs(reports)
            store.complete(trial, attempt, whole, fingerprint=data.fingerprint)
    return url


def test_a_store_that_holds_what_it_promises_has_no_problems(store_url, tmp_path):
    found = check(consistent(store_url, tmp_path))
    assert found.problems == ()
    assert found.counts == {
        "references": 9,
        "trials": 10,
        "studies": 1,
        "results": 3,
        "ranks": 12,
    }


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("DELETE FROM environment", "3 rows of attempt refer to a row of environment that is not"),
        ("DELETE FROM cell WHERE number = 3", "small declares 18 cells and has 17"),
        ("DELETE FROM result", "3 trials that are complete without a result of a complete attempt"),
        (
            "UPDATE trial SET attempts = 7 WHERE attempts = 1",
            "3 trials that miscount their attempts",
        ),
        ("UPDATE trial SET state = 'running' WHERE attempts = 0", "7 trials that read running"),
        ("UPDATE trial SET effective = '{}'", "10 trials whose id is not the hash"),
        (
            'UPDATE result SET "test_ndcg@10" = 0.9',
            "3 trials whose metrics are not what their ranks come to: ",
        ),
        (
            "UPDATE epoch_metric SET value = 0.99 WHERE epoch = 3 AND metric = 'ndcg@10'",
            "3 trials whose best epoch has not the highest validation score",
        ),
    ],
)
def test_each_kind_of_damage_is_found(tmp_path, damage, problem):
    """On SQLite, which does not check rows that are there; PostgreSQL refuses most of these."""
    url = consistent(f"sqlite:///{tmp_path}/results.db", tmp_path)
    with closing(sqlite3.connect(tmp_path / "results.db")) as connection:
        connection.execute(damage)
        connection.commit()
    problems = check(url).problems
    assert any(each.startswith(problem) for each in problems), problems
