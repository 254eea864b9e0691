"""Plans, trials and reports as rows of `study.schema`: one function a table, plain numbers only.

numpy's numbers are converted here: SQLite would store np.int64 as a BLOB, silently.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from model.config import EMBEDDINGS, DatasetConfig
from model.data.prepare import PreparedData
from model.results import MetricValue, Protocol, Ranks, Split, TrialResult
from study.cells import Cell
from study.packing import pack
from study.provenance import Environment
from study.schema import RESULT_METRICS
from study.trial import Trial

Row = dict[str, Any]
"""Column -> value."""


def dataset_row(data: PreparedData, config: DatasetConfig) -> Row:
    """Return the row of a prepared data set."""
    return {
        "fingerprint": data.fingerprint,
        "name": data.name,
        "n_users": int(data.n_users),
        "n_items": int(data.n_items),
        "n_interactions": len(data.items),
        "n_days": int(data.n_days),
        "preparation": preparation(config),
    }


def preparation(config: DatasetConfig) -> str:
    """Return how a data set is prepared, as the store writes it down."""
    return config.model_dump_json(exclude_none=True)


def trial_row(trial: Trial) -> Row:
    """Return the row of a trial that nobody has begun."""
    return {
        "id": trial.id,
        **dataset_columns(trial.effective["dataset"]),
        "model": trial.model,
        "embeddings": trial.label,
        **{name: name in (trial.embeddings or ()) for name in EMBEDDINGS},
        **trial.factors,
        "seed": trial.seed,
        "effective": json.dumps(trial.effective, sort_keys=True),
        "state": "pending",
        "attempts": 0,
    }


def dataset_columns(declared: Mapping[str, Any]) -> Row:
    """Return the columns of a trial that say which data it reads, and how they are prepared."""
    synthetic = declared.get("synthetic")
    return {
        "dataset": declared["name"],
        "core": declared["core"],
        "min_interactions": declared["min_interactions"],
        "min_rating": declared.get("min_rating"),
        "synthetic": None if synthetic is None else json.dumps(synthetic, sort_keys=True),
    }


def cell_row(cell: Cell, study: str, *, others: Sequence[str]) -> Row:
    """Return the row of a cell; `others` names the declared factors without a column."""
    return {
        "study": study,
        "number": cell.index,
        "dataset": cell.dataset,
        "model": cell.model,
        "embeddings": cell.label,
        "hidden": cell.factors.get("hidden"),
        "heads": None if cell.heads is None else str(cell.heads),
        "dropout": cell.factors.get("dropout"),
        "weight_decay": cell.factors.get("weight_decay"),
        "seed": cell.seed,
        "others": json.dumps({name: cell.factors.get(name) for name in others}),
        "stage": cell.stage,
        "state": cell.state,
        "reason": cell.reason or None,
        "trial": cell.trial_id,
    }


def environment_row(environment: Environment) -> Row:
    """Return the row of an attempt's environment."""
    packages = dict(environment.packages)
    return {
        "id": environment.id,
        "commit": environment.commit,
        "dirty": environment.dirty,
        "python": environment.python,
        "torch": packages.get("torch"),
        "ray": packages.get("ray"),
        "packages": json.dumps(packages),
        "platform": environment.platform,
        "node": environment.node,
        "cpu": environment.cpu,
        "gpus": ", ".join(environment.gpus),
        "device": environment.device,
        "threads": environment.threads,
    }


def metric_rows(
    trial_id: str, attempt: int, *, epoch: int, metrics: Iterable[MetricValue]
) -> list[Row]:
    """Return a row for each number that an attempt measured in an epoch (from 1)."""
    return [
        {
            "trial": trial_id,
            "attempt": attempt,
            "epoch": int(epoch),
            "split": metric.split,
            "protocol": metric.protocol,
            "metric": metric.metric,
            "value": float(metric.value),
        }
        for metric in metrics
    ]


def result_row(trial_id: str, attempt: int, result: TrialResult, *, fingerprint: str) -> Row:
    """Return the row of a finished attempt: one column for each of `RESULT_METRICS`."""
    values = {(m.split, m.protocol, m.metric): m.value for m in result.metrics}

    def value(split: Split, protocol: Protocol, metric: str) -> float | None:
        measured = protocol if protocol == "full" else result.protocol
        return values.get((split, measured, metric))

    return {
        "trial": trial_id,
        "attempt": attempt,
        "fingerprint": fingerprint,
        "best_epoch": int(result.best_epoch),
        "epochs_trained": int(result.epochs),
        "stopped_by": result.stopped_by,
        "n_parameters": int(result.n_parameters),
        "seconds": float(result.seconds),
        **{column: value(*key) for column, key in RESULT_METRICS.items()},
    }


def rank_rows(trial_id: str, attempt: int, ranks: Iterable[Ranks]) -> list[Row]:
    """Return a row for each split and protocol that ranks were counted in."""
    return [
        {
            "trial": trial_id,
            "attempt": attempt,
            "split": counts.split,
            "protocol": counts.protocol,
            "n_users": len(counts.greater),
            "greater": pack(counts.greater),
            "equal": pack(counts.equal),
        }
        for counts in ranks
    ]
