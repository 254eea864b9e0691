"""Status tells from the store what runs, what is best, what is left and why a trial failed."""

from datetime import UTC, datetime

import pytest

from analysis.frames import open_reader
from analysis.status import lines, status, trial_lines
from model.errors import RequestError
from model.results import EpochReport, MetricValue
from tests.stored import ENVIRONMENT, STUDIES, fill, opened, planned


@pytest.fixture
def filled(store_url, tmp_path):
    what = fill(store_url, tmp_path)
    engine = open_reader(store_url)
    yield engine, list(what.trials)
    engine.dispose()


def test_a_status_says_what_runs_what_is_best_and_what_is_left(filled):
    engine, trials = filled
    found = status(engine, "small")
    assert found.coverage.counts["complete"] == 2
    # Two complete trials took 2.5 s each; one is running, six wait, one place.
    assert found.seconds_left == pytest.approx(2.5 * 7)
    assert found.best == (0.4, "tiny none seed 0")
    [running] = found.running
    assert (running.trial, running.attempt, running.epoch, running.value) == (trials[3], 1, 0, None)
    said = lines(found, now=datetime(2027, 1, 1, tzinfo=UTC))
    assert said[0] == "  time left: about 18 s"
    assert said[1] == "  best validation NDCG@10: 0.4000, tiny none seed 0"
    assert said[2].startswith(f"  running: {trials[3]} tiny ")
    assert ": starting, " in said[2]
    left_behind = lines(found, now=datetime(2027, 1, 1, tzinfo=UTC), claimed=False)
    assert left_behind[:2] == said[:2]
    assert left_behind[2:] == [
        "  no launch is alive: 1 trial was left by one that died; `meantime launch small` "
        "continues them"
    ]


def test_a_running_trial_shows_its_last_epoch_under_its_own_protocol(store_url, tmp_path):
    text = STUDIES.replace("heads: [1, 2", "protocol: full, heads: [1, 2")
    what = planned("small", tmp_path, text=text)
    trial = next(iter(what.trials))
    with opened(store_url) as store:
        store.record_plan(what)
        attempt = store.begin_attempt(trial, ENVIRONMENT)
        for epoch, value in ((1, 0.3), (2, 0.2)):
            metrics = (MetricValue("validation", "full", "ndcg@10", value),)
            store.record_epoch(trial, attempt, EpochReport(epoch, 0.5, metrics))
    engine = open_reader(store_url)
    [running] = status(engine, "small").running
    engine.dispose()
    assert (running.epoch, running.value) == (2, 0.2)


def test_a_trial_tells_its_configuration_and_every_attempt(filled):
    engine, trials = filled
    said = "\n".join(trial_lines(engine, trials[2]))
    assert said.startswith(f"trial {trials[2]}: failed\n  asked for by: small\n  dataset=tiny, ")
    assert "layers=2" in said
    assert "seed=0" in said
    assert "attempt 1: failed after " in said
    assert "(diverged: loss is NaN); 2026-" in said
    assert "  traceback:\n    Trace.." in said


def test_the_first_digits_of_an_id_are_enough_and_must_be_one_trial_s(filled):
    engine, trials = filled
    assert trial_lines(engine, trials[0][:8])[0] == f"trial {trials[0]}: complete"
    with pytest.raises(RequestError, match=r"got '', which 10 trials begin with"):
        trial_lines(engine, "")
    with pytest.raises(RequestError, match=r"got '%', which 0 trials begin with"):
        trial_lines(engine, "%")
