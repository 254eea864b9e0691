"""The console script as users meet it: a wrong request is one clear message and exit code 2."""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
import typer

from analysis.cli import WATCH_SECONDS, _watch, app
from study.store import Store
from tests.console import environment, meantime
from tests.stored import fill
from tests.study.small import STUDIES, written


def refusal(*words: str, folder: Path, studies: str | None = None) -> str:
    """Run a request that must be refused and return its message."""
    if studies is None:
        written(folder)
    else:
        (folder / "studies.yaml").write_text(studies, encoding="utf-8")
    done = meantime(*words, folder=folder)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


def test_a_misspelt_key_is_named_with_its_line_and_a_suggestion(tmp_path):
    message = refusal(
        "plan", "four", folder=tmp_path, studies=STUDIES.replace("seeds: [0]", "seed: [0]", 1)
    )
    line = STUDIES[: STUDIES.index("seeds: [0]")].count("\n") + 1
    assert f"studies.yaml:{line}" in message
    assert "seeds" in message


def test_a_wrong_type_is_named_with_its_line_and_value(tmp_path):
    message = refusal(
        "plan", "four", folder=tmp_path, studies=STUDIES.replace("hidden: 8", "hidden: wide")
    )
    assert "studies.yaml:4" in message
    assert "hidden" in message
    assert "wide" in message


def test_every_mistake_is_said_at_once(tmp_path):
    studies = STUDIES.replace("hidden: 8", "hidden: wide").replace("seeds: [0]", "seed: [0]")
    message = refusal("plan", "four", folder=tmp_path, studies=studies)
    assert message.count("studies.yaml:") >= 4


def test_a_number_that_yaml_reads_as_text_is_a_number(tmp_path):
    studies = STUDIES.replace("grid: {lr: [0.004,", "grid: {weight_decay: [1e-5, 1E-5], lr: [")
    (tmp_path / "studies.yaml").write_text(studies, encoding="utf-8")
    done = meantime("plan", "one-fails", "--format", "json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)["cells"]
    assert {cell["weight_decay"] for cell in cells} == {1e-5}


def test_text_where_a_number_belongs_is_refused_with_its_line(tmp_path):
    studies = STUDIES.replace("lr: [0.004,", "lr: ['fast',")
    message = refusal("plan", "one-fails", folder=tmp_path, studies=studies)
    line = STUDIES[: STUDIES.index("lr: [0.004")].count("\n") + 1
    assert f"studies.yaml:{line}" in message
    assert "fast" in message


def test_a_study_of_infeasible_cells_alone_says_why(tmp_path):
    studies = STUDIES.replace(
        "embeddings: [none, [pos], [day], [pos, log]]", "embeddings: [[day, pos, log]]"
    )
    message = refusal("launch", "four", "--serial", folder=tmp_path, studies=studies)
    assert "3 embeddings need at least 3 heads, got heads=2" in message


def test_an_unknown_study_is_named_beside_the_known_ones(tmp_path):
    message = refusal("plan", "fuor", folder=tmp_path)
    assert "fuor" in message
    assert "four" in message


def test_an_undeclared_dataset_is_refused_with_its_line(tmp_path):
    studies = STUDIES.replace("datasets: [tiny]", "datasets: [tinny]", 1)
    message = refusal("plan", "four", folder=tmp_path, studies=studies)
    assert "tinny" in message
    assert "studies.yaml:" in message


def test_a_dataset_that_is_not_here_says_how_to_get_it(tmp_path):
    studies = STUDIES.replace("datasets: [tiny]", "datasets: [ml-100k]", 1).replace(
        "datasets:\n", "datasets:\n  ml-100k: {}\n", 1
    )
    message = refusal("launch", "four", "--serial", folder=tmp_path, studies=studies)
    assert "meantime data fetch ml-100k" in message


def test_a_dataset_outside_the_catalogue_cannot_be_fetched(tmp_path):
    message = refusal("data", "fetch", "ml-9m", folder=tmp_path)
    assert "ml-9m" in message
    assert "ml-100k" in message


def test_a_truncated_archive_is_refused_and_nothing_is_imported(tmp_path):
    whole = tmp_path / "whole.zip"
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ml-100k/u.data", "1\t2\t3\t4\n" * 5000)
    cut = tmp_path / "cut.zip"
    cut.write_bytes(whole.read_bytes()[:-60])
    message = refusal("data", "import", str(cut), "--as", "ml-100k", folder=tmp_path)
    assert "cut.zip" in message
    assert not list((tmp_path / "data").rglob("*.parquet"))


@pytest.mark.parametrize(
    "url", ["sqlite:////nonexistent/folder/results.db", "no-such-thing", "nosql://x/y"]
)
def test_an_unwritable_store_is_refused(tmp_path, url):
    message = refusal("launch", "four", "--serial", "--store", url, folder=tmp_path)
    assert url.rsplit("/", 1)[0].split(":")[-1].strip("/") in message


def test_reading_a_store_that_does_not_exist_creates_none(tmp_path):
    message = refusal("query", folder=tmp_path)
    assert "meantime launch" in message
    assert not (tmp_path / "results.db").exists()


@pytest.fixture(scope="module")
def launched(tmp_path_factory) -> Path:
    """A folder whose store holds a launched study, one trial of which failed."""
    folder = tmp_path_factory.mktemp("launched")
    written(folder)
    done = meantime("launch", "one-fails", "--serial", folder=folder)
    assert done.returncode == 1
    assert "2 of 3 trials complete" in done.stderr
    assert "diverged" in done.stderr.splitlines()[-1]
    return folder


def test_a_filter_with_an_unknown_column_points_at_the_place(launched):
    message = refusal("query", "--where", "hiden = 8", folder=launched)
    assert "^" in message
    assert "hidden" in message


def test_a_failing_trial_leaves_a_gap_that_coverage_shows(launched):
    coverage = meantime("coverage", "one-fails", "--format", "json", folder=launched)
    assert coverage.returncode == 1
    counts = json.loads(coverage.stdout)
    assert (counts["declared"], counts["complete"], counts["failed"]) == (3, 2, 1)


def test_results_are_written_to_a_file_whole(launched):
    done = meantime("query", "--format", "parquet", "--out", "rows.parquet", folder=launched)
    assert (done.returncode, done.stdout) == (0, "rows.parquet\n")
    assert (launched / "rows.parquet").read_bytes()[:4] == b"PAR1"


def test_a_watched_status_ends_with_the_launch(launched, capsys):
    looks, waits = iter([True, True, False]), []
    _watch(
        lambda claimed: "running" if claimed else "all complete",
        alive=lambda: next(looks),
        wait=waits.append,
    )
    assert waits == [WATCH_SECONDS, WATCH_SECONDS]
    assert capsys.readouterr().out.rstrip().endswith("all complete")
    assert meantime("status", "--watch", folder=launched).stdout.startswith("one-fails: 3 declared")


def test_a_launch_tests_its_evaluator_before_it_trains(tmp_path):
    written(tmp_path)
    program = (
        "import sys, model.evaluate as evaluation; "
        "counted = evaluation._count; "
        "evaluation._count = lambda found, allowed: counted(found, allowed) * 0; "
        "from analysis.cli import main; sys.argv = ['meantime', 'launch', 'four', '--serial']; "
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "error: the evaluator failed its own test" in done.stderr
    with closing(sqlite3.connect(tmp_path / "results.db")) as store:
        assert store.execute("SELECT count(*) FROM attempt").fetchone() == (0,)


def test_a_trial_with_more_processors_than_there_are_is_refused_without_ray_too(tmp_path):
    studies = STUDIES.replace("seeds: [0]", "seeds: [0]\n    resources: {cpus: 999}", 1)
    message = refusal("launch", "four", "--serial", folder=tmp_path, studies=studies)
    assert "999 CPU asked for, it has " in message


def test_every_command_and_option_says_what_it_is_for():
    root = typer.main.get_command(app)
    commands = {
        **root.commands,
        **root.commands["data"].commands,
        **{f"store {name}": command for name, command in root.commands["store"].commands.items()},
    }
    assert len(commands) == 22
    for name, command in commands.items():
        assert command.help, name
        for parameter in command.params:
            assert parameter.help, (name, parameter.name)


def test_a_training_that_diverges_is_one_message(tmp_path):
    written(tmp_path)
    settings = ("dataset=tiny", "embeddings=pos", "lr=1e30")
    options = [word for setting in settings for word in ("--set", setting)]
    done = meantime("train", *options, folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("failed: diverged: ")
    assert "Traceback" not in done.stderr


def test_one_trial_trains_in_the_foreground_and_stores_nothing(tmp_path):
    written(tmp_path)
    done = meantime(
        "train", "--set", "dataset=tiny", "--set", "embeddings=pos+log", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "epoch 2 " in done.stdout
    assert "best epoch" in done.stdout
    assert "test full ndcg@10 0." in done.stdout
    assert not (tmp_path / "results.db").exists()


def test_serial_and_a_cluster_exclude_each_other_before_anything_is_done(tmp_path):
    message = refusal("launch", "four", "--serial", "--address", "auto", folder=tmp_path)
    assert "--serial trains in this process" in message
    assert not (tmp_path / "results.db").exists()


def test_a_password_is_never_printed(tmp_path):
    url = "postgresql://me:secret@127.0.0.1:1/results"
    assert "secret" not in refusal("launch", "four", "--serial", "--store", url, folder=tmp_path)


def test_status_adds_up_each_study_of_the_store(launched):
    done = meantime("status", folder=launched)
    first, best = done.stdout.splitlines()
    assert first == "one-fails: 3 declared = 2 complete + 1 failed; failed: 1 diverged"
    assert best.startswith("  best validation NDCG@10: 0.")
    assert best.endswith(", tiny Pos seed 0")
    [standing] = json.loads(meantime("status", "--format", "json", folder=launched).stdout)
    assert (standing["study"], standing["failed"]) == ("one-fails", 1)


def test_failed_trials_can_be_left_alone(launched):
    done = meantime("launch", "one-fails", "--serial", "--retry", "none", folder=launched)
    assert done.returncode == 1
    assert "1 failed trials stay as they are" in done.stderr


def test_a_damaged_database_is_one_message(tmp_path):
    written(tmp_path)
    assert meantime("launch", "one-fails", "--serial", folder=tmp_path).returncode == 1
    database = tmp_path / "results.db"
    content = bytearray(database.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    database.write_bytes(content)
    for words in (("query",), ("coverage", "one-fails")):
        assert "malformed" in refusal(*words, folder=tmp_path)


def test_an_old_database_is_refused_with_the_command_that_brings_it_up_to_date(tmp_path):
    past = Path(__file__).parent / "study" / "revisions" / "0001.sql"
    with closing(sqlite3.connect(tmp_path / "results.db")) as connection:
        connection.executescript(past.read_text())
    message = refusal("status", folder=tmp_path)
    assert "older revision 0001" in message
    command = re.search(r"`meantime (store upgrade --store \S+)`", message)[1]
    done = meantime(*command.split(), folder=tmp_path)
    assert done.stdout.startswith("schema revision 0001 is now ")
    backup = Path(done.stdout.split("as it was: ")[1].strip())
    assert backup.is_file()
    assert meantime("status", folder=tmp_path).stdout.startswith("shares: 2 declared = ")
    assert "nothing to do" in meantime(*command.split(), folder=tmp_path).stdout


def test_groups_pivots_and_curves_are_queried_from_the_shell(launched):
    grouped = ("query", "--group-by", "embeddings", "--columns", "embeddings,n,n(test_ndcg@10)")
    done = meantime(*grouped, "--format", "csv", folder=launched)
    assert done.stdout == "embeddings,n,n(test_ndcg@10)\nPos,3,2\n"
    pivot = ("query", "--pivot", "embeddings", "seed", "n", "--format", "jsonl")
    assert meantime(*pivot, folder=launched).stdout == '{"embeddings": "Pos", "seed=0": 3}\n'
    curves = ("query", "--from", "curves", "--columns", "n", "--format", "latex")
    assert "\\toprule" in meantime(*curves, folder=launched).stdout
    message = refusal("query", "--pivot", "seed", "embeddings", "n", "--sort", "n", folder=launched)
    assert "--pivot says it all: leave --sort out" in message


def test_every_command_that_shows_a_running_trial_says_when_no_launch_is_alive(tmp_path):
    url = f"sqlite:///{tmp_path}/results.db"
    fill(url, tmp_path)
    note = "1 trial reads `running`, and no launch is alive: left by one that died"
    asked = (("query",), ("query", "--sql", "SELECT state FROM attempt"), ("coverage", "small"))
    for words in asked:
        assert note in " ".join(meantime(*words, folder=tmp_path).stderr.split())
    status = meantime("status", folder=tmp_path)
    assert "no launch is alive: 1 trial was left by one that died" in status.stdout
    [standing] = json.loads(meantime("status", "--format", "json", folder=tmp_path).stdout)
    assert (standing["claimed"], len(standing["running"])) == (False, 1)
    assert meantime("query", "--where", "state = 'complete'", folder=tmp_path).stderr == ""
    with Store.open(url) as store, store.claim():
        assert meantime("query", folder=tmp_path).stderr == ""


def completed(folder: Path, *words: str) -> list[str]:
    """Return what bash is offered after these words."""
    extra = {
        "_MEANTIME_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["meantime", *words]),
        "COMP_CWORD": str(len(words)),
    }
    return meantime(folder=folder, **extra).stdout.split()


def test_the_shell_completes_studies_columns_and_aggregates(launched):
    assert completed(launched, "query", "--study", "one") == ["one-fails"]
    assert completed(launched, "coverage", "fo") == ["four"]
    assert completed(launched, "query", "--sort", "test_full_n") == [
        "test_full_ndcg@5",
        "test_full_ndcg@10",
    ]
    assert completed(launched, "query", "--columns", "seed,mean(test_m") == ["seed,mean(test_mrr)"]
    assert completed(launched, "query", "--columns", "seed,be") == ["seed,best_epoch", "seed,best("]
    assert completed(launched, "query", "--group-by", "seed,hid") == ["seed,hidden"]


def test_a_broken_file_and_no_store_offer_nothing_and_say_nothing(tmp_path):
    (tmp_path / "studies.yaml").write_text("studies: [", encoding="utf-8")
    assert completed(tmp_path, "query", "--study", "o") == []


def test_a_database_is_checked_exported_and_brought_together(launched, tmp_path):
    checked = meantime("store", "check", folder=launched)
    assert (checked.returncode, checked.stdout.splitlines()[-1]) == (0, "everything holds")
    copy = tmp_path / "copy.db"
    assert meantime("store", "export", str(copy), folder=launched).stdout == f"{copy}\n"
    merged = meantime("store", "merge", str(copy), folder=launched)
    assert merged.stdout == f"{copy}: nothing new\n"
    folder = tmp_path / "parquet"
    meantime("store", "export", str(folder), folder=launched)
    done = meantime("store", "import", str(folder), folder=tmp_path)
    assert done.stdout.startswith(f"{folder}: 3 new trials, ")


def test_a_complete_study_needs_no_data_to_be_launched_again(tmp_path):
    written(tmp_path)
    content = "user,item,timestamp\n" + "".join(
        f"u{user},i{(user + event) % 9},{10**9 + 1000 * event}\n"
        for user in range(12)
        for event in range(8)
    )
    (tmp_path / "events.csv").write_text(content)
    (tmp_path / "studies.yaml").write_text(
        STUDIES.replace("datasets: [tiny]", "datasets: [own]", 1).replace(
            "datasets:\n", "datasets:\n  own: {}\n", 1
        )
    )
    done = meantime("data", "import", "events.csv", "--as", "own", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert meantime("launch", "four", "--serial", folder=tmp_path).returncode == 0
    shutil.rmtree(tmp_path / "data" / "own")
    again = meantime("launch", "four", "--serial", folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "Nothing to start: all trials of four are complete" in again.stderr
    assert "their fingerprint was not compared" in again.stderr


def test_searched_cells_are_covered_and_a_wider_search_trains_the_new_ones_only(tmp_path):
    declared = STUDIES + (
        "  searched:\n    question: Which rate?\n    datasets: [tiny]\n"
        "    embeddings: [[pos], [day]]\n"
        "    grid: {lr: {from: 1e-3, to: 1e-2, log: true}}\n"
        "    search: {optuna: random, trials_per_arm: 2}\n"
    )
    (tmp_path / "studies.yaml").write_text(declared)
    assert meantime("launch", "searched", "--serial", folder=tmp_path).returncode == 0

    def counts() -> dict[str, int]:
        said = meantime("coverage", "searched", "--format", "json", folder=tmp_path).stdout
        return {name: n for name, n in json.loads(said).items() if name != "study" and n}

    assert counts() == {"declared": 4, "complete": 4}
    (tmp_path / "studies.yaml").write_text(declared.replace("per_arm: 2", "per_arm: 3"))
    wider = meantime("launch", "searched", "--serial", folder=tmp_path)
    assert wider.returncode == 0, wider.stderr
    assert "searched: 6 trials, 4 complete, 2 to run" in wider.stderr
    assert counts() == {"declared": 6, "complete": 6}
