"""A failed trial is tried again as often as the study says for its class of failure."""

import pytest

from study.definition import Resources, Retries
from study.dispatch import SerialDispatcher
from study.execute import Completed, Failed, Said, Started
from study.launch import backlog, launch, prepare_datasets
from study.store import Store
from study.supply import supply_of
from tests.study.small import planned
from tests.study.test_launch import rows

WORK = "tests.study.pretended:"


class Watched(SerialDispatcher):
    """Remembers which trials were to have a whole device."""

    def __init__(self, work):
        super().__init__(Resources(), work=work)
        self.alone = []

    def dispatch(self, trials, datasets, *, on_event, batch):
        del batch
        supply = supply_of(trials)
        while (trial := supply.take()) is not None:
            if supply.alone(trial):
                self.alone.append(trial.title)
            super().dispatch([trial], datasets, on_event=on_event)


def launched(folder, work, retries):
    what = planned("four", folder)
    datasets = prepare_datasets(what, folder)
    events, dispatcher = [], Watched(WORK + work)
    with Store.open(f"sqlite:///{folder}/results.db") as store, store.claim():
        left = backlog(what, store, datasets=datasets)
        outcome = launch(
            left.trials,
            store=store,
            dispatcher=dispatcher,
            datasets=datasets,
            watch=events.append,
            retries=retries,
        )
    return outcome, events, dispatcher


def test_a_trial_out_of_memory_is_tried_again_alone_and_its_batch_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("PRETENDED_FOLDER", str(tmp_path))
    outcome, _, dispatcher = launched(tmp_path, "out_of_memory_beside_others", None)
    assert (outcome.completed, outcome.failed) == (4, {})
    assert len(dispatcher.alone) == 1
    assert rows(tmp_path, "SELECT failure FROM attempt WHERE state = 'failed'") == [("oom",)]
    assert rows(tmp_path, "SELECT DISTINCT batch FROM trial") == [(32,)]


@pytest.mark.parametrize(("oom", "attempts"), [(0, 1), (1, 2), (3, 4)])
def test_a_trial_that_never_fits_is_oom_after_its_retries_and_leaves_the_others_alone(
    tmp_path, oom, attempts
):
    outcome, events, _ = launched(tmp_path, "always_out_of_memory", Retries(oom=oom))
    assert outcome.completed == 3
    assert [failed.failure for failed in outcome.failed.values()] == ["oom"]
    assert sum(isinstance(event, Failed) for event in events) == attempts  # each was shown
    assert rows(tmp_path, "SELECT state, attempts FROM trial WHERE day") == [("failed", attempts)]


def test_a_training_s_words_are_kept_with_its_attempt(tmp_path):
    _, events, _ = launched(tmp_path, "talking", None)
    assert [type(e) for e in events[:2]] == [Started, Said]
    assert sum(isinstance(event, Completed) for event in events) == 4
    kept = rows(tmp_path, "SELECT log FROM attempt")
    assert len(kept) == 4
    assert all(text.startswith("process ") for (text,) in kept)
