"""What is known of a data set's users: how long and how fast, and whether the target's time tells.

Traits come from the prepared data, of which a store keeps only the fingerprint.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.data.prepare import PreparedData


class UserTraits(NamedTuple):
    """One value for each user, in the data set's user order.

    Attributes:
        history: events before the test target, int64.
        span: seconds from the first of them to the last, int64.
        same_time: whether the test target carries the timestamp of the event before it.
    """

    history: NDArray[np.int64]
    span: NDArray[np.int64]
    same_time: NDArray[np.bool_]


class UserGroup(NamedTuple):
    """Some users.

    Attributes:
        trait: what they have in common.
        label: the level of that, with its bounds.
        members: True for each user of the group, shape (users,).
    """

    trait: str
    label: str
    members: NDArray[np.bool_]


def user_traits(data: PreparedData) -> UserTraits:
    """Return the traits of a prepared data set's users."""
    first, last = data.offsets[:-1], data.offsets[1:] - 1
    times = data.timestamps
    return UserTraits(
        history=last - first,
        span=times[last - 1] - times[first],
        same_time=times[last] == times[last - 1],
    )


def user_groups(traits: UserTraits, *, fewest: int = 20) -> tuple[UserGroup, ...]:
    """Split users by history and span into thirds, and by whether the target's time is the same.

    Ties keep thirds from being equal: a bound belongs to the lower group. Groups of fewer than
    `fewest` users are left out.
    """
    days = traits.span / 86_400
    found = [
        *_thirds("history", traits.history.astype(np.float64), unit="events"),
        *_thirds("time span", days, unit="days"),
        UserGroup("target's time", "same as the event before", traits.same_time),
        UserGroup("target's time", "later", ~traits.same_time),
    ]
    return tuple(group for group in found if group.members.sum() >= fewest)


def _thirds(trait: str, values: NDArray[np.float64], *, unit: str) -> Iterator[UserGroup]:
    low, high = np.quantile(values, (1 / 3, 2 / 3))
    yield UserGroup(trait, f"up to {low:.3g} {unit}", values <= low)
    middle = (values > low) & (values <= high)
    yield UserGroup(trait, f"over {low:.3g} to {high:.3g} {unit}", middle)
    yield UserGroup(trait, f"over {high:.3g} {unit}", values > high)
