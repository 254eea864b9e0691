"""What one trial reports: plain frozen values that travel between processes and outlive torch."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Split = Literal["train", "validation", "test"]
Protocol = Literal["none", "popular-100", "uniform-100", "full"]
"""How candidates are chosen; `none` for quantities without candidates, such as the loss."""

SELECTED_BY = "ndcg@10"
"""The validation metric, under the trial's `protocol`, that the best epoch is chosen by."""

PROTOCOLS: tuple[Protocol, ...] = ("popular-100", "full")
"""What a trial of the default protocol reports."""


def reported(protocol: Protocol) -> tuple[Protocol, ...]:
    """Return the protocols that a trial's results are read under: its own, and `full`.

    >>> reported("uniform-100"), reported("full")
    (('uniform-100', 'full'), ('full',))
    """
    return tuple(dict.fromkeys((protocol, "full")))


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One number: `metric` is `loss`, `ndcg@10`, `recall@5`, `mrr`, ..; NaN and inf are kept."""

    split: Split
    protocol: Protocol
    metric: str
    value: float


def selected(metrics: Iterable[MetricValue]) -> float | None:
    """Return the number that the best epoch is chosen by, if it is among the metrics."""
    key = ("validation", SELECTED_BY)
    return next((m.value for m in metrics if (m.split, m.metric) == key), None)


@dataclass(frozen=True, slots=True)
class EpochReport:
    """What an epoch (counted from 1) gave: training loss, and validation under the `protocol`."""

    epoch: int
    seconds: float
    metrics: tuple[MetricValue, ...]


@dataclass(frozen=True, slots=True)
class Ranks:
    """Per user, in the data set's user order, how many candidates beat or equal the target.

    Attributes:
        greater: candidates that score above the target, int32, shape (users,).
        equal: other candidates that score the same as the target, int32, shape (users,).
    """

    split: Split
    protocol: Protocol
    greater: NDArray[np.int32]
    equal: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TrialResult:
    """A finished trial: everything is read at `best_epoch`, chosen on validation alone.

    Attributes:
        best_epoch: epoch (from 1) with the highest validation NDCG@10 under `protocol`.
        epochs: epochs trained.
        stopped_by: `patience` or the `epochs` budget.
        metrics: means over users, validation and test, under `protocol` and `full`.
        ranks: the counts that the metrics and paired tests come from.
        n_parameters: trainable numbers of the network.
        seconds: wall-clock time of training and evaluation.
        protocol: the trial's own.
    """

    best_epoch: int
    epochs: int
    stopped_by: Literal["patience", "epochs"]
    metrics: tuple[MetricValue, ...]
    ranks: tuple[Ranks, ...]
    n_parameters: int
    seconds: float
    protocol: Protocol = "popular-100"
