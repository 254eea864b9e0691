"""What is complete on other data than are here is said before anyone relies on it."""

import shutil

import pytest

from analysis.frames import open_reader
from analysis.outdated import outdated, outdated_note
from model.config import DatasetConfig
from model.data import sources
from model.data.columns import Columns
from model.data.prepare import fingerprint_here, load_prepared
from tests.console import meantime
from tests.stored import STUDIES, opened, planned, prepared, result

IMPORTED = STUDIES.replace(
    "synthetic: {recipe: planted-order, users: 20, items: 12, events: 8}", "min_interactions: 3"
)


def bring(folder, *, last):
    """Import 3 users with 4 events each as `tiny`; the last event is of item `last`."""
    file = folder / "tiny.csv"
    rows = [f"{u},{i},{900_000_000 + 60 * n}" for u in "uvw" for n, i in enumerate("abcd")]
    rows[-1] = rows[-1].replace(",d,", f",{last},")
    file.write_text("user,item,timestamp\n" + "\n".join(rows) + "\n")
    sources.import_file(file, name="tiny", folder=folder, columns=Columns())


@pytest.fixture
def store_url(tmp_path):
    """A store of a complete study of two trials on an imported data set."""
    bring(tmp_path, last="d")
    plan = planned("shares", tmp_path, text=IMPORTED)
    data, config = prepared(plan, tmp_path)
    url = f"sqlite:///{tmp_path}/results.db"
    with opened(url) as store, store.claim():
        store.record_dataset(data, config)
        store.record_plan(plan)
        for trial in plan.trials:
            attempt = store.begin_attempt(trial, None, fingerprint=data.fingerprint)
            store.complete(trial, attempt, result(0.4), fingerprint=data.fingerprint)
    return url


def test_results_on_the_data_that_are_here_are_not_outdated(store_url, tmp_path):
    assert outdated(open_reader(store_url), ["shares"], tmp_path) == {}


def test_results_on_rows_that_were_imported_anew_are_counted(store_url, tmp_path):
    bring(tmp_path, last="a")
    reader = open_reader(store_url)
    assert outdated(reader, ["shares"], tmp_path) == {"tiny": 2}
    assert outdated(reader, ["another"], tmp_path) == {}
    assert outdated_note({"tiny": 2}, tmp_path) == (
        f"complete on other data than {tmp_path} has now: 2 of tiny; "
        "`meantime launch STUDY` trains them again"
    )


def test_where_the_data_are_not_here_nothing_is_said_of_them(store_url, tmp_path):
    shutil.rmtree(tmp_path / "tiny")
    assert outdated(open_reader(store_url), ["shares"], tmp_path) == {}


@pytest.mark.parametrize("prepared", [True, False])
def test_the_fingerprint_here_is_that_of_what_would_be_prepared(tmp_path, prepared):
    bring(tmp_path, last="d")
    config = DatasetConfig(name="tiny", min_interactions=3)
    if prepared:
        expected = load_prepared(config, tmp_path).fingerprint
        assert fingerprint_here(config, tmp_path) == expected
    else:
        found = fingerprint_here(config, tmp_path)
        assert not (tmp_path / "prepared").exists()
        assert found == load_prepared(config, tmp_path).fingerprint


@pytest.mark.usefixtures("store_url")
def test_coverage_status_and_query_say_it_and_coverage_is_not_complete(tmp_path):
    where = {"folder": tmp_path, "MEANTIME_DATA": str(tmp_path)}
    assert meantime("coverage", "shares", **where).returncode == 0
    bring(tmp_path, last="a")
    note = "complete on other data"
    covered = meantime("coverage", "shares", **where)
    assert (note in covered.stderr, covered.returncode) == (True, 1)
    assert note in meantime("status", **where).stdout
    asked = meantime("query", "--study", "shares", "--format", "csv", **where)
    assert note in asked.stderr
    assert note not in asked.stdout
