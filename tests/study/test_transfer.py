"""What is exported comes back as it was, from either database, and describes itself."""

import json
import math

import pandas as pd
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select

from analysis import frames
from analysis.coverage import coverage
from model.errors import RequestError
from study.engine import reading
from study.rows_between import TABLES
from study.transfer import export, import_folder
from study.views import RESULTS
from tests.stored import Clock, fill


def everything(url):
    engine = reading(url)
    with engine.connect() as connection:
        found = {
            name: sorted(map(repr, connection.execute(select(table))))
            for name, table in TABLES.items()
        }
    engine.dispose()
    return found


def test_a_folder_of_parquet_comes_back_with_every_row_but_the_lost_end_of_what_ran(
    store_url, tmp_path
):
    fill(store_url, tmp_path)
    folder = export(store_url, tmp_path / "out")
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [*(f"{name}.parquet" for name in (*TABLES, "results")), "README.md", "schema.json"]
    )
    again = f"sqlite:///{tmp_path}/again.db"
    done = import_folder(again, folder, clock=Clock())
    assert (done.trials, done.attempts, done.studies, done.conflicts) == (10, 5, ["small"], [])
    before, after = everything(store_url), everything(again)
    for name in ("dataset", "environment", "study", "cell", "epoch_metric", "result", "rank"):
        assert after[name] == before[name], name
    # The attempt that was running is lost to a copy, and its trial pending.
    assert len(set(after["attempt"]) - set(before["attempt"])) == 1
    assert len(set(after["trial"]) - set(before["trial"])) == 1
    assert not import_folder(again, folder, clock=Clock()).changed


def test_one_sqlite_file_is_the_whole_database(store_url, tmp_path):
    fill(store_url, tmp_path)
    export(store_url, tmp_path / "copy.db")
    assert everything(f"sqlite:///{tmp_path}/copy.db") == everything(store_url)
    engine = frames.open_reader(f"sqlite:///{tmp_path}/copy.db")
    assert coverage(engine, "small").counts["complete"] == 2
    engine.dispose()


def test_the_folder_says_what_each_column_holds(tmp_path):
    url = f"sqlite:///{tmp_path}/results.db"
    fill(url, tmp_path)
    folder = export(url, tmp_path / "out")
    schema = json.loads((folder / "schema.json").read_text())
    assert set(schema["$defs"]) == {*TABLES, "results"}
    for name, described in schema["$defs"].items():
        names = pq.read_schema(folder / f"{name}.parquet").names
        assert list(described["properties"]) == names
        assert all(column["description"] for column in described["properties"].values())
    assert schema["$defs"]["result"]["properties"]["seconds"]["type"] == "number"
    assert "| epoch_metric.parquet | 37 |" in (folder / "README.md").read_text()
    results = pd.read_parquet(folder / "results.parquet")
    assert results.columns.tolist() == RESULTS.c.keys()
    assert sorted(results["validation_ndcg@10"].dropna()) == [0.2, 0.4]
    metrics = pd.read_parquet(folder / "epoch_metric.parquet")
    assert math.isnan(metrics[metrics["value"].isna()]["value"].iloc[0])


def test_an_export_overwrites_nothing_and_leaves_nothing_half_written(tmp_path):
    url = f"sqlite:///{tmp_path}/results.db"
    fill(url, tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    with pytest.raises(RequestError, match=r"never overwrites, got .*there, which exists"):
        export(url, tmp_path / "there")
    with pytest.raises(RequestError, match="never overwrites"):
        export(url, tmp_path / "results.db")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RequestError, match="the export's folder must exist"):
        export(url, tmp_path / "none" / "out")
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_that_is_no_export_or_of_another_revision_is_refused(tmp_path):
    url = f"sqlite:///{tmp_path}/results.db"
    fill(url, tmp_path)
    with pytest.raises(RequestError, match=r"got .* without schema.json"):
        import_folder(url, tmp_path, clock=Clock())
    folder = export(url, tmp_path / "out")
    (folder / "rank.parquet").unlink()
    with pytest.raises(RequestError, match=r"a file for every table, got .*rank.parquet"):
        import_folder(url, folder, clock=Clock())
    (folder / "schema.json").write_text('{"revision": "0001"}')
    with pytest.raises(RequestError, match=r"got 0001 in .*; export it as SQLite with the version"):
        import_folder(url, folder, clock=Clock())
