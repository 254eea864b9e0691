"""Where a dispatcher takes its trials from: a list, or a search that decides as results come.

All of it lives in the driver, in the thread that hands out events, so nothing here is locked.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from study.execute import Event
from study.trial import Trial

Course = tuple[tuple[int, float], ...]
"""Epoch (from 1) and validation NDCG@10 of a trial, epoch by epoch."""


@dataclass(frozen=True, slots=True)
class Race:
    """Trials of one race are stopped early where too many others did better at the same epoch.

    At the epochs `first`, `first * reduction`, `first * reduction ** 2`, .. before `last` a trial
    goes on only if it is among the best `1 / reduction` of those that came so far before it.

    Attributes:
        name: trials with equal names compete.
        first: the epoch of the first comparison; every trial trains as long.
        reduction: how many trials there are for each that goes on.
        last: the epoch budget, where nothing is left to save.
    """

    name: str
    first: int
    reduction: int
    last: int


AHEAD = 2
"""Trials taken beyond those that there is room for, so that no worker waits for the launch.

A search chooses them without the results of the trials that are under way then.
"""

FAR_AHEAD = 32
"""As many where nothing is chosen: a worker that finds no trial waiting would be ended by Ray."""


class Supply(Protocol):
    """Hands out trials; what comes next may depend on the events of those before."""

    @property
    def ahead(self) -> int:
        """How many trials may be taken before there is room for them."""
        ...

    def take(self) -> Trial | None:
        """Return the next trial, or None where it must wait for events."""
        ...

    def race(self, trial: Trial) -> Race | None:
        """Return the race that the trial takes part in; None: it trains until its own end."""
        ...

    def run_before(self, race: Race) -> dict[str, Course]:
        """Return the courses of trials that ran this race in earlier launches, by trial id."""
        ...

    def alone(self, trial: Trial) -> bool:
        """Whether the trial is to have a whole device: beside others it ran out of memory."""
        ...

    def observe(self, event: Event) -> None:
        """Take in an event that is recorded; a failure only if the trial is not tried again."""
        ...


class Declared:
    """A supply of given trials, in order, once each, none of which is stopped early."""

    ahead = FAR_AHEAD

    def __init__(self, trials: Iterable[Trial]) -> None:
        self._waiting = deque(trials)

    def take(self) -> Trial | None:
        """Return the next trial."""
        return self._waiting.popleft() if self._waiting else None

    def race(self, trial: Trial) -> Race | None:  # noqa: ARG002
        """Return None: all are trained in full."""
        return None

    def run_before(self, race: Race) -> dict[str, Course]:  # noqa: ARG002
        """Return nothing: there are no races."""
        return {}

    def alone(self, trial: Trial) -> bool:  # noqa: ARG002
        """Return False: nothing is known of them."""
        return False

    def observe(self, event: Event) -> None:
        """Nothing is decided by results."""


def supply_of(trials: Sequence[Trial] | Supply) -> Supply:
    """Return a list of trials as a supply; a supply as it is."""
    return Declared(trials) if isinstance(trials, Sequence) else trials
