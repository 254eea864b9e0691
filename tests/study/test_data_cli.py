import pytest
from typer.testing import CliRunner

from model.config import DatasetConfig
from model.data.prepare import load_prepared
from model.data.sources import load
from model.errors import RequestError
from study.data_cli import data_app

T = 881250949


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Import text as data set `mine` and return what was said to stderr."""
    monkeypatch.setenv("MEANTIME_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")

    def build(name, text, *options):
        (tmp_path / name).write_text(text, encoding="utf-8")
        words = ["import", str(tmp_path / name), "--as", "mine", *options]
        done = CliRunner().invoke(data_app, words)
        if done.exception is not None:
            raise done.exception
        return done.stderr

    return build


def test_every_option_of_an_import_reaches_the_reader(run, tmp_path):
    text = f"who,what,when,stars\nu,a,{T}999,4\nu,a,{T}000,5\nv,b,{T}000,3\n"
    options = ["--user", "who", "--item", "what", "--time", "when", "--rating", "stars"]
    said = run(
        "a.csv", text, *options, "--time-unit", "milliseconds", "--duplicates", "drop"
    ).splitlines()
    rows = load("mine", tmp_path / "data")
    assert (rows.users.tolist(), rows.items.tolist()) == (["u", "v"], ["a", "b"])
    assert (rows.timestamps.tolist(), rows.ratings.tolist()) == ([T, T], [4.0, 3.0])
    assert said == [
        "times of a.csv are milliseconds (declared): 1997-12-04 to 1997-12-04, UTC",
        "1 rows repeat the user, item and time of an earlier row: left out",
    ]


def test_what_was_found_is_said_aloud(run):
    said = run("a.csv", f"user,item,timestamp\nu,a,{T}\nu,a,{T}\n")
    assert "times of a.csv are seconds (found)" in said
    assert "1 rows repeat the user, item and time of an earlier row: kept" in said


def test_a_faulty_file_imports_nothing(run, tmp_path):
    with pytest.raises(RequestError, match="got 1 faulty of 2"):
        run("a.csv", f"user,item,timestamp\nu,a,{T}\nu,a,x\n")
    assert not (tmp_path / "data").exists()


def test_the_list_says_where_prepared_arrays_are_and_that_they_may_go(run, tmp_path):
    listed = CliRunner().invoke(data_app, ["list"]).stdout
    assert "prepared arrays" not in listed
    run("a.csv", "user,item,timestamp\n" + f"u,a,{T}\nu,b,{T}\n" * 5)
    load_prepared(DatasetConfig(name="mine"), tmp_path / "data")
    listed = " ".join(CliRunner().invoke(data_app, ["list"]).stdout.split())
    assert f"MB in {tmp_path / 'data' / 'prepared'}, which can be deleted" in listed
