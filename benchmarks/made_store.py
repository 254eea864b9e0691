"""Fills a results database with made trials: whole studies without training, seeded.

`python benchmarks/made_store.py STORE STUDY` writes one of the studies below. Per-user counts
follow a small model: users differ, embeddings help by known amounts on each data set, seeds blur
them. The readers are measured and looked at on such stores; no finding rests on them.
"""

import argparse
import tempfile
from pathlib import Path
from textwrap import dedent

import numpy as np

from model.config import EMBEDDINGS
from model.data.prepare import load_prepared
from model.metrics import summarise
from model.results import EpochReport, MetricValue, Ranks, TrialResult
from study.definition import load_studies, study_named
from study.plan import plan
from study.provenance import environment
from study.store import Store

STUDIES = dedent(
    """\
    datasets:
      made-films:
        synthetic: {recipe: planted-order, users: 900, items: 300, events: 30}
      made-games:
        synthetic: {recipe: planted-recency, users: 700, items: 200, events: 12, seed: 1}
    defaults: {heads: 6, hidden: 48, epochs: 15}
    studies:
      made-subsets:
        question: Which combinations of temporal embeddings suit which made data?
        datasets: [made-films, made-games]
        embeddings: all-subsets-and-none
        seeds: [0, 1, 2]
      made-grid:
        question: Does the best combination depend on the hyperparameters?
        datasets: [made-films, made-games]
        embeddings: all-subsets-and-none
        grid: {hidden: [32, 64], dropout: [0.2, 0.5], weight_decay: [0, 1e-5]}
        seeds: [0, 1]
      made-small:
        question: Which of four combinations suits which made data, at two sizes?
        datasets: [made-films, made-games]
        embeddings: [none, [pos], [pos, log], [day, pos, sin, log]]
        grid: {hidden: [32, 64]}
        seeds: [0, 1, 2, 3, 4]
      made-readings:
        question: Do the target's time and the time unit matter?
        datasets: [made-films]
        embeddings: [none, [pos], [day], [sin], [exp], [log], [pos, log], [day, pos, sin, log]]
        grid: {target_time: [actual, last], tau: [1, 3600, 86400]}
        seeds: [0, 1, 2]
    """
)

EFFECTS = {
    "made-films": {"day": 0.15, "pos": 1.1, "con": 0.0, "sin": 0.45, "exp": 0.3, "log": 0.7},
    "made-games": {"day": 0.5, "pos": 0.35, "con": 0.0, "sin": 0.1, "exp": 0.6, "log": 0.75},
}
"""What an embedding adds to a trial's score, in logits of beating one negative."""


def fill(url: str, study: str, *, epochs: int = 15, gaps: bool = True) -> int:
    """Write a made study to the store at `url`; return its trials.

    Args:
        url: of the results database.
        study: one of `STUDIES`.
        epochs: written for each trial.
        gaps: leave a few trials of `made-games` failed and pending.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "studies.yaml")
        path.write_text(STUDIES)
        file = load_studies(path)
        what = plan(study_named(file, study), file)
        configs = {trial.dataset: trial.config().dataset for trial in what.trials.values()}
        data = {name: load_prepared(config, Path(folder)) for name, config in configs.items()}
    machine = environment(device="cpu", threads=1, node="made")
    difficulty = {
        name: np.random.default_rng(7).normal(0, 1.3, prepared.n_users)
        for name, prepared in data.items()
    }
    with Store.open(url) as store, store.claim():
        for name, prepared in data.items():
            store.record_dataset(prepared, configs[name])
        store.record_plan(what)
        for number, trial in enumerate(what.trials.values()):
            gap = gaps and trial.dataset == "made-games"
            if gap and number % 61 == 60:
                continue
            attempt = store.begin_attempt(trial.id, machine)
            if gap and number % 97 == 96:
                store.fail(trial.id, attempt, failure="diverged", message="loss is nan at epoch 3")
                continue
            own = data[trial.dataset]
            result, curve = _made(trial, number, own, difficulty[trial.dataset], epochs)
            for report in curve:
                store.record_epoch(trial.id, attempt, report)
            store.complete(trial.id, attempt, result, fingerprint=own.fingerprint)
    return len(what.trials)


def _made(trial, number, data, difficulty, epochs):
    """Make one trial's result and the reports of its epochs."""
    rng = np.random.default_rng(number)  # its place in the plan: an id moves with the numerics
    shared = np.random.default_rng(trial.seed + 100)  # a seed moves all subsets alike
    effects = EFFECTS[trial.dataset]
    held = [name for name in EMBEDDINGS if name in trial.embeddings]
    score = 2.0 + sum(effects[name] for name in held)
    score -= 0.35 * min(effects["exp"], effects["log"]) * ("exp" in held and "log" in held)
    factors = trial.factors
    score += 0.25 * np.log2((factors.get("hidden") or 48) / 48)
    score -= 0.5 * abs((factors.get("dropout") or 0.2) - 0.2)
    if factors.get("target_time") == "last":
        score -= 0.3 * sum(effects[name] for name in held if name not in ("pos", "con"))
    if factors.get("tau"):
        score -= 0.06 * np.log10(factors["tau"]) * ("sin" in held)
    score += shared.normal(0, 0.05) + rng.normal(0, 0.05)
    ranks = []
    for split in ("validation", "test"):
        beaten = 1 / (1 + np.exp(-(difficulty + 1.0 - score + rng.normal(0, 0.5, len(difficulty)))))
        for protocol, n in (("popular-100", 100), ("full", max(data.n_items - 30, 100))):
            chance = beaten if protocol == "popular-100" else beaten**0.9
            greater = rng.binomial(n, chance).astype(np.int32)
            ranks.append(Ranks(split, protocol, greater=greater, equal=np.zeros_like(greater)))
    metrics = tuple(metric for own in ranks for metric in summarise(own))
    at_best = next(m.value for m in metrics if (m.split, m.metric) == ("validation", "ndcg@10"))
    best = int(rng.integers(max(1, epochs // 2), epochs + 1))
    steps = np.arange(1, epochs + 1)
    rise = at_best * (1 - 0.75 * np.exp(-3 * steps / best)) - 0.002 * np.maximum(steps - best, 0)
    curve = [
        EpochReport(
            epoch=int(step),
            seconds=0.5,
            metrics=(
                MetricValue("train", "none", "loss", float(6.5 - 2.2 * value / at_best)),
                MetricValue("validation", "popular-100", "ndcg@10", float(value)),
            ),
        )
        for step, value in zip(steps, rise + rng.normal(0, 0.003, epochs), strict=True)
    ]
    size = 60_000 + 900 * len(held) + 2_000 * (factors.get("hidden") or 48)
    seconds = 20 * (1 + 0.12 * len(held)) * (0.5 + (factors.get("hidden") or 48) / 96)
    result = TrialResult(
        best_epoch=best,
        epochs=epochs,
        stopped_by="epochs",
        metrics=metrics,
        ranks=tuple(ranks),
        n_parameters=size,
        seconds=float(seconds * rng.uniform(0.9, 1.1)),
    )
    return result, curve


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", help="URL, for example sqlite:////tmp/made.db")
    parser.add_argument(
        "study", choices=["made-subsets", "made-grid", "made-small", "made-readings"]
    )
    chosen = parser.parse_args()
    print(f"{fill(chosen.store, chosen.study)} trials")
