"""The tables, the migrations that make them, and the configuration that they must hold agree."""

from pathlib import Path

import optuna
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, make_url

import study.migrations
from model.config import MODELS, DatasetConfig, EvaluationConfig, TrainingConfig
from study.engine import reading, revision, writing
from study.migrations.ours import ours
from study.schema import RESULT_METRICS, REVISION, VERSION_TABLE, Base, DatasetRow, TrialRow
from study.views import FACTOR_COLUMNS, RESULTS
from tests.stored import fill


def differences(url):
    """What Alembic would change in the database to make it equal the tables."""
    engine = writing(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={"include_name": ours, "compare_type": True, "version_table": VERSION_TABLE},
        )
        found = compare_metadata(context, Base.metadata)
    engine.dispose()
    return found


def test_migrations_make_exactly_the_declared_tables(store_url):
    assert differences(store_url) == []


def test_the_declared_revision_is_the_last_migration():
    scripts = ScriptDirectory(str(Path(study.migrations.__file__).parent))
    assert scripts.get_current_head() == REVISION


def test_every_option_of_a_trial_has_a_column():
    declared = {
        {DatasetConfig: "dataset"}.get(section, "model") if name == "name" else name
        for section in (DatasetConfig, *MODELS.values(), TrainingConfig, EvaluationConfig)
        for name in section.model_fields
    }
    assert len(declared) == 5 + (1 + 9 + 10) + 8 + 3
    assert set(declared) <= set(TrialRow.__table__.c.keys())
    assert set(declared) <= set(RESULTS.c.keys())


def test_the_view_has_the_columns_that_readers_are_promised():
    assert RESULTS.c.keys() == [
        *("trial", "study", "stage", "dataset"),
        *FACTOR_COLUMNS,
        *("state", "failure", "best_epoch", "epochs_trained", "stopped_by"),
        *RESULT_METRICS,
        *("n_parameters", "seconds", "attempts", "device", "commit"),
        "fingerprint",
        "finished_at",
    ]
    assert len(RESULT_METRICS) == 20
    assert RESULT_METRICS["test_ndcg@10"] == ("test", "popular-100", "ndcg@10")
    assert RESULT_METRICS["validation_full_mrr"] == ("validation", "full", "mrr")
    for name in ("day", "pos", "con", "sin", "exp", "log", "hidden", "heads", "epochs", "seed"):
        assert name in FACTOR_COLUMNS


@pytest.mark.parametrize("optuna_first", [True, False])
def test_optuna_keeps_its_studies_in_the_same_database(store_url, tmp_path, optuna_first):
    def ask_optuna():
        url = make_url(store_url)
        if url.get_backend_name() == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        storage = optuna.storages.RDBStorage(url.render_as_string(hide_password=False))
        optuna.create_study(study_name="ours", storage=storage, load_if_exists=True)
        assert optuna.get_all_study_names(storage) == ["ours"]
        storage.engine.dispose()

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if optuna_first:
        ask_optuna()
    fill(store_url, tmp_path)
    ask_optuna()
    assert differences(store_url) == []


def test_a_row_of_a_kind_that_does_not_exist_is_refused_by_the_database(store_url):
    from sqlalchemy import insert
    from sqlalchemy.exc import IntegrityError

    engine = writing(store_url)
    row = {"name": "x", "n_users": 1, "n_items": 1, "n_interactions": 1, "n_days": 1}
    with engine.begin() as connection:
        connection.execute(insert(DatasetRow), {**row, "fingerprint": "f", "preparation": "{}"})
    with pytest.raises(IntegrityError), engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO cell (study, number, dataset, model, embeddings, seed, others, state) "
            "VALUES ('no-such-study', 0, 'd', 'm', 'none', 0, '{}', 'infeasible')"
        )
    engine.dispose()


def test_a_store_holds_its_tables_its_view_and_its_revision(store_url):
    writing(store_url).dispose()
    engine = reading(store_url)
    with engine.connect() as connection:
        assert revision(connection) == REVISION
        assert set(inspect(connection).get_view_names()) == {"curves", "results"}
        assert set(inspect(connection).get_table_names()) == {
            *("attempt", "cell", "dataset", "environment", "epoch_metric", "meantime_version"),
            *("rank", "result", "study", "trial"),
        }
    engine.dispose()
