"""A study of 18 cells, and results written by hand, for tests of the store and of its readers."""

from datetime import UTC, datetime, timedelta
from textwrap import dedent

import numpy as np

from model.data.prepare import load_prepared
from model.results import PROTOCOLS, EpochReport, MetricValue, Ranks, TrialResult
from study.definition import load_studies, study_named
from study.plan import plan
from study.provenance import Environment
from study.store import Store

STUDIES = dedent(
    """\
    datasets:
      tiny:
        synthetic: {recipe: planted-order, users: 20, items: 12, events: 8}
    studies:
      small:
        question: Does order matter?
        datasets: [tiny]
        embeddings: [none, [pos], [pos, log]]
        grid: {hidden: 8, heads: [1, 2, per-embedding]}
        seeds: [0, 1]
      shares:
        question: Is a trial shared?
        datasets: [tiny]
        embeddings: [[pos], [day]]
        grid: {hidden: 8, heads: 1}
        seeds: [0]
    """
)

ENVIRONMENT = Environment(
    commit="0" * 40,
    dirty=False,
    python="3.11.7",
    packages=(("torch", "2.13.0"), ("ray", "2.60.0")),
    platform="Linux",
    node="a-machine",
    cpu="a processor",
    gpus=(),
    device="cpu",
    threads=1,
)


class Clock:
    """Each look at it is a second later, in a time zone that is not UTC."""

    def __init__(self):
        self.moment = datetime(2026, 3, 1, 12, tzinfo=UTC).astimezone(
            datetime.strptime("+0530", "%z").tzinfo
        )

    def __call__(self):
        self.moment += timedelta(seconds=1)
        return self.moment


def planned(name, folder, *, text=STUDIES):
    """Plan a study of `text`; the file is written into `folder`."""
    path = folder / "studies.yaml"
    path.write_text(text)
    file = load_studies(path)
    return plan(study_named(file, name), file)


def opened(url):
    return Store.open(url, clock=Clock())


def prepared(what, folder):
    """Prepare the data set of a plan's trials."""
    config = next(iter(what.trials.values())).config().dataset
    return load_prepared(config, folder), config


def report(epoch, *, loss=1.5, ndcg=0.25):
    return EpochReport(
        epoch=epoch,
        seconds=0.5,
        metrics=(
            MetricValue("train", "none", "loss", loss),
            MetricValue("validation", "popular-100", "ndcg@10", ndcg),
        ),
    )


def result(ndcg, *, best_epoch=2, users=3):
    """A result whose metrics all follow from one number: test is half of validation."""
    share = {"validation": 1.0, "test": 0.5}
    return TrialResult(
        best_epoch=best_epoch,
        epochs=best_epoch + 1,
        stopped_by="patience",
        metrics=tuple(
            MetricValue(split, protocol, metric, ndcg * part * scale)
            for split, part in share.items()
            for protocol in PROTOCOLS
            for metric, scale in (("ndcg@10", 1.0), ("ndcg@5", 0.9), ("recall@10", 1.5))
        ),
        ranks=tuple(
            Ranks(
                split,
                protocol,
                greater=np.arange(users, dtype=np.int32),
                equal=np.full(users, 7, dtype=np.int32),
            )
            for split in share
            for protocol in PROTOCOLS
        ),
        n_parameters=1234,
        seconds=2.5,
    )


def fill(url, folder):
    """Store the study `small` with one trial in each state; return its plan.

    In the order of the plan: complete (validation NDCG@10 .4), complete (.2), failed (diverged),
    running, and six pending, the first of them lost once.
    """
    what = planned("small", folder)
    data, config = prepared(what, folder)
    first, second, third, fourth, fifth = list(what.trials)[:5]
    with opened(url) as store, store.claim():
        store.record_dataset(data, config)
        store.record_plan(what)
        for trial, value in ((first, 0.4), (second, 0.2)):
            attempt = store.begin_attempt(trial, ENVIRONMENT, fingerprint=data.fingerprint)
            store.record_epoch(trial, attempt, report(1, ndcg=value / 2))
            store.record_epoch(trial, attempt, report(2, ndcg=value))
            store.complete(trial, attempt, result(value), fingerprint=data.fingerprint)
        attempt = store.begin_attempt(third, ENVIRONMENT, fingerprint=data.fingerprint)
        store.record_epoch(third, attempt, report(1, loss=float("nan")))
        store.fail(third, attempt, failure="diverged", message="loss is NaN", traceback="Trace..")
        attempt = store.begin_attempt(fifth, None, fingerprint=data.fingerprint)
        store.fail(fifth, attempt, failure="lost", message="worker died")
        store.begin_attempt(fourth, ENVIRONMENT, fingerprint=data.fingerprint)
    return what
