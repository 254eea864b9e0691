"""Small frames with the columns of `analysis.frames`, written by hand."""

import itertools
import math

import numpy as np
import pandas as pd

from analysis.figures import draw_all
from analysis.gallery.subsets import METRICS as SHOWN
from analysis.gallery.subsets import NEVER_AVERAGED, panels_of
from analysis.material import Material
from model.config import EMBEDDINGS
from model.errors import RequestError

METRICS = [
    f"{split}_{protocol}{metric}"
    for split in ("validation", "test")
    for protocol in ("", "full_")
    for metric in ("ndcg@5", "ndcg@10", "recall@5", "recall@10", "mrr")
]

ALL_SUBSETS = [
    "+".join(name.capitalize() for name in chosen) or "none"
    for size in range(7)
    for chosen in itertools.combinations(EMBEDDINGS, size)
]


def study(points):
    """Make `results` and `cells` from declared points.

    `points` is a list of dicts with `embeddings`, `seed` and `value` (the test NDCG@10) and any
    coordinate; `class`, `reason` and `trial` may stand there too.
    """
    cells, results, columns = [], {}, []
    for index, declared in enumerate(points):
        point = {
            "dataset": "ml-100k",
            "model": "meantime",
            "hidden": 48,
            "heads": "6",
            "dropout": 0.2,
            "weight_decay": 0.0,
            "seed": 0,
            "class": "complete",
            "reason": None,
            "trial": f"{index:016x}",
            "value": 0.25,
            **declared,
        }
        value = point.pop("value")
        cells.append({"number": index, **point})
        if point["class"] == "infeasible":
            cells[-1]["trial"] = None
        done = point["class"] == "complete"
        result = {
            "trial": point["trial"],
            "study": "by-hand",
            "dataset": point["dataset"],
            "model": "meantime",
            "embeddings": point["embeddings"],
            "hidden": point["hidden"],
            "heads": 6,
            "dropout": point["dropout"],
            "weight_decay": point["weight_decay"],
            "epochs": 15,
            "target_time": point.get("target_time", "actual"),
            "repeats": point.get("repeats", "excluded"),
            "seed": point["seed"],
            "state": point["class"],
            "failure": point["reason"] if point["class"] == "failed" else None,
            "best_epoch": 12.0 if done else math.nan,
            **{
                name: (
                    (value + (0.02 if name.startswith("validation") else 0.0))
                    * (0.3 if "_full_" in name else 1.0)
                    * (1.5 if "recall" in name else 1.0)
                    if done
                    else math.nan
                )
                for name in METRICS
            },
            "n_parameters": 181_000.0,
            "seconds": 41.5 if done else math.nan,
            "attempts": 1,
            "commit": "0123abc",
            "fingerprint": "f" * 64,
            "finished_at": pd.Timestamp("2026-11-30T12:00:00Z"),
        }
        columns = list(result)
        if point["class"] not in ("infeasible", "duplicate"):
            results[point["trial"]] = result
    return pd.DataFrame(list(results.values()), columns=columns), pd.DataFrame(cells)


def only_panel(results, cells, *, metric="test_ndcg@10"):
    """The one panel that a study on one data set has for a metric."""
    (found,) = panels_of_study(results, cells, metrics=[metric])
    return found


def panels_of_study(results, cells, *, metrics=SHOWN):
    """Every panel of a study."""
    material = report_source(results, cells)
    return [
        panel
        for group in material.groups(NEVER_AVERAGED)
        for panel in panels_of(group, metrics, material.factors)
    ]


def figures_of(results, cells, *only):
    """The study's figures, or those of some kinds."""
    return list(draw_all(report_source(results, cells), only).figures)


def plausible(subset, seed=0):
    """A test NDCG@10 as it might be measured: order helps, content alone does not."""
    value = 0.18 + 0.002 * seed
    value += 0.09 * ("Pos" in subset) + 0.05 * ("Log" in subset) + 0.03 * ("Exp" in subset)
    return value + 0.01 * ("Day" in subset) - 0.004 * subset.count("+")


def full_study(*, seeds=(0, 1), gaps=True):
    """64 subsets x 2 seeds at heads 6, with a failure, two pending and one censored cell."""
    points = []
    for subset in ALL_SUBSETS:
        for seed in seeds:
            point = {"embeddings": subset, "seed": seed, "value": plausible(subset, seed)}
            if gaps and subset == "Day+Sin":
                point |= {"class": "failed", "reason": "diverged: the loss is nan at epoch 3"}
            if gaps and subset == "Con+Exp+Log" and seed == 1:
                point |= {"class": "failed", "reason": "oom"}
            if gaps and subset == "Day+Pos+Con+Sin+Exp+Log":
                point |= {"class": "pending"}
            if gaps and subset == "Pos+Con+Sin+Log":
                point |= {"class": "censored", "reason": "stopped by asha at epoch 4"}
            points.append(point)
    return study(points)


def users_around(mean, trial, *, users=40):
    """Per-user values with this mean: users differ alike in every trial, and a little in each."""
    rng = np.random.default_rng(int.from_bytes(trial.encode(), "little") % 2**32)
    own = np.random.default_rng(0).normal(0, 0.1, users) + rng.normal(0, 0.01, users)
    return mean + own - own.mean()


def no_data_here(fingerprint):
    raise RequestError(f"the data set {fingerprint[:4]} must be stored here; fetch it")


def report_source(results, cells, **changes):
    """The frames of a report about a study made by `study`."""
    environment = {
        "commit": "0123abc",
        "dirty": True,
        "python": "3.11.7",
        "packages": '{"torch": "2.13.0", "numpy": "2.2.1"}',
        "platform": "Linux-6.1-x86_64",
        "cpu": "Xeon",
        "gpus": "",
        "device": "cpu",
        "threads": 1,
    }
    return Material(
        **{
            "study": "by-hand",
            "question": "Which temporal embeddings suit MovieLens 100K?",
            "store": "sqlite:///results.db",
            "cells": cells,
            "results": results,
            "attempts": pd.DataFrame(
                [{"trial": trial, "attempt": 1, **environment} for trial in results["trial"]]
            ),
            "curves": pd.DataFrame(
                [
                    {"trial": trial, "epoch": epoch, "metric": metric, "value": value / epoch}
                    for trial in results.loc[results["state"] == "complete", "trial"]
                    for epoch in (1, 2)
                    for metric, value in (("ndcg@10", 0.2), ("loss", 4.0))
                ],
                columns=["trial", "epoch", "metric", "value"],
            ),
            "values": {
                trial: users_around(value, trial)
                for trial, value, state in zip(
                    results["trial"], results["test_ndcg@10"], results["state"], strict=True
                )
                if state == "complete"
            },
            "validation": {
                trial: users_around(value, trial)
                for trial, value, state in zip(
                    results["trial"], results["validation_ndcg@10"], results["state"], strict=True
                )
                if state == "complete"
            },
            "traits": no_data_here,
            "description": no_data_here,
            "datasets": pd.DataFrame(
                [
                    {
                        "fingerprint": "f" * 64,
                        "name": "ml-100k",
                        "n_users": 943,
                        "n_items": 1349,
                        "n_interactions": 99287,
                        "n_days": 215,
                    }
                ]
            ),
            **changes,
        }
    )
