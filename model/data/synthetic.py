"""Seeded data sets whose useful embedding is known: what a study of them must find.

Attention values carry no time, so an embedding acts only by choosing which past events to look at.
Every recipe is built on that: each user owns `OWNED` items, drawn at random, and a hidden slot,
0 to 3, says which of them an event is. The recipes differ in what decides the slot, so in which
past events show the same item as the next one. Candidates must include the user's own items
(`protocol: full`, `repeats: allowed`): the question is which of the four comes next, and a ranking
that is shown none of the other three cannot ask it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.config import Embedding, Recipe, SyntheticConfig
from model.data.interactions import Interactions

OWNED = 4

DAY_SECONDS = 86_400
PERIOD_SECONDS = 6_283
"""Of the planted sine: 2 pi / 6283 is the frequency 1e-3, which is one of f^(-2k/h) wherever
h/2 divides by 4, f = 10000 and the time unit is a second."""

PLANTED: dict[Recipe, Embedding | None] = {
    "planted-day": "day",
    "planted-period": "sin",
    "planted-recency": "log",
    "planted-order": "pos",
    "planted-none": None,
}
"""Which embedding a study must find on each recipe's data; nothing on the last."""

_ZERO = 18_262 * DAY_SECONDS
"""A UTC midnight, 2020-01-01: planted days are whole days of the preparation."""
_FAITHFUL = 0.9
_CONCENTRATION = 0.4
_BURSTS = 0.3


@dataclass(frozen=True, slots=True, eq=False)
class _Events:
    """Times (seconds from the recipe's own zero) and slots of every user, shape (users, events)."""

    times: NDArray[np.int64]
    slots: NDArray[np.int64]


def generate(config: SyntheticConfig) -> Interactions:
    """Return the rows of the recipe, users one after the other, oldest event first.

    Items are 1..`items`, users 1..`users`, each with `events` events; there are no ratings.
    """
    rng = np.random.default_rng(config.seed)
    shape = (config.users, config.events)
    owned = rng.permuted(np.tile(np.arange(1, config.items + 1), (config.users, 1)), axis=1)
    match config.recipe:
        case "planted-day":
            events = _by_day(rng, shape)
        case "planted-period":
            events = _by_phase(rng, shape)
        case "planted-recency":
            events = _by_recency(rng, shape)
        case "planted-order":
            events = _by_order(rng, shape)
        case "planted-none":
            events = _by_taste(rng, shape)
    items = np.take_along_axis(owned[:, :OWNED], events.slots, axis=1)
    return Interactions(
        users=_texts(np.repeat(np.arange(1, config.users + 1), config.events)),
        items=_texts(items.ravel()),
        timestamps=(_ZERO + events.times).ravel(),
    )


def _by_day(rng: np.random.Generator, shape: tuple[int, int]) -> _Events:
    """Plant the calendar: a fixed random balanced map from days to slots.

    A user is active on a random half of a stretch of days, one event a day; the stretch starts at
    random within twice its length. Which day it is tells which earlier days were alike, and how
    long ago they were does not.
    """
    n_users, n_events = shape
    stretch = 2 * n_events
    slot_of_day = rng.permutation(np.arange(2 * stretch) % OWNED)
    within = np.argsort(rng.random((n_users, stretch)), axis=1)[:, :n_events]
    start = rng.integers(0, stretch + 1, size=(n_users, 1))
    days = start + np.sort(within, axis=1)
    return _Events(days * DAY_SECONDS + rng.integers(0, DAY_SECONDS, size=shape), slot_of_day[days])


def _by_phase(rng: np.random.Generator, shape: tuple[int, int]) -> _Events:
    """Plant a period: the quarter of the phase, shifted by a constant of the user's own.

    Gaps are 1 to 19 whole periods and a random part of one, so that only a function of the gap
    with that period tells which earlier events were in the same quarter.
    """
    gaps = PERIOD_SECONDS * rng.integers(1, 20, size=shape) + rng.integers(
        0, PERIOD_SECONDS, size=shape
    )
    times = np.cumsum(gaps, axis=1)
    quarters = times % PERIOD_SECONDS * OWNED // PERIOD_SECONDS
    return _Events(times, (quarters + rng.integers(0, OWNED, size=(shape[0], 1))) % OWNED)


def _by_recency(rng: np.random.Generator, shape: tuple[int, int]) -> _Events:
    """Plant the length of the gap: after a short one the event before is repeated.

    Between long gaps, hundreds of days, a user returns to the home item, or now and then begins a
    burst on one of the others; each event of a burst is followed, half the time, by another one
    days later. So order alone leaves it open, after an event that is not home, whether it repeats
    or the user returns home, and the gap tells. Nothing could tell the first event of a burst:
    none is held out. The validation target repeats nine times in ten, so that the test target,
    too, follows an event that is not home, and is that question again.
    """
    slots = np.zeros(shape, dtype=np.int64)
    short = np.zeros(shape, dtype=np.bool_)
    for event in range(1, shape[1]):
        before = slots[:, event - 1]
        again = _FAITHFUL if event == shape[1] - 2 else 0.5
        short[:, event] = (before > 0) & (rng.random(len(slots)) < again)
        begins = rng.random(len(slots)) < _BURSTS
        if event >= shape[1] - 3:  # away from home, for the held-out events to follow
            begins[:] = event == shape[1] - 3
        fresh = np.where(begins, rng.integers(1, OWNED, size=len(slots)), 0)
        slots[:, event] = np.where(short[:, event], before, fresh)
    # Which item is home differs between users already: owned items are in random order.
    gaps = np.where(
        short,
        rng.integers(200_000, 600_000, size=shape),
        rng.integers(20_000_000, 60_000_000, size=shape),
    )
    return _Events(np.cumsum(gaps, axis=1), slots)


def _by_order(rng: np.random.Generator, shape: tuple[int, int]) -> _Events:
    """Plant the position: the event four places back tells the slot, with probability .9.

    Gaps are log-uniform over 1 to 10^6 seconds, so that neither clock nor calendar finds it.
    """
    slots = rng.integers(0, OWNED, size=shape)
    faithful = rng.random(shape) < _FAITHFUL
    for event in range(4, shape[1]):
        slots[:, event] = np.where(faithful[:, event], slots[:, event - 4], slots[:, event])
    return _Events(_scattered(rng, shape), slots)


def _by_taste(rng: np.random.Generator, shape: tuple[int, int]) -> _Events:
    """Plant nothing: slots are independent draws from the user's own taste, Dirichlet(.4)."""
    taste = rng.dirichlet(np.full(OWNED, _CONCENTRATION), size=shape[0])
    upto = np.cumsum(taste, axis=1)[:, None, :-1]
    slots = (rng.random(shape)[:, :, None] > upto).sum(axis=2)
    return _Events(_scattered(rng, shape), slots)


def _scattered(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.int64]:
    """Return times whose gaps are log-uniform over 1 to 10^6 seconds, from a random start."""
    gaps = np.exp(rng.uniform(0, np.log(1_000_000), size=shape)).astype(np.int64)
    return rng.integers(0, 180 * DAY_SECONDS, size=(shape[0], 1)) + np.cumsum(gaps, axis=1)


def _texts(numbers: NDArray[np.int64]) -> NDArray[np.object_]:
    return numbers.astype(np.str_).astype(object)
