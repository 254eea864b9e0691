"""Frames say what the store holds: typed, complete, in a constant number of statements."""

import math

import pandas as pd
import pytest
from sqlalchemy import Engine, event, text

from analysis import frames
from analysis.coverage import CLASSES, coverage, left_behind, left_behind_note
from analysis.material import read_material
from analysis.query import pivot, query
from analysis.status import status
from model.errors import RequestError
from study.engine import writing
from study.views import RESULTS
from tests.stored import (
    ENVIRONMENT,
    STUDIES,
    fill,
    opened,
    planned,
    prepared,
    report,
    result,
)


@pytest.fixture
def plan(store_url, tmp_path):
    return fill(store_url, tmp_path)


@pytest.fixture
def engine(store_url, plan):
    assert len(plan.cells) == 18
    engine = frames.open_reader(store_url)
    yield engine
    engine.dispose()


def test_coverage_adds_up_to_the_declared_product(engine):
    found = coverage(engine, "small")
    assert found.as_dict() == {
        "study": "small",
        "declared": 18,
        "complete": 2,
        "running": 1,
        "pending": 6,
        "failed": 1,
        "infeasible": 4,
        "duplicate": 4,
        "censored": 0,
    }
    assert dict(found.failures) == {"diverged": 1}
    assert found.missing == 1 + 6 + 1
    assert sum(found.counts.values()) == found.declared


def test_what_reads_running_without_a_launch_was_left_behind(engine, store_url):
    assert left_behind(engine, store_url) == 1
    with opened(store_url) as store, store.claim():
        assert left_behind(engine, store_url) == 0
        store.mark_lost()
    assert left_behind(engine, store_url) == 0  # now it reads `pending`
    assert left_behind_note(1).startswith("1 trial reads `running`, and no launch is alive")
    assert left_behind_note(2).startswith("2 trials read `running`")


def test_a_store_that_lost_cells_is_not_covered(engine, store_url):
    writer = writing(store_url)
    with writer.begin() as connection:
        connection.execute(text("DELETE FROM cell WHERE number = 3"))
    writer.dispose()
    with pytest.raises(RequestError, match=r"declares 18 cells, and the store has 17; launch"):
        coverage(engine, "small")


def test_studies_are_listed_with_their_counts(engine):
    found = frames.studies(engine)
    assert found["study"].tolist() == ["small"]
    counts = found.loc[0, list(CLASSES)].to_dict()
    assert counts == dict(coverage(engine, "small").counts)
    assert found["declared"].tolist() == [18]


def test_cells_are_the_declared_product_with_a_class_and_a_reason(engine, plan):
    found = frames.cells(engine, "small")
    assert found.columns.tolist() == [
        *("number", "dataset", "model", "embeddings", "hidden", "heads", "dropout"),
        *("weight_decay", "seed", "class", "reason", "trial"),
    ]
    assert found["number"].tolist() == list(range(18))
    assert found["embeddings"].unique().tolist() == ["none", "Pos", "Pos+Log"]
    assert found["heads"].unique().tolist() == ["1", "2", "per-embedding"]
    assert found["trial"].nunique() == 10
    reasons = found.set_index("number")["reason"]
    for cell in plan.cells:
        if cell.state != "feasible":
            assert reasons[cell.index] == cell.reason
    failed = found[found["class"] == "failed"]
    assert failed["reason"].tolist() == ["diverged: loss is NaN"]
    assert found[found["class"] == "pending"]["reason"].isna().all()


def test_cells_have_a_column_for_each_other_factor_that_varies(store_url, tmp_path, engine):
    wider = STUDIES.replace("hidden: 8, heads: 1}", "heads: 1, max_len: [10, 20], tau: [1, 60]}")
    with opened(store_url) as store:
        store.record_plan(planned("shares", tmp_path, text=wider))
    found = frames.cells(engine, "shares")
    assert found["max_len"].dtype == "Int64"
    assert set(found["max_len"]) == {10, 20}
    assert set(found["tau"]) == {1, 60}


def test_learning_curves_are_read_of_each_subset_s_best_point_alone(store_url, tmp_path):
    text = STUDIES.replace("[[pos], [day]]", "[none, [pos]]").replace(
        "hidden: 8, heads: 1}\n    seeds: [0]",
        "hidden: [8, 16], heads: 1}\n    seeds: [0, 1]",
    )
    what = planned("shares", tmp_path, text=text)
    data, config = prepared(what, tmp_path)
    reached = {("none", 8): (0.1, 0.5), ("none", 16): (0.4, 0.4), ("Pos", 8): (0.2, 0.2)}
    with opened(store_url) as store:
        store.record_dataset(data, config)
        store.record_plan(what)
        for trial in what.trials.values():
            hidden = trial.factors["hidden"]
            value = reached.get((trial.label, hidden), (0.2, 0.2))[trial.seed]
            attempt = store.begin_attempt(trial.id, ENVIRONMENT)
            for epoch in (1, 2):
                store.record_epoch(trial.id, attempt, report(epoch, loss=epoch, ndcg=value / epoch))
            store.complete(trial.id, attempt, result(value), fingerprint=data.fingerprint)
    engine = frames.open_reader(store_url)
    found = frames.training_curves(engine, "shares")
    engine.dispose()
    read = [what.trials[trial] for trial in found["trial"].unique()]
    # Seeds' means: none at 16 has .4 and at 8 .3; Pos is level at both, and so both are read.
    assert {(t.label, t.factors["hidden"]) for t in read} == {("none", 16), ("Pos", 8), ("Pos", 16)}
    assert {t.seed for t in read} == {0, 1}
    assert len(read) == 2 * 3
    own = found[found["trial"] == read[0].id]
    assert own[["epoch", "metric", "value"]].to_numpy().tolist() == [
        *([1, "loss", 1.0], [1, "ndcg@10", 0.4], [2, "loss", 2.0], [2, "ndcg@10", 0.2])
    ]


def test_results_have_the_view_s_columns_and_no_metric_without_a_result(engine):
    found = frames.results(engine, "small")
    assert found.columns.tolist() == RESULTS.c.keys()
    assert len(found) == 10
    complete = found[found["state"] == "complete"]
    assert sorted(complete["validation_ndcg@10"]) == [0.2, 0.4]
    assert sorted(complete["test_ndcg@10"]) == [0.1, 0.2]
    assert found[found["state"] != "complete"]["test_ndcg@10"].isna().all()
    assert found[found["state"] == "failed"]["failure"].tolist() == ["diverged"]
    assert found[found["state"] == "pending"]["failure"].isna().all()


TYPES = {
    "trial": "str",
    "study": "str",
    "day": "bool",
    "hidden": "Int64",
    "tau": "float64",
    "target_time": "str",
    "seed": "Int64",
    "best_epoch": "Int64",
    "test_ndcg@10": "float64",
    "seconds": "float64",
    "finished_at": "datetime64[us, UTC]",
}


def test_columns_have_the_same_types_with_rows_and_without(engine, store_url, tmp_path):
    nothing = planned(
        "shares",
        tmp_path,
        text=STUDIES.replace("[[pos], [day]]", "[none]").replace(
            "hidden: 8, heads: 1}", "hidden: 8, heads: per-embedding}"
        ),
    )
    with opened(store_url) as store:
        store.record_plan(nothing)
    empty, full = frames.results(engine, "shares"), frames.results(engine, "small")
    assert (len(empty), len(full)) == (0, 10)
    for frame in (empty, full):
        assert {name: str(frame[name].dtype) for name in TYPES} == TYPES
    assert len(frames.curves(engine, "shares")) == 0
    assert len(frames.ranks(engine, "shares")) == 0
    assert frames.ranks(engine, "shares").columns.tolist() == ["trial", "user", "greater", "equal"]


def test_curves_keep_nan_and_the_test_split_appears_at_the_best_epoch_alone(engine, plan):
    found = frames.curves(engine, "small")
    first, _, third = list(plan.trials)[:3]
    validation = found[
        (found["trial"] == first)
        & (found["split"] == "validation")
        & (found["protocol"] == "popular-100")
        & (found["metric"] == "ndcg@10")
    ]
    assert dict(zip(validation["epoch"], validation["value"], strict=True)) == {1: 0.2, 2: 0.4}
    assert found[found["split"] == "test"]["epoch"].unique().tolist() == [2]
    loss = found[(found["trial"] == third) & (found["metric"] == "loss")]["value"]
    assert [math.isnan(value) for value in loss] == [True]


def test_ranks_are_a_row_for_each_user_of_a_complete_trial(engine, plan):
    found = frames.ranks(engine, "small", split="test", protocol="full")
    first, second = list(plan.trials)[:2]
    assert found["trial"].tolist() == [first] * 3 + [second] * 3
    assert found["user"].tolist() == [0, 1, 2] * 2
    assert found["greater"].tolist() == [0, 1, 2] * 2
    assert found["equal"].tolist() == [7] * 6


def test_attempts_tell_how_each_ended_and_where_it_trained(engine):
    found = frames.attempts(engine, "small")
    assert found["state"].tolist() == ["complete", "complete", "failed", "failed", "running"]
    assert found["failure"].dropna().tolist() == ["diverged", "lost"]
    assert found["traceback"].dropna().tolist() == ["Trace.."]
    assert found["cpu"].dropna().tolist() == ["a processor"] * 4
    seconds = (found["ended_at"] - found["started_at"]).dt.total_seconds()
    assert (seconds.dropna() == 1).all()
    assert len(frames.attempts(engine)) == 5


def test_datasets_are_listed_with_their_preparation(engine):
    found = frames.datasets(engine)
    assert found["name"].tolist() == ["tiny"]
    assert found["n_users"].tolist() == [20]
    assert "synthetic" in found["preparation"].iloc[0]


@pytest.mark.parametrize(
    "frame", [coverage, frames.cells, frames.results, frames.curves, frames.attempts]
)
def test_an_unknown_study_is_named_with_the_nearest_one(engine, frame):
    with pytest.raises(RequestError, match=r"no study 'smal'; did you mean small\?"):
        frame(engine, "smal")


def statements_of(url, ask):
    """How many SELECTs a question takes, whichever engine it opens."""
    statements = []

    def count(*seen):
        statements.append(seen[2])

    event.listen(Engine, "before_cursor_execute", count)
    try:
        ask(url)
    finally:
        event.remove(Engine, "before_cursor_execute", count)
    return sum(each.startswith("SELECT") for each in statements)


def on_an_engine(ask):
    def asked(url):
        engine = frames.open_reader(url)
        ask(engine)
        engine.dispose()

    return asked


def test_what_is_read_takes_a_constant_number_of_statements(tmp_path):
    """Exporting one query per trial took minutes elsewhere."""
    frames_of_a_study = (frames.cells, frames.results, frames.attempts, frames.curves, frames.ranks)
    questions = {
        "frames": on_an_engine(
            lambda engine: [each(engine, "small") for each in frames_of_a_study]
        ),
        "report": lambda url: read_material(url, "small"),
        "status": on_an_engine(lambda engine: status(engine, "small")),
        "groups": on_an_engine(lambda engine: query(engine, group_by="embeddings")),
        "pivot": on_an_engine(lambda e: pivot(e, row="embeddings", column="seed", value="n")),
    }
    counts, sizes = [], []
    for subsets in ("[none, [pos]]", "all-subsets"):
        folder = tmp_path / str(len(counts))
        folder.mkdir()
        url = f"sqlite:///{folder}/results.db"
        what = planned("small", folder, text=STUDIES.replace("[none, [pos], [pos, log]]", subsets))
        data, config = prepared(what, folder)
        with opened(url) as store, store.together():
            store.record_dataset(data, config)
            store.record_plan(what)
            for place, trial in enumerate(what.trials):
                attempt = store.begin_attempt(trial, ENVIRONMENT, fingerprint=data.fingerprint)
                store.record_epoch(trial, attempt, report(1))
                if place > 2:  # three are running
                    store.complete(trial, attempt, result(0.3), fingerprint=data.fingerprint)
        counts.append({name: statements_of(url, ask) for name, ask in questions.items()})
        sizes.append(len(what.trials))
    assert sizes == [8, 2 * (6 + 21 + 42)]  # of 63 with a head each, 21 have the same network
    assert counts[0] == counts[1]
    opening = statements_of(url, on_an_engine(lambda _: None))
    # Each question of a study asks first whether there is such a study.
    assert counts[0]["frames"] - opening == 5 * 2
    assert counts[0]["status"] - opening == 4 + 3


def test_a_trial_of_two_studies_is_in_the_results_of_both(engine, store_url, tmp_path):
    with opened(store_url) as store:
        store.record_plan(planned("shares", tmp_path))
    shared = pd.merge(frames.results(engine, "small"), frames.results(engine, "shares"), on="trial")
    assert shared["embeddings_x"].tolist() == ["Pos"]
    everything = frames.results(engine)
    assert (everything["trial"] == shared["trial"].iloc[0]).sum() == 2
