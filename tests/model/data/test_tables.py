import csv
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.data.columns import Columns
from model.data.formats import Policy, read_file
from model.errors import RequestError

T = 881250949
SECONDS = Policy(time_unit="seconds")

ids = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\0\x1f"), min_size=1
).filter(str.strip)
ratings = st.floats(allow_nan=False, allow_infinity=False)
times = st.integers(0, 10**11 - 1)
tables = st.lists(st.tuples(ids, ids, times, ratings), min_size=1, max_size=20)
NAMES = ("user", "item", "timestamp", "rating")


def rows_of(interactions):
    columns = (interactions.users, interactions.items, interactions.timestamps)
    return list(zip(*(c.tolist() for c in (*columns, interactions.ratings)), strict=True))


def read(file, **columns):
    return rows_of(read_file(file, Columns(**columns), policy=SECONDS))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@given(rows=tables)
def test_any_rows_survive_a_round_trip_through_csv(folder, rows):
    with (folder / "a.csv").open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([NAMES, *rows])
    assert read(folder / "a.csv") == rows


@given(rows=tables)
def test_any_rows_survive_a_round_trip_through_tsv_without_a_header(folder, rows):
    lines = ["\t".join((user, item, f"{t}", repr(r))) for user, item, t, r in rows]
    (folder / "a.tsv").write_text("\n".join(lines), encoding="utf-8", newline="")
    by_number = {"user": "1", "item": "2", "time": "3", "rating": "4"}
    assert read(folder / "a.tsv", **by_number) == rows


@given(rows=tables.filter(lambda rows: not any(":" in row[0] + row[1] for row in rows)))
def test_any_rows_survive_a_round_trip_through_colons(folder, rows):
    lines = [f"{user}::{item}::{r!r}::{t}" for user, item, t, r in rows]
    (folder / "a.dat").write_text("\n".join(lines), encoding="utf-8", newline="")
    assert read(folder / "a.dat") == rows


@given(rows=tables, ascii_only=st.booleans())
def test_any_rows_survive_a_round_trip_through_json_lines(folder, rows, ascii_only):
    lines = [
        json.dumps(dict(zip(NAMES, row, strict=True)), ensure_ascii=ascii_only) for row in rows
    ]
    (folder / "a.jsonl").write_text("\n".join(lines), encoding="utf-8", newline="")
    assert read(folder / "a.jsonl") == rows


@given(rows=tables)
def test_any_rows_survive_a_round_trip_through_parquet(folder, rows):
    columns = dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), folder / "a.parquet", row_group_size=3)
    assert read(folder / "a.parquet") == rows


@pytest.mark.parametrize(
    ("users", "stored"),
    [
        (pa.array([7, 8], pa.int64()), ["7", "8"]),
        (pa.array([7, 8], pa.uint16()), ["7", "8"]),
        (pa.array(["é", "名"], pa.large_string()), ["é", "名"]),
        (pa.array(["b", "b"]).dictionary_encode(), ["b", "b"]),
        (pa.array([7.0, 8.0]), ["7", "8"]),
    ],
    ids=["int64", "uint16", "large text", "categories", "whole floats"],
)
def test_ids_of_every_type_of_parquet_become_text(folder, users, stored):
    table = pa.table({"user": users, "item": ["a", "b"], "timestamp": [T, T]})
    pq.write_table(table, folder / "a.parquet")
    assert read_file(folder / "a.parquet", Columns()).users.tolist() == stored


def test_a_frame_of_pandas_is_read_with_its_dates(folder):
    when = pd.to_datetime(["1997-12-04 15:55:49", "1997-12-04 15:55:50"], utc=True)
    frame = pd.DataFrame(
        {"u": ["a", "b"], "i": [1, 2], "when": when, "stars": np.float32([4, 3.5])}
    )
    frame.to_parquet(folder / "a.parquet")
    columns = Columns(user="u", item="i", time="when", rating="stars")
    expected = [("a", "1", T, 4.0), ("b", "2", T + 1, 3.5)]
    assert rows_of(read_file(folder / "a.parquet", columns)) == expected


def test_faulty_rows_of_parquet_are_counted_from_one(folder):
    columns = {"user": ["u", None, "u", "u"], "item": ["a"] * 4, "timestamp": [T, T, None, -3]}
    pq.write_table(pa.table(columns), folder / "a.parquet")
    with pytest.raises(RequestError) as error:
        read_file(folder / "a.parquet", Columns())
    assert str(error.value).splitlines() == [
        "every row must hold a user, an item and a time, got 3 faulty of 4 in a.parquet "
        "(user 1, time 2); correct or remove them",
        "  row 2: user must not be empty",
        "  row 3: time must be whole seconds since 1970, got nothing",
        "  row 4: time must not be negative, got '-3'",
    ]


def test_an_empty_parquet_file_holds_no_interactions(folder):
    table = pa.table({name: pa.array([], pa.int64()) for name in NAMES})
    pq.write_table(table, folder / "a.parquet")
    with pytest.raises(RequestError, match=r"must hold interactions, got none in a\.parquet"):
        read_file(folder / "a.parquet", Columns())


@pytest.mark.parametrize(
    ("role", "values", "message"),
    [
        ("user", [[1]], "the user column must be text or whole numbers, got list<.*> in a.parquet"),
        ("timestamp", [b"x"], "the time column must be text or whole numbers, got binary"),
        ("rating", [True], "the rating column must be a number, got bool"),
    ],
)
def test_columns_of_another_type_are_refused(folder, role, values, message):
    columns = {"user": ["u"], "item": ["a"], "timestamp": [T], "rating": [1.0], role: values}
    pq.write_table(pa.table(columns), folder / "a.parquet")
    with pytest.raises(RequestError, match=message):
        read_file(folder / "a.parquet", Columns())
