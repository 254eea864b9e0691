"""The paper's results, and in what its setting can differ from a study's.

Source: Cho, Park, Yoo, MEANTIME, RecSys 2020 (arXiv 2008.08273), the table of overall performance:
100 negatives by popularity per user, each model at the best point of its own grid.
"""

from typing import NamedTuple

MODELS = ("MARank", "SASRec", "TiSASRec", "BERT4Rec", "MEANTIME")
METRICS = ("recall@5", "recall@10", "ndcg@5", "ndcg@10")

_NUMBERS = {
    "ml-1m": (
        (0.4427, 0.5708, 0.5869, 0.5862, 0.6415),
        (0.5993, 0.6966, 0.7102, 0.6987, 0.7412),
        (0.3042, 0.4142, 0.4307, 0.4420, 0.4932),
        (0.3548, 0.4550, 0.4708, 0.4786, 0.5255),
    ),
    "ml-20m": (
        (0.3938, 0.5274, 0.5412, 0.5910, 0.6225),
        (0.5503, 0.6887, 0.7021, 0.7176, 0.7491),
        (0.2665, 0.3700, 0.3814, 0.4469, 0.4739),
        (0.3170, 0.4223, 0.4336, 0.4879, 0.5150),
    ),
    "beauty": (
        (0.1577, 0.2011, 0.2081, 0.2271, 0.2470),
        (0.2302, 0.2714, 0.2805, 0.3095, 0.3330),
        (0.1085, 0.1464, 0.1512, 0.1633, 0.1764),
        (0.1318, 0.1689, 0.1745, 0.1898, 0.2041),
    ),
    "games": (
        (0.2846, 0.3925, 0.3857, 0.4211, 0.4752),
        (0.4217, 0.5201, 0.5085, 0.5590, 0.6100),
        (0.1893, 0.2735, 0.2735, 0.2970, 0.3446),
        (0.2334, 0.3147, 0.3133, 0.3415, 0.3882),
    ),
}


class Published(NamedTuple):
    """One number of the paper, popular-100, test."""

    dataset: str
    metric: str
    model: str
    value: float


PUBLISHED: tuple[Published, ...] = tuple(
    Published(dataset, metric, model, value)
    for dataset, rows in _NUMBERS.items()
    for metric, row in zip(METRICS, rows, strict=True)
    for model, value in zip(MODELS, row, strict=True)
)

SETTING = (
    "Published numbers: Cho, Park, Yoo (RecSys 2020), popular-100, each model at the best of its "
    "own grid."
)


def published(dataset: str, metric: str) -> dict[str, float]:
    """Return the paper's number of each model, empty where it has none.

    >>> published("games", "ndcg@10")["MEANTIME"]
    0.3882
    """
    return {
        one.model: one.value for one in PUBLISHED if (one.dataset, one.metric) == (dataset, metric)
    }
