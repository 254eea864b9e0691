"""Rows are chosen and sorted by the database, printed in every format, and never written."""

import io
import json
import math

import pandas as pd
import pytest
from sqlalchemy import text

from analysis.formats import TableFormat
from analysis.frames import open_reader, results
from analysis.query import query, sql
from analysis.rendering import render
from model.errors import RequestError
from study.engine import writing
from study.views import RESULTS
from tests.stored import ENVIRONMENT, fill, opened, planned, prepared, result


@pytest.fixture
def engine(store_url, tmp_path):
    fill(store_url, tmp_path)
    engine = open_reader(store_url)
    yield engine
    engine.dispose()


@pytest.fixture
def complete(tmp_path):
    """A store on SQLite with every trial of `small` complete: NDCG@10 .10, .11, .. in order."""
    url = f"sqlite:///{tmp_path}/results.db"
    what = planned("small", tmp_path)
    data, config = prepared(what, tmp_path)
    with opened(url) as store:
        store.record_dataset(data, config)
        store.record_plan(what)
        for place, trial in enumerate(what.trials):
            attempt = store.begin_attempt(trial, ENVIRONMENT)
            store.complete(trial, attempt, result(0.1 + place / 100), fingerprint=data.fingerprint)
    engine = open_reader(url)
    yield engine
    engine.dispose()


def test_without_options_a_query_returns_every_row_and_column(engine):
    found = query(engine)
    assert found.columns.tolist() == RESULTS.c.keys()
    assert set(found["trial"]) == set(results(engine)["trial"])


def test_a_metric_sorts_best_first_and_missing_values_come_last(engine):
    found = query(engine, sort="test_ndcg@10")["test_ndcg@10"].tolist()
    assert found[:2] == [0.2, 0.1]
    assert all(math.isnan(value) for value in found[2:])


def test_a_minus_reverses_and_missing_values_still_come_last(engine):
    found = query(engine, sort="-test_ndcg@10")["test_ndcg@10"].tolist()
    assert found[:2] == [0.1, 0.2]
    assert all(math.isnan(value) for value in found[2:])


def test_other_columns_sort_smallest_first_and_several_may_be_given(engine):
    found = query(engine, sort="seed, -heads", columns=["seed", "heads"])
    rows = list(zip(found["seed"], found["heads"], strict=True))
    assert rows == [(0, 2), (0, 2), (0, 2), (0, 1), (0, 1), (1, 2), (1, 2), (1, 2), (1, 1), (1, 1)]


def test_the_order_is_the_same_each_time(engine):
    first = query(engine, sort="hidden")["trial"].tolist()
    assert query(engine, sort="hidden")["trial"].tolist() == first


def test_study_filter_limit_and_columns_work_together(engine):
    found = query(
        engine,
        study="small",
        where="pos and not log",
        sort="seed",
        limit=3,
        columns=["embeddings", " seed"],
    )
    assert found.columns.tolist() == ["embeddings", "seed"]
    assert found["embeddings"].tolist() == ["Pos"] * 3
    assert found["seed"].tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sort": "test_ndgc@10"}, r"no column 'test_ndgc@10'; did you mean test_ndcg@10"),
        ({"sort": ""}, "no column ''; see them in docs/database.md"),
        ({"columns": ["hiden"]}, r"no column 'hiden'; did you mean hidden\?"),
        ({"limit": 0}, "limit must be at least 1, got 0"),
        ({"study": "smal"}, r"no study 'smal'; did you mean small\?"),
        ({"where": "hiden = 8"}, r"did you mean hidden\?\n  hiden = 8\n  \^"),
    ],
)
def test_a_mistake_is_refused_with_the_next_step(engine, options, message):
    with pytest.raises(RequestError, match=message):
        query(engine, **options)


def test_a_query_works_while_a_launch_is_writing(store_url, engine):
    writer = writing(store_url)
    with writer.begin() as connection:
        connection.execute(text("UPDATE trial SET state = 'pending' WHERE state = 'running'"))
        assert len(query(engine, where="state = 'running'")) == 1
    assert len(query(engine, where="state = 'running'")) == 0
    writer.dispose()


def test_sql_returns_what_a_select_returns(engine):
    found = sql(
        engine,
        "SELECT embeddings, count(*) AS n, avg(heads) AS mean, max(best_epoch) AS epoch, "
        "'100%' AS \"a%b\" FROM results WHERE embeddings LIKE 'P%' GROUP BY 1 ORDER BY 1",
    )
    assert found.drop(columns="epoch").to_dict("records") == [
        {"embeddings": "Pos", "n": 4, "mean": 1.5, "a%b": "100%"},
        {"embeddings": "Pos+Log", "n": 2, "mean": 2.0, "a%b": "100%"},
    ]
    assert found["epoch"].isna().all()
    assert str(found["n"].dtype) == "Int64"


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM attempt",
        "UPDATE trial SET state = 'pending'",
        "DROP TABLE attempt",
        "SELECT 1; DELETE FROM attempt",
        "COMMIT; DELETE FROM attempt",
        "ROLLBACK; DELETE FROM attempt",
        "SET TRANSACTION READ WRITE; DELETE FROM attempt",
        "DELETE FROM attempt RETURNING trial",
        "WITH gone AS (DELETE FROM attempt RETURNING trial) SELECT * FROM gone",
        "ATTACH 'other.db' AS other",
        "PRAGMA user_version = 7",
        "CREATE TABLE more (a integer)",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "BEGIN",
        "not sql at all",
        "",
    ],
)
def test_sql_that_does_more_than_select_is_refused_and_changes_nothing(engine, statement):
    before = sql(engine, "SELECT * FROM attempt ORDER BY trial, number")
    with pytest.raises(RequestError, match="--sql takes"):
        sql(engine, statement)
    after = sql(engine, "SELECT * FROM attempt ORDER BY trial, number")
    pd.testing.assert_frame_equal(before, after)
    assert len(after) == 5


def test_sql_cannot_make_the_connection_writable_for_the_next_one(store_url, engine):
    if store_url.startswith("postgresql"):
        statement = "SELECT set_config('default_transaction_read_only', 'off', false)"
    else:
        statement = "PRAGMA query_only = OFF"
    try:
        sql(engine, statement)
    except RequestError as error:
        assert "--sql takes" in str(error)  # noqa: PT017 - either answer is right
    for attempt in range(3):
        with pytest.raises(RequestError, match=r"read-only|readonly|cursor|syntax|SELECT"):
            sql(engine, f"DELETE FROM attempt WHERE number > {attempt}")
    assert sql(engine, "SELECT count(*) AS n FROM attempt")["n"].tolist() == [5]


def test_two_columns_of_one_name_are_refused(engine):
    with pytest.raises(RequestError, match="got a twice; rename one with AS"):
        sql(engine, "SELECT 1 AS a, 2 AS a")


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_files_hold_every_column_in_full_precision(complete, form):
    frame = query(complete, sort="trial")
    rendered = render(frame, form)
    if form == "csv":
        back = pd.read_csv(io.StringIO(rendered))
    elif form == "json":
        back = pd.DataFrame(json.loads(rendered))
    else:
        back = pd.read_parquet(io.BytesIO(rendered))
    assert back.columns.tolist() == RESULTS.c.keys()
    assert back["trial"].tolist() == frame["trial"].tolist()
    assert back["test_ndcg@10"].tolist() == frame["test_ndcg@10"].tolist()
    assert back["day"].tolist() == frame["day"].tolist()
    assert back["hidden"].tolist() == [8] * 10


def test_json_has_null_for_what_is_missing_and_text_for_infinity():
    frame = pd.DataFrame({"a": [math.nan, math.inf, 0.1], "b": pd.array([1, None, 3])})
    assert json.loads(render(frame, "json")) == [
        {"a": None, "b": 1},
        {"a": "inf", "b": None},
        {"a": 0.1, "b": 3},
    ]


def test_jsonl_is_a_row_a_line_and_latex_a_booktabs_table():
    frame = pd.DataFrame({"embeddings": ["Pos", "a_b"], "mean(test_ndcg@10)": [0.25, math.nan]})
    assert render(frame, "jsonl").splitlines() == [
        '{"embeddings": "Pos", "mean(test_ndcg@10)": 0.25}',
        '{"embeddings": "a_b", "mean(test_ndcg@10)": null}',
    ]
    assert render(frame, "latex").splitlines() == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"embeddings & mean(test\_ndcg@10) \\",
        r"\midrule",
        r"Pos & 0.2500 \\",
        r"a\_b &  \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_markdown_is_a_table_and_a_bar_in_a_value_is_escaped():
    frame = pd.DataFrame({"embeddings": ["Pos", "a|b"], "test_ndcg@10": [0.25, math.nan]})
    assert render(frame, "markdown") == (
        "| embeddings | test_ndcg@10 |\n| --- | --- |\n| Pos | 0.2500 |\n| a\\|b |  |\n"
    )


def test_a_table_says_once_what_all_rows_share_and_shows_what_varies(complete):
    rendered = render(query(complete, where="seed = 0", sort="test_ndcg@10", limit=2), "table")
    # The trials of seed 0 have validation NDCG@10 .10, .12, .14, .16, .18; test is half of it,
    # Recall@10 one and a half times NDCG@10.
    assert rendered.splitlines() == [
        "all rows: study=small, dataset=tiny, hidden=8, heads=2, dropout=0.2,",
        "weight_decay=0, seed=0, state=complete",
        "           validation_   test_     test_",
        "embeddings     ndcg@10 ndcg@10 recall@10 seconds",
        "Pos+Log         0.1800  0.0900    0.1350     2.5",
        "Pos             0.1600  0.0800    0.1200     2.5",
    ]


def test_a_table_fits_into_80_columns_and_names_what_it_left_out(complete):
    everything = query(complete, columns=[*RESULTS.c.keys()][:-1])
    for frame in (query(complete), everything):
        rendered = render(frame, "table")
        assert max(len(line) for line in rendered.splitlines()) <= 80
    assert "not shown: " in rendered
    assert "--columns" in rendered.replace("\n", " ")


def test_chosen_columns_are_all_shown(complete):
    rendered = render(query(complete, columns=["trial", "n_parameters", "lr"]), "table")
    assert "1234" in rendered
    assert "0.001" in rendered
    assert rendered.splitlines()[0].split() == ["n_"]
    assert rendered.splitlines()[1].split() == ["trial", "parameters", "lr"]


def test_an_empty_result_says_so(engine):
    assert render(query(engine, where="day"), "table") == "no rows\n"
    assert json.loads(render(query(engine, where="day"), "json")) == []
    assert render(query(engine, where="day", columns=["day"]), "csv") == "day\n"


def test_an_unknown_format_is_refused_with_the_known_ones():
    with pytest.raises(RequestError, match=r"format must be one of table, csv, .*, got 'xml'"):
        render(pd.DataFrame({"a": [1]}), "xml")
    assert len(TableFormat) == 7


@pytest.mark.parametrize("form", list(TableFormat))
def test_every_format_that_is_offered_is_rendered(form):
    assert len(render(pd.DataFrame({"a": [1, 2]}), form)) > 0


def test_a_column_of_several_types_is_refused_by_parquet_with_what_to_do(tmp_path):
    url = f"sqlite:///{tmp_path}/results.db"
    fill(url, tmp_path)
    engine = open_reader(url)
    frame = sql(engine, "SELECT 1 AS a, 2 AS b UNION ALL SELECT 'x', NULL")
    engine.dispose()
    with pytest.raises(
        RequestError,
        match=r"holds one type, got a with int and str; CAST it in the SQL, or use another",
    ):
        render(frame, "parquet")
    assert json.loads(render(frame, "json")) == [{"a": 1, "b": 2}, {"a": "x", "b": None}]
