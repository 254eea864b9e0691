"""What a launch would train anew is not complete before it either, whoever asks."""

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from analysis.cli import app
from analysis.coverage import coverage, stale_note
from analysis.frames import open_reader
from analysis.status import status
from model.data.formats import Columns
from model.data.sources import import_file
from study.engine import writing
from study.trial import NUMERICS
from tests.stored import ENVIRONMENT, STUDIES, fill, opened, planned, prepared, result

OF_FILL = {"complete": 2, "running": 1, "pending": 6, "failed": 1}


def counts(engine, now):
    found = coverage(engine, "small", now=now)
    assert sum(found.counts.values()) == found.declared == 18
    return {name: found.counts[name] for name in OF_FILL}


@pytest.fixture
def engine(store_url, plan):  # noqa: ARG001 - it fills the store
    engine = open_reader(store_url)
    yield engine
    engine.dispose()


@pytest.fixture
def plan(store_url, tmp_path):
    return fill(store_url, tmp_path)


def test_results_of_other_data_are_pending_as_the_launch_will_say(
    engine, plan, store_url, tmp_path
):
    data, config = prepared(plan, tmp_path)
    assert counts(engine, {config: data.fingerprint}.get) == OF_FILL
    assert counts(engine, {}.get) == OF_FILL  # data that are not here cannot be compared
    other = {config: "f" * 64}
    as_launched = {"complete": 0, "running": 1, "pending": 8, "failed": 1}
    assert counts(engine, other.get) == as_launched
    found = coverage(engine, "small", now=other.get)
    assert (found.stale, dict(found.failures)) == (2, {"diverged": 1})
    assert stale_note(found) == (
        "small: 2 trials ended on other data than tiny has now (fingerprint): pending; "
        "`meantime launch small` trains anew"
    )
    with opened(store_url) as store:
        assert len(store.stale(other)) == 2
    assert counts(engine, other.get) == as_launched
    assert stale_note(coverage(engine, "small", now=other.get)) == ""


def test_the_best_of_a_status_is_none_of_other_data(engine, plan, tmp_path):
    _, config = prepared(plan, tmp_path)
    assert status(engine, "small").best is not None
    found = status(engine, "small", now={config: "f" * 64}.get)
    assert (found.best, found.coverage.stale) == (None, 2)


@pytest.mark.parametrize("version", ["numerics", "scheme"])
def test_what_was_planned_under_other_numerics_is_pending(engine, store_url, version):
    writer = writing(store_url)
    with writer.begin() as connection:
        # As an older version wrote it, with the ids of then.
        old = f"'\"{version}\": 0'"
        now = f"'\"{version}\": {NUMERICS if version == 'numerics' else 1}'"
        connection.execute(text(f"UPDATE trial SET effective = replace(effective, {now}, {old})"))
    writer.dispose()
    assert counts(engine, {}.get) == {"complete": 0, "running": 1, "pending": 9, "failed": 0}
    found = coverage(engine, "small")
    assert found.failures == {}
    note = stale_note(found)
    assert note.startswith("small: 3 trials ended under numerics ")
    assert f"(this version: {NUMERICS}, 1)" in note


@pytest.fixture
def imported(tmp_path):
    """A data set from a file, one result on it, and then other rows under its name."""
    rows = [f"{user},{item},{10**9 + item}" for user in range(6) for item in range(7)]
    folder, file = tmp_path / "data", tmp_path / "rows.csv"

    def bring(lines):
        file.write_text("\n".join(["user,item,timestamp", *lines]) + "\n")
        import_file(file, name="tiny", folder=folder, columns=Columns())

    bring(rows)
    generated = "tiny:\n    synthetic: {recipe: planted-order, users: 20, items: 12, events: 8}"
    what = planned("shares", tmp_path, text=STUDIES.replace(generated, "tiny: {}"))
    data, config = prepared(what, folder)
    with opened(f"sqlite:///{tmp_path}/results.db") as store:
        store.record_dataset(data, config)
        store.record_plan(what)
        for trial in what.trials:
            attempt = store.begin_attempt(trial, ENVIRONMENT, fingerprint=data.fingerprint)
            store.complete(trial, attempt, result(0.4), fingerprint=data.fingerprint)
    return lambda: bring(rows[1:])


COMMANDS = (
    ("coverage", "shares"),
    ("status", "shares"),
    ("query", "--group-by", "embeddings"),
    ("query", "--sql", "SELECT count(*) FROM results"),
)


def test_commands_say_before_a_launch_that_data_were_imported_anew(imported, tmp_path):
    environment = {
        "MEANTIME_DATA": str(tmp_path / "data"),
        "MEANTIME_STORE": f"sqlite:///{tmp_path}/results.db",
        "COLUMNS": "200",
    }

    def said(*words):
        done = CliRunner().invoke(app, words, env=environment)
        return done.exit_code, done.output

    note = "shares: 2 trials ended on other data than tiny has now"
    for words in COMMANDS:
        code, output = said(*words)
        assert (code, note in output) == (0, False), output
    imported()
    codes = []
    for words in COMMANDS:
        code, output = said(*words)
        codes.append(code)
        assert note in output
    assert codes == [1, 0, 0, 0]
    assert "2 declared = 2 pending" in said("coverage", "shares")[1]
