"""What a prepared data set is like: sizes, lengths and, above all, what its times can tell.

Pure: a frozen value of numbers and of the three histograms that a report draws.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.data.negatives import N_NEGATIVES, fewest_drawn
from model.data.prepare import PreparedData
from model.data.split import target_positions, training_ends

_QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
_SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Counts between edges, which grow.

    Attributes:
        edges: shape (bins + 1,), in the unit of what is counted.
        counts: shape (bins,); `counts[k]` lie in [edges[k], edges[k + 1]), the last includes its
            end.
    """

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """The statistics of one prepared data set; shares are of 1.

    Attributes:
        name: of the data set.
        fingerprint: of the prepared data.
        users: users. items: items. interactions: events.
        density: interactions / (users x items).
        mean_length: events of a user, held-out ones included.
        length_quantiles: quantile -> events of a user.
        first_second: earliest time, seconds UTC. last_second: latest.
        equal_times: share of events that share their time with another of the same user.
        days_per_user: mean number of distinct UTC days of a user. median_days_per_user: median.
        targets_at_last_time: share of test targets at the time of the event before.
        unseen_test_days: share of test targets on a day that no training event has.
        whole_days: every time is a UTC midnight: order within a day is the file's.
        repeated_targets: share of test targets that the user had before.
        fewest_negatives: the fewest sampled candidates that a user has beside the target.
        lengths: users by number of events, bins that double.
        activity: events by time, 50 equal bins, seconds UTC.
        gaps: gaps between a user's consecutive events by size in seconds, powers of ten from 1;
            gaps of 0 are in `zero_gaps`.
        zero_gaps: how many are 0.
    """

    name: str
    fingerprint: str
    users: int
    items: int
    interactions: int
    density: float
    mean_length: float
    length_quantiles: Mapping[float, float]
    first_second: int
    last_second: int
    equal_times: float
    days_per_user: float
    median_days_per_user: float
    targets_at_last_time: float
    unseen_test_days: float
    whole_days: bool
    repeated_targets: float
    fewest_negatives: int
    lengths: Histogram
    activity: Histogram
    gaps: Histogram
    zero_gaps: int

    @property
    def small_catalogue(self) -> bool:
        """Whether some user has fewer than 100 unseen items to be ranked among."""
        return self.fewest_negatives < N_NEGATIVES


def describe(data: PreparedData) -> Description:
    """Count everything, once."""
    lengths = np.diff(data.offsets)
    user = np.repeat(np.arange(data.n_users), lengths)
    times = data.timestamps
    same_user = user[1:] == user[:-1]
    gaps = np.diff(times)[same_user]
    tied_with_next = same_user & (np.diff(times) == 0)
    tied = np.zeros(len(times), dtype=np.bool_)
    tied[1:] |= tied_with_next
    tied[:-1] |= tied_with_next
    new_day = np.ones(len(times), dtype=np.bool_)
    new_day[1:] = ~same_user | (np.diff(data.days) != 0)
    days = np.bincount(user[new_day], minlength=data.n_users)
    test = target_positions(data.offsets, "test")
    training = np.arange(len(times)) < np.repeat(training_ends(data.offsets), lengths)
    trained_days = np.zeros(data.n_days, dtype=np.bool_)
    trained_days[data.days[training]] = True
    before_target = np.ones(len(times), dtype=np.bool_)
    before_target[test] = False
    had = (data.items == np.repeat(data.items[test], lengths)) & before_target
    fewest = min(fewest_drawn(drawn) for drawn in data.negatives.values())
    return Description(
        name=data.name,
        fingerprint=data.fingerprint,
        users=data.n_users,
        items=data.n_items,
        interactions=len(times),
        density=len(times) / (data.n_users * data.n_items),
        mean_length=float(lengths.mean()),
        length_quantiles={q: float(np.quantile(lengths, q)) for q in _QUANTILES},
        first_second=int(times.min()),
        last_second=int(times.max()),
        equal_times=float(tied.mean()),
        days_per_user=float(days.mean()),
        median_days_per_user=float(np.median(days)),
        targets_at_last_time=float((times[test] == times[test - 1]).mean()),
        unseen_test_days=float((~trained_days[data.days[test]]).mean()),
        whole_days=bool((times % _SECONDS_PER_DAY == 0).all()),
        repeated_targets=float(np.bincount(user[had], minlength=data.n_users).astype(bool).mean()),
        fewest_negatives=fewest,
        lengths=_counted(lengths, 2.0 ** np.arange(1, np.ceil(np.log2(lengths.max() + 1)) + 1)),
        activity=_counted(times, np.linspace(times.min(), times.max() + 1, 51)),
        gaps=_counted(gaps[gaps > 0], 10.0 ** np.arange(0, np.ceil(np.log10(gaps.max() + 2)) + 1)),
        zero_gaps=int((gaps == 0).sum()),
    )


def _counted(values: NDArray[np.int64], edges: NDArray[np.float64]) -> Histogram:
    counts, edges = np.histogram(values, bins=edges)
    return Histogram(edges=edges, counts=counts.astype(np.int64))
