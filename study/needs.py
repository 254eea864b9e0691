"""What one trial is expected to need: the value that estimates give and dispatchers read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

Kind = tuple[str, str]
"""Model and data set: what a prediction of memory is off by is alike within it."""


@dataclass(frozen=True, slots=True)
class Need:
    """A trial's expected peak memory and duration.

    Attributes:
        bytes: peak memory on the device that it trains on, process and library included.
        seconds: wall-clock time of the whole trial on that device.
        around: the part of `bytes` that is the process's, not the training's.
        kind: of the trial.
    """

    bytes: int
    seconds: float
    around: int = 0
    kind: Kind = ("", "")


Needs = Mapping[str, Need]
"""Trial id -> need; a trial that is missing is packed by the study's `resources` alone."""


def largest(needs: Needs) -> dict[Kind, str]:
    """Return the trial of each kind whose training takes most memory; the first of equals."""
    found: dict[Kind, str] = {}
    for trial_id, need in needs.items():
        best = found.get(need.kind)
        if best is None or need.bytes > needs[best].bytes:
            found[need.kind] = trial_id
    return found


def corrected(needs: Needs, measured: Mapping[Kind, int]) -> dict[str, Need]:
    """Scale the predictions of each kind by what its largest trial took when it was measured.

    Args:
        needs: predictions.
        measured: bytes that a step of the largest trial of a kind added to its process.

    >>> needs = {"a": Need(1_500, 1.0, around=500), "b": Need(700, 1.0, around=500)}
    >>> {key: need.bytes for key, need in corrected(needs, {("", ""): 3_000}).items()}
    {'a': 3500, 'b': 1100}
    """
    factors = {}
    for kind, trial_id in largest(needs).items():
        predicted = needs[trial_id].bytes - needs[trial_id].around
        if kind in measured and predicted > 0:
            factors[kind] = measured[kind] / predicted
    return {
        trial_id: replace(
            need,
            bytes=need.around + ceil((need.bytes - need.around) * factors.get(need.kind, 1.0)),
        )
        for trial_id, need in needs.items()
    }
