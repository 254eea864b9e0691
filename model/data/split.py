"""Leave-one-out: a user's last item is the test target, the one before validation, the rest trains.

Positions are indices into the flat arrays of `PreparedData`; every user has at least 3 events.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

HeldOut = Literal["validation", "test"]

_FROM_THE_END: dict[HeldOut, int] = {"validation": 2, "test": 1}


def training_ends(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each user's training prefix stops (exclusive), shape (users,).

    >>> training_ends(np.array([0, 5, 8])).tolist()
    [3, 6]
    """
    return offsets[1:] - 2


def target_positions(offsets: NDArray[np.int64], split: HeldOut) -> NDArray[np.int64]:
    """Return where each user's target is; all of the user's earlier events are its input.

    >>> target_positions(np.array([0, 5, 8]), "test").tolist()
    [4, 7]
    """
    return offsets[1:] - _FROM_THE_END[split]
