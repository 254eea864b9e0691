import json

import numpy as np
import pytest

from analysis.frames import open_reader, results
from analysis.stored_trial import compared, stored_trial
from model.data.prepare import load_prepared
from model.errors import RequestError
from model.results import Ranks
from study.again import look
from tests.console import meantime

STUDIES = """\
datasets:
  tiny: {synthetic: {recipe: planted-order, users: 30, items: 12, events: 10}}
defaults: {epochs: 2, max_len: 8, hidden: 8}
studies:
  small:
    question: Where do the heads look?
    datasets: [tiny]
    models:
      meantime: {embeddings: [[pos, log]], grid: {heads: 2}}
      popularity:
    seeds: [0]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attention")
    (folder / "studies.yaml").write_text(STUDIES)
    done = meantime("launch", "small", "--serial", folder=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def engine(folder):
    return open_reader(f"sqlite:///{folder}/results.db")


def trial_of(engine, model):
    rows = results(engine, "small")
    return rows.loc[rows["model"] == model, "trial"].item()


def test_the_heads_of_a_trial_are_drawn_from_the_weights_behind_its_numbers(folder, engine):
    trial = trial_of(engine, "meantime")
    done = meantime("attention", trial[:8], "--out", "maps", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "Its ranks are those in the store: these weights are behind its numbers." in done.stdout
    name = f"attention_tiny_{trial}"
    for part in ("gaps", "steps", "history"):
        assert (folder / "maps" / f"{name}_{part}.html").is_file()
    car = json.loads((folder / "maps" / f"{name}_steps.json").read_text())
    assert car["study"] == f"trial {trial}"
    # Two blocks, two heads, the target itself and 1, 2, 3-4 and 5-8 events back.
    assert car["rows"] == 2 * 2 * 5
    assert f"({trial})" in " ".join(car["caption"])
    kept = folder / "maps" / f"{trial}.checkpoint"
    assert kept.is_file()


def test_a_model_without_heads_an_unknown_trial_and_an_unknown_user_are_refused(folder, engine):
    def refused(trial, **options):
        given = {"weights": folder / "none", "split": "test", "user": None, "threads": 1}
        with pytest.raises(RequestError) as error:
            look(trial, data, report=print, **given | options)
        return str(error.value)

    stored = stored_trial(engine, trial_of(engine, "meantime"))
    counted = stored_trial(engine, trial_of(engine, "popularity"))
    data = load_prepared(stored.trial.config().dataset, folder / "data")
    assert f"{counted.trial.id} is a trial of popularity; name another" in refused(counted.trial)
    said = refused(stored.trial, user="nobody")
    assert "a history is one of the 30 users of tiny after filtering, got 'nobody'" in said
    with pytest.raises(RequestError, match="'xyz', which 0 trials begin with"):
        stored_trial(engine, "xyz")


def test_another_training_than_the_stored_one_is_said_to_be_one():
    first = np.array([0, 3, 5], dtype=np.int32)
    stored = {("test", "full"): (first, first * 0)}
    same = Ranks("test", "full", greater=first, equal=first * 0)
    other = Ranks("test", "full", greater=first + np.array([0, 1, 0]), equal=first * 0)
    assert compared(stored, [same]).startswith("Its ranks are those in the store")
    assert compared(stored, [other]).startswith("Trained again it ranks otherwise for 1 of 3 users")
