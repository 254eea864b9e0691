"""Aggregates are what they say on either database, and `best` never chooses by test."""

import math
from dataclasses import replace

import pytest
from sqlalchemy import event, text

from analysis.frames import open_reader
from analysis.query import pivot, query
from model.errors import RequestError
from model.results import MetricValue
from study.engine import writing
from tests.stored import ENVIRONMENT, fill, opened, planned, prepared, report, result

VALIDATION = (0.1, 0.2, 0.4, 0.3, 0.5, 0.6, 0.9, 0.7, 0.8, 0.2)
TEST = (0.3, 0.1, 0.2, 0.2, 0.9, 0.1, 0.4, 0.4, 0.6, 0.2)
"""Of the trials of `small` in the order of the plan: none x 4, Pos x 4, Pos+Log x 2."""


def measured(validation, test):
    """A result with these NDCG@10 under `popular-100`."""
    kept = [m for m in result(0.1).metrics if m.metric != "ndcg@10"]
    values = (("validation", validation), ("test", test))
    added = [MetricValue(split, "popular-100", "ndcg@10", value) for split, value in values]
    return replace(result(0.1), metrics=(*kept, *added))


@pytest.fixture
def engine(store_url, tmp_path):
    what = planned("small", tmp_path)
    data, config = prepared(what, tmp_path)
    with opened(store_url) as store, store.together():
        store.record_dataset(data, config)
        store.record_plan(what)
        for trial, validation, test in zip(what.trials, VALIDATION, TEST, strict=True):
            attempt = store.begin_attempt(trial, ENVIRONMENT)
            store.record_epochs([(trial, attempt, report(1, ndcg=validation))])
            given = measured(validation, test)
            store.complete(trial, attempt, given, fingerprint=data.fingerprint)
    engine = open_reader(store_url)
    yield engine
    engine.dispose()


def rows(frame):
    return [tuple(row) for row in frame.itertuples(index=False)]


def test_mean_spread_and_ends_are_those_of_a_sample(engine):
    found = query(
        engine,
        group_by="embeddings",
        columns="embeddings, n, mean(test_ndcg@10), std(test_ndcg@10), sem(test_ndcg@10), "
        "min(test_ndcg@10), max(test_ndcg@10)",
    )
    assert found["embeddings"].tolist() == ["none", "Pos", "Pos+Log"]
    assert found["n"].tolist() == [4, 4, 2]
    none, pos, both = rows(found)
    # .3 .1 .2 .2: deviations .1 -.1 0 0, squares .02, over n - 1 = 3
    assert none[2:] == pytest.approx((0.2, math.sqrt(0.02 / 3), math.sqrt(0.02 / 12), 0.1, 0.3))
    # .9 .1 .4 .4: deviations .45 -.35 -.05 -.05, squares .33
    assert pos[2:] == pytest.approx((0.45, math.sqrt(0.33 / 3), math.sqrt(0.33 / 12), 0.1, 0.9))
    # .6 .2: deviations .2 -.2, squares .08, over 1
    assert both[2:] == pytest.approx((0.4, math.sqrt(0.08), math.sqrt(0.04), 0.2, 0.6))


def test_best_is_read_where_validation_is_highest_whatever_test_says(engine):
    found = query(
        engine,
        group_by="embeddings",
        columns="embeddings,best(test_ndcg@10),best(validation_ndcg@10),best(heads),best(pos),"
        "max(test_ndcg@10)",
    )
    assert rows(found) == [
        ("none", 0.2, 0.4, 2, False, 0.3),
        ("Pos", 0.4, 0.9, 2, True, 0.9),
        ("Pos+Log", 0.6, 0.8, 2, True, 0.6),
    ]


def test_the_best_subset_of_each_data_set_is_one_query(engine):
    columns = "dataset,best(embeddings),best(validation_ndcg@10),best(test_ndcg@10)"
    found = query(engine, group_by="dataset", columns=columns)
    assert rows(found) == [("tiny", "Pos", 0.9, 0.4)]


def test_a_row_of_aggregates_says_what_it_is_over_though_other_columns_are_asked_for(engine):
    found = query(engine, group_by="embeddings, heads", columns="n, heads")
    assert found.columns.tolist() == ["embeddings", "n", "heads"]


def test_spread_of_one_value_is_missing(engine):
    found = query(
        engine,
        where="embeddings = 'Pos+Log' and seed = 0",
        columns="n, std(test_ndcg@10), sem(test_ndcg@10)",
    )
    assert found["n"].tolist() == [1]
    assert found.iloc[0, 1:].isna().all()


def test_flags_text_and_times_are_counted_and_ordered(engine):
    found = query(
        engine,
        columns="n, n(tau), mean(pos), max(embeddings), min(log), max(finished_at)",
    )
    row = found.iloc[0]
    assert row["n"] == 10
    assert row["n(tau)"] == 2  # of Pos+Log alone
    assert row["mean(pos)"] == pytest.approx(0.6)
    assert row["max(embeddings)"] in {"none", "Pos+Log"}  # as the database sorts text
    assert row["min(log)"] == False  # noqa: E712 - numpy's
    assert str(found["max(finished_at)"].dtype) == "datetime64[us, UTC]"


def test_groups_are_sorted_by_a_term_best_first_and_limited(engine):
    terms = {"group_by": "embeddings", "columns": "embeddings"}
    assert query(engine, sort="mean(test_ndcg@10)", **terms)["embeddings"].tolist() == [
        "Pos",
        "Pos+Log",
        "none",
    ]
    assert query(engine, sort="-mean(test_ndcg@10)", limit=1, **terms)["embeddings"].tolist() == [
        "none"
    ]
    assert query(engine, sort="-n", **terms)["embeddings"].tolist() == ["none", "Pos", "Pos+Log"]
    assert query(engine, sort="std(test_ndcg@10)", **terms)["embeddings"].tolist() == [
        "none",
        "Pos+Log",
        "Pos",
    ]


def test_groups_without_columns_show_validation_and_test(engine):
    found = query(engine, group_by=["embeddings", "heads"])
    assert found.columns.tolist() == [
        *("embeddings", "heads", "n(test_ndcg@10)", "mean(validation_ndcg@10)"),
        *("mean(test_ndcg@10)", "sem(test_ndcg@10)"),
    ]
    assert len(found) == 5
    assert found.attrs["over"] == ["seed"]


def test_what_differs_within_a_row_is_said(engine):
    assert query(engine, group_by="embeddings").attrs["over"] == ["heads", "seed"]
    over_all = query(engine, columns="mean(test_ndcg@10)").attrs["over"]
    # tau and the like have one value, or are not read at all.
    assert over_all == ["embeddings", "heads", "seed"]


def test_a_pivot_has_a_column_for_each_value_and_gaps_where_nothing_was_trained(engine):
    found = pivot(engine, row="embeddings", column="heads", value="test_ndcg@10")
    assert found.columns.tolist() == ["embeddings", "heads=1", "heads=2"]
    assert found["embeddings"].tolist() == ["none", "Pos", "Pos+Log"]
    assert found["heads=1"].tolist()[:2] == pytest.approx([0.2, 0.5])
    assert math.isnan(found["heads=1"].iloc[2])
    assert found["heads=2"].tolist() == pytest.approx([0.2, 0.4, 0.4])
    counted = pivot(engine, row="seed", column="embeddings", value="n")
    assert counted.columns.tolist() == [
        *("seed", "embeddings=none", "embeddings=Pos", "embeddings=Pos+Log"),
    ]
    assert counted.iloc[:, 1:].to_numpy().tolist() == [[2, 2, 1], [2, 2, 1]]


def test_only_complete_trials_enter_an_average(store_url, tmp_path):
    fill(store_url, tmp_path)
    engine = open_reader(store_url)
    found = query(engine, columns="n, n(test_ndcg@10), mean(validation_ndcg@10)")
    assert rows(found) == [(10, 2, pytest.approx(0.3))]
    by_state = query(engine, group_by="state", columns="state, n")
    assert dict(rows(by_state)) == {"complete": 2, "failed": 1, "pending": 6, "running": 1}
    failures = query(engine, where="failure is not null", group_by="failure", columns="failure,n")
    assert rows(failures) == [("diverged", 1)]
    engine.dispose()


def test_a_trial_that_studies_share_counts_once_unless_studies_are_asked_for(
    engine, store_url, tmp_path
):
    with opened(store_url) as store:
        store.record_plan(planned("shares", tmp_path))
    assert query(engine, columns="n")["n"].tolist() == [11]
    by_study = query(engine, group_by="study", columns="study,n")
    assert rows(by_study) == [("shares", 2), ("small", 10)]
    assert query(engine, study="shares", columns="n")["n"].tolist() == [2]
    assert query(engine, where="study is not null", columns="n")["n"].tolist() == [12]


def test_trials_that_only_screen_stay_out_unless_the_stage_is_named(engine, store_url):
    writer = writing(store_url)
    with writer.begin() as connection:
        connection.execute(text("UPDATE cell SET stage = 'screen' WHERE embeddings = 'none'"))
    writer.dispose()
    assert query(engine, columns="n")["n"].tolist() == [6]
    assert query(engine, study="small", columns="n")["n"].tolist() == [6]
    by_stage = query(engine, group_by="stage", columns="stage,n")
    assert rows(by_stage) == [("final", 6), ("screen", 4)]


def test_metrics_of_different_protocols_never_share_an_average(engine, store_url):
    writer = writing(store_url)
    with writer.begin() as connection:
        connection.execute(text("UPDATE trial SET protocol = 'uniform-100' WHERE seed = 1"))
    writer.dispose()
    with pytest.raises(RequestError, match=r"got mean\(validation_ndcg@10\) over several; add"):
        query(engine, group_by="embeddings")
    apart = query(engine, group_by="protocol", columns="protocol,n,mean(validation_ndcg@10)")
    assert apart["n"].tolist() == [5, 5]
    one = query(engine, group_by="embeddings", where="protocol = 'popular-100'")
    assert one["n(test_ndcg@10)"].tolist() == [2, 2, 1]
    assert query(engine, columns="n, n(test_ndcg@10), mean(test_full_ndcg@5)")["n"].tolist() == [10]


def test_curves_are_grouped_by_epoch(engine):
    found = query(
        engine,
        source="curves",
        study="small",
        group_by="epoch",
        columns="epoch, n, mean(validation_ndcg@10), mean(train_loss)",
    )
    assert rows(found) == [(1, 10, pytest.approx(0.47), 1.5)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"columns": "n, mena(tau)"},
            r"no aggregate mena; did you mean mean\?\n  n, mena\(tau\)\n     \^",
        ),
        (
            {"columns": "mean(hiden)"},
            r"no column 'hiden'; did you mean hidden\?\n  mean\(hiden\)\n       \^",
        ),
        ({"columns": "mean(tau"}, r"expected a column, or an aggregate .*\n  mean\(tau\n  \^"),
        ({"columns": "mean(embeddings)"}, r"mean takes a number, got mean\(embeddings\)"),
        ({"columns": "std(finished_at)"}, "std takes a number"),
        ({"columns": "heads, n"}, r"a group has many values of heads; add it to --group-by"),
        ({"columns": "n", "sort": "heads"}, "a group has many values of heads"),
        ({"group_by": "mean(tau)"}, r"groups are made of columns, got mean\(tau\)"),
        ({"group_by": "hidden,,seed"}, r"expected a column.*\n  hidden,,seed\n         \^"),
    ],
)
def test_a_mistake_points_at_its_place(engine, options, message):
    with pytest.raises(RequestError, match=message):
        query(engine, **options)


def test_a_pivot_of_a_column_by_itself_is_refused(engine):
    with pytest.raises(RequestError, match="must differ, got heads twice"):
        pivot(engine, row="heads", column="heads", value="n")


def test_groups_are_made_by_the_database_in_a_constant_number_of_statements(engine):
    statements = []
    event.listen(engine, "before_cursor_execute", lambda *a: statements.append(a[2]))
    query(engine, study="small", group_by="embeddings")
    selects = [statement for statement in statements if statement.startswith("SELECT")]
    assert len(selects) == 3  # the study, the groups, what differs within them
