"""The filter language means what it says, for every row, and points at mistakes."""

import operator
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Float,
    Integer,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    select,
)
from sqlalchemy.pool import StaticPool

from analysis.expression import condition
from analysis.frames import open_reader
from analysis.query import query
from model.errors import RequestError
from study.column_types import Real, Utc
from study.views import RESULTS
from tests.stored import fill

TABLE = Table(
    "t",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("embeddings", Text),
    Column("state", Text),
    Column("day", Boolean),
    Column("con", Boolean),
    Column("hidden", Integer),
    Column("tau", Float),
    Column("test_ndcg@10", Real),
    Column("finished_at", Utc),
)
ROWS = [
    {
        "id": number,
        "embeddings": ["none", "Day", "Pos+Log"][number % 3],
        "state": ["complete", "pending"][number % 2],
        "day": number % 3 == 1,
        "con": number % 4 == 0,
        "hidden": [16, 32, 64][number % 3],
        "tau": [None, 1.0, 60.0][number // 2 % 3],
        "test_ndcg@10": None if number % 2 else number / 100,
        "finished_at": None if number % 2 else datetime(2026, 3, 1 + number, tzinfo=UTC),
    }
    for number in range(12)
]


@pytest.fixture(scope="module")
def connection():
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with engine.begin() as connection:
        TABLE.metadata.create_all(connection)
        connection.execute(TABLE.insert(), ROWS)
        yield connection
    engine.dispose()


def matching(connection, expression):
    where = condition(expression, dict(TABLE.c.items()))
    return [row.id for row in connection.execute(select(TABLE.c.id).where(where).order_by("id"))]


@pytest.mark.parametrize(
    ("expression", "means"),
    [
        ("day", lambda r: r["day"]),
        ("day and not con", lambda r: r["day"] and not r["con"]),
        ("hidden >= 32 or con", lambda r: r["hidden"] >= 32 or r["con"]),
        ("con or day and hidden = 64", lambda r: r["con"]),
        ("(con or day) and hidden = 32", lambda r: r["day"]),
        ("not (con or day)", lambda r: not (r["con"] or r["day"])),
        ("not not con", lambda r: r["con"]),
        ("NOT day AND con", lambda r: not r["day"] and r["con"]),
        ("hidden in (16, 64)", lambda r: r["hidden"] in (16, 64)),
        ("hidden not in (16, 64)", lambda r: r["hidden"] == 32),
        ("hidden == 16", lambda r: r["hidden"] == 16),
        ("hidden != 16", lambda r: r["hidden"] != 16),
        ("hidden <> 16", lambda r: r["hidden"] != 16),
        ("16 < hidden", lambda r: r["hidden"] > 16),
        ("hidden < 31.5", lambda r: r["hidden"] == 16),
        ("day = true and con = false", lambda r: r["day"] and not r["con"]),
        ("state = 'complete'", lambda r: r["state"] == "complete"),
        ('state = "complete"', lambda r: r["state"] == "complete"),
        ("state in ('pending')", lambda r: r["state"] == "pending"),
        ("embeddings = 'Pos+Log'", lambda r: r["embeddings"] == "Pos+Log"),
        ("embeddings = 'log+pos'", lambda r: r["embeddings"] == "Pos+Log"),
        ("embeddings in ('None', 'Day')", lambda r: r["embeddings"] != "Pos+Log"),
        ("test_ndcg@10>=4e-2", lambda r: (r["test_ndcg@10"] or 0) >= 0.04),
        ("test_ndcg@10 > -.5", lambda r: r["test_ndcg@10"] is not None),
        ("tau = 1", lambda r: r["tau"] == 1),
        ("tau != 1", lambda r: r["tau"] != 1),
        ("not tau = 1", lambda r: r["tau"] != 1),
        ("tau is null", lambda r: r["tau"] is None),
        ("tau IS NOT NULL and day", lambda r: r["tau"] is not None and r["day"]),
        ("not finished_at is null", lambda r: r["finished_at"] is not None),
        ("tau < hidden", lambda r: r["tau"] is not None and r["tau"] < r["hidden"]),
        ("finished_at >= '2026-03-05'", lambda r: r["finished_at"] and r["id"] >= 4),
        (
            "finished_at < '2026-03-05T01:00+02:00'",
            lambda r: r["finished_at"] and r["id"] < 4,
        ),
        ("hidden = 99999999999999999999", lambda _: False),
        ("\tday\nand con ", lambda r: r["day"] and r["con"]),
    ],
)
def test_an_expression_selects_the_rows_it_describes(connection, expression, means):
    assert matching(connection, expression) == [row["id"] for row in ROWS if means(row)]


NUMBERS = st.sampled_from(["hidden", "tau", "test_ndcg@10"])
SIGNS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, ">=": operator.ge}


def compared(name, sign, value):
    def means(row):
        if row[name] is None:
            return sign == "!="
        return SIGNS[sign](row[name], value)

    return f"{name} {sign} {value!r}", means


LEAVES = st.builds(
    compared, NUMBERS, st.sampled_from(sorted(SIGNS)), st.sampled_from([0.04, 1, 16, 32, 60.0])
) | st.sampled_from([(name, operator.itemgetter(name)) for name in ("day", "con")])


def negated(inner):
    return f"not ({inner[0]})", lambda row: not inner[1](row)


def joined(left, word, right):
    (one, first), (two, second) = left, right
    if word == "and":
        return f"({one}) and ({two})", lambda row: first(row) and second(row)
    return f"({one}) or ({two})", lambda row: first(row) or second(row)


EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(negated, inner) | st.builds(joined, inner, st.sampled_from(["and", "or"]), inner)
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
@settings(max_examples=60, deadline=None)
def test_every_expression_is_true_or_false_for_every_row(connection, pair):
    expression, means = pair
    selected = [row["id"] for row in ROWS if means(row)]
    assert matching(connection, expression) == selected
    others = [row["id"] for row in ROWS if not means(row)]
    assert matching(connection, f"not ({expression})") == others


MISTAKES = [
    ("hiden = 8", 0, "no column hiden; did you mean hidden?"),
    ("day and hiden = 8", 8, "no column hiden"),
    ("state = complete", 8, "no column complete; text stands in quotes: 'complete'"),
    ("state = 'done'", 8, "state is one of pending, running, complete"),
    ("embeddings = 'Day+Poss'", 13, "no embedding 'poss'"),
    ("hidden = '8'", 9, "hidden is compared with a number"),
    ("hidden = true", 9, "hidden is compared with a number"),
    ("day = 1", 6, "day is compared with true or false"),
    ("state = 1", 8, "state is compared with text in quotes"),
    ("state < 'complete'", 6, "a text is compared with =, != or in"),
    ("day >= true", 4, "a flag is compared with =, != or in"),
    ("finished_at > 'soon'", 14, "expected a date or time such as '2026-11-30'"),
    ("hidden", 0, "hidden is a number: compare it with a value"),
    ("8 = 8", 0, "one side of a comparison must be a column"),
    ("8", 0, "expected a comparison with a column after this value"),
    ("state = hidden", 8, "state is a text and hidden a number"),
    ("", 0, "expected a column"),
    ("day and", 7, "expected a column"),
    ("and day", 0, "expected a column"),
    ("day con", 4, "expected `and` or `or` here"),
    ("(day", 4, "expected ) here"),
    ("day)", 3, "expected `and` or `or` here"),
    ("hidden in 8", 10, "expected ( here"),
    ("hidden in ()", 11, "expected a column, a number"),
    ("hidden in (8, 16", 16, "expected ) here"),
    ("hidden not 8", 11, "expected `in` after `not`"),
    ("tau is 8", 7, "expected `null` or `not null` after `is`"),
    ("tau is not", 10, "expected `null` or `not null` after `is`"),
    ("8 is null", 0, "only a column can be null"),
    ("tau = null", 6, "expected a column, a number or text in quotes"),
    ("hidden = 8; drop table t", 10, "no such sign: ;"),
    ("state = 'done", 8, "this quote is not closed"),
    ("(" * 60 + "day" + ")" * 60, 50, "parentheses may be nested 50 deep"),
]


@pytest.mark.parametrize(("expression", "place", "message"), MISTAKES)
def test_a_mistake_is_named_with_a_mark_under_its_place(expression, place, message):
    with pytest.raises(RequestError) as refused:
        condition(expression, dict(TABLE.c.items()))
    said, shown, mark = str(refused.value).split("\n")
    assert message in said
    assert shown == f"  {expression}"
    assert mark == "  " + " " * place + "^"


@given(st.text(alphabet="dayhiden()=<>!'\"1.e-+ ,@_ ", max_size=30))
@settings(max_examples=200, deadline=None)
def test_any_text_is_an_expression_or_refused(text):
    with suppress(RequestError):
        assert isinstance(condition(text, dict(TABLE.c.items())), ColumnElement)


def test_text_is_bound_and_never_part_of_the_statement():
    found = condition("state = 'complete'", dict(TABLE.c.items()))
    assert "complete" not in str(found)


def test_a_trial_is_found_by_its_key_however_many_epochs_there_are(tmp_path):
    what = fill(f"sqlite:///{tmp_path}/results.db", tmp_path)
    trial = next(iter(what.trials))
    statements = []
    engine = open_reader(f"sqlite:///{tmp_path}/results.db")
    event.listen(engine, "before_cursor_execute", lambda *a: statements.append(a[2:4]))
    assert len(query(engine, source="curves", where=f"trial = '{trial}'")) == 2
    [(statement, values)] = [each for each in statements if each[0].startswith("SELECT")]
    with engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()
    engine.dispose()
    assert not [row for row in plan if row[3].startswith("SCAN")]


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("pos and not log", 4),
        ("tau != 1", 8),
        ("embeddings = 'pos+log' and seed in (0, 1)", 2),
        ("state = 'complete' and test_ndcg@10 < validation_ndcg@10", 2),
        ("hidden = 8.5", 0),
        ("finished_at > '2026-02-28'", 3),
        ("failure = 'diverged'", 1),
    ],
)
def test_both_databases_understand_a_filter(store_url, tmp_path, expression, count):
    fill(store_url, tmp_path)
    engine = open_reader(store_url)
    assert len(query(engine, where=expression)) == count
    engine.dispose()


def test_every_column_of_the_results_can_be_named():
    forms = {Boolean: "", Utc: " > '2026-01-01'", Text: None}
    for name, column in RESULTS.c.items():
        form = next((f for kind, f in forms.items() if isinstance(column.type, kind)), " > 0")
        if form is None:
            words = {"embeddings": "none", "state": "failed", "failure": "oom"}
            form = f" = '{words.get(name, 'x')}'"
        assert condition(name + form, dict(RESULTS.c.items())) is not None
