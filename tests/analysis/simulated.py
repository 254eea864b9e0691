"""A stored study whose users and seeds vary as real ones do, and whose true order is known."""

from textwrap import dedent

import numpy as np

from model.metrics import summarise
from model.results import PROTOCOLS, Ranks, TrialResult
from tests.stored import ENVIRONMENT, opened, planned, prepared

STUDY = dedent(
    """\
    datasets:
      tiny:
        synthetic: {recipe: planted-order, users: 60, items: 24, events: 8}
    studies:
      by-chance:
        question: Does order matter & by how much (in %)?
        datasets: [tiny]
        embeddings: [none, [pos], [log], [pos, log]]
        grid: {hidden: [8, 16], heads: 2}
        seeds: [0, 1, 2]
    """
)


def gain(trial):
    """How much lower the logarithm of the ranks of a trial is: Pos helps, 16 channels a little."""
    return 1.2 * ("Pos" in trial.label) + 0.3 * ("Log" in trial.label) + 0.1 * (
        trial.factors["hidden"] == 16
    )  # fmt: skip


def simulated_store(url, folder, *, text=STUDY, study="by-chance", skip=lambda _: False):
    """Store every trial of a study but those to skip; return its plan."""
    what = planned(study, folder, text=text)
    data, config = prepared(what, folder)
    generator = np.random.default_rng(0)
    ability = generator.standard_normal(data.n_users)
    with opened(url) as store, store.claim():
        store.record_dataset(data, config)
        store.record_plan(what)
        for trial in what.trials.values():
            if skip(trial):
                continue
            attempt = store.begin_attempt(trial.id, ENVIRONMENT)
            found = _result(trial, ability, generator)
            store.complete(trial.id, attempt, found, fingerprint=data.fingerprint)
    return what


def _result(trial, ability, generator):
    ranks = []
    for split in ("validation", "test"):
        for protocol in PROTOCOLS:
            level = 2 - gain(trial) + ability + 0.5 * generator.standard_normal(len(ability))
            greater = np.minimum(np.exp(level), 23).astype(np.int32)
            ranks.append(Ranks(split, protocol, greater, np.zeros_like(greater)))
    return TrialResult(
        best_epoch=3,
        epochs=5,
        stopped_by="epochs",
        metrics=tuple(metric for one in ranks for metric in summarise(one)),
        ranks=tuple(ranks),
        n_parameters=1000,
        seconds=1.0,
    )
