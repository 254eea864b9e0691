"""Seeded data sets whose useful embedding is known: what a study of them must find.

Attention values carry no time, so an embedding acts only by choosing which past events to look at:
every recipe is a rule about *which* past event tells the next item.
"""

import numpy as np
from numpy.typing import NDArray

from model.config import SyntheticConfig
from model.data.interactions import Interactions

_N_GROUPS, _N_OWNED = 6, 4
_FAITHFUL = 0.9
_LONGEST_GAP_SECONDS = 1_000_000
_STARTS_WITHIN_SECONDS = 180 * 86_400


def generate(config: SyntheticConfig) -> Interactions:
    """Return the rows of the recipe, users one after the other, oldest event first.

    Items are 1..`items`, users 1..`users`, each with `events` events; there are no ratings.
    """
    match config.recipe:
        case "order":
            return _order(config)


def _order(config: SyntheticConfig) -> Interactions:
    """Plant the position: the event four places back tells the next item's group.

    The catalogue is six groups of items (item number modulo 6); each user owns four of them, in an
    order of its own. slot(i) in 0..3 picks the group of event i, the item is any of the group:
    slot(i) = slot(i - 4) with probability .9, else any of the four. Gaps are log-uniform over 1 to
    10^6 seconds, so that neither clock nor calendar finds the event four places back.

    Groups, not single items: sampled negatives are never a user's own items, so that a model which
    only knows which items a user owns would already put the target first.
    """
    rng = np.random.default_rng(config.seed)
    shape = (config.users, config.events)
    owned = np.argsort(rng.random((config.users, _N_GROUPS)), axis=1)[:, :_N_OWNED]
    slots = rng.integers(0, _N_OWNED, size=shape)
    faithful = rng.random(shape) < _FAITHFUL
    for event in range(4, config.events):
        slots[:, event] = np.where(faithful[:, event], slots[:, event - 4], slots[:, event])
    group = np.take_along_axis(owned, slots, axis=1)
    group_size = (config.items - 1 - group) // _N_GROUPS + 1
    items = 1 + group + _N_GROUPS * rng.integers(0, group_size)
    gaps = np.exp(rng.uniform(0, np.log(_LONGEST_GAP_SECONDS), size=shape)).astype(np.int64)
    start = rng.integers(0, _STARTS_WITHIN_SECONDS, size=(config.users, 1))
    return Interactions(
        users=_texts(np.repeat(np.arange(1, config.users + 1), config.events)),
        items=_texts(items.ravel()),
        timestamps=(start + np.cumsum(gaps, axis=1)).ravel(),
    )


def _texts(numbers: NDArray[np.int64]) -> NDArray[np.object_]:
    return numbers.astype(np.str_).astype(object)
