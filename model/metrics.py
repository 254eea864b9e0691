"""Ranking metrics per user from two counts: candidates above the target, and others equal to it.

Equal scores are broken at random in expectation: with g above and e equal, each of the ranks
g+1 .. g+e+1 is as likely as the next, so a constant scorer gets exactly k / C among C candidates.
Per user first, mean over users last; all in float64.
"""

import numpy as np
from numpy.typing import NDArray

from model.results import MetricValue, Ranks

Counts = NDArray[np.int32] | NDArray[np.int64]
PerUser = NDArray[np.float64]


def recall_at(k: int, greater: Counts, *, equal: Counts) -> PerUser:
    """Return the probability that the target is among the first k, shape (users,).

    >>> recall_at(10, np.array([9, 10, 0]), equal=np.array([0, 0, 100])).round(4).tolist()
    [1.0, 0.0, 0.099]
    """
    expected: PerUser = (k - greater) / (equal + 1.0)
    return expected.clip(0.0, 1.0)


def ndcg_at(k: int, greater: Counts, *, equal: Counts) -> PerUser:
    """Return the expected `[rank <= k] / log2(rank + 1)`, shape (users,).

    >>> ndcg_at(10, np.array([0, 2, 10, 0]), equal=np.array([0, 0, 0, 100])).round(4).tolist()
    [1.0, 0.5, 0.0, 0.045]
    """
    return _expected(1 / np.log2(np.arange(2, k + 2)), greater, equal)


def mrr(greater: Counts, equal: Counts) -> PerUser:
    """Return the expected `1 / rank`, shape (users,).

    >>> mrr(np.array([0, 3, 0]), np.array([0, 0, 1])).round(4).tolist()
    [1.0, 0.25, 0.75]
    """
    last = int((greater + equal).max(initial=0)) + 1
    return _expected(1 / np.arange(1, last + 1), greater, equal)


def summarise(ranks: Ranks) -> tuple[MetricValue, ...]:
    """Return recall and NDCG at 5 and 10 and MRR, each a mean over users."""
    greater, equal = ranks.greater, ranks.equal
    per_user = {
        "recall@5": recall_at(5, greater, equal=equal),
        "recall@10": recall_at(10, greater, equal=equal),
        "ndcg@5": ndcg_at(5, greater, equal=equal),
        "ndcg@10": ndcg_at(10, greater, equal=equal),
        "mrr": mrr(greater, equal),
    }
    return tuple(
        MetricValue(ranks.split, ranks.protocol, name, float(values.mean()))
        for name, values in per_user.items()
    )


def _expected(gains: PerUser, greater: Counts, equal: Counts) -> PerUser:
    """Return the mean gain over ranks g+1 .. g+e+1; ranks past the end of `gains` gain nothing."""
    summed = np.concatenate([[0.0], np.cumsum(gains)])
    end = len(gains)
    upto = summed[np.minimum(greater + equal + 1, end)] - summed[np.minimum(greater, end)]
    mean: PerUser = upto / (equal + 1.0)
    return mean
