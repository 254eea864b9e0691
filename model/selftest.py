"""A test of the evaluator itself, on this machine, before a study trusts it: five facts, made data.

A scorer that knows nothing must get chance, whatever the implementation of ties; the order of
candidates and the number of users that are ranked at once must not matter; NaN must not be ranked.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from model.config import DatasetConfig, EvaluationConfig, SyntheticConfig
from model.data.batches import Batch
from model.data.prepare import PreparedData, prepare
from model.data.synthetic import generate
from model.errors import Diverged, RequestError
from model.evaluate import evaluate
from model.limits import LIMITS
from model.metrics import ndcg_at, recall_at
from model.results import PROTOCOLS, Ranks

Ranking = Callable[..., tuple[Ranks, ...]]


class _ByItem:
    """Scores an item by a number of its own, whoever asks."""

    def __init__(self, scores: Float[Tensor, "classes"]) -> None:
        self._scores = scores

    def state(self, batch: Batch) -> Float[Tensor, "batch hidden"]:
        return torch.zeros(len(batch.items), 1)

    def candidate_scores(
        self, state: Float[Tensor, "batch hidden"], candidates: Int64[Tensor, "batch candidates"]
    ) -> Float[Tensor, "batch candidates"]:
        del state
        return self._scores[candidates]

    def all_scores(self, state: Float[Tensor, "batch hidden"]) -> Float[Tensor, "batch classes"]:
        return self._scores.expand(len(state), -1)


def check_evaluator(rank: Ranking = evaluate) -> None:
    """Check what every evaluator must do; takes a fraction of a second.

    Args:
        rank: the evaluator; called as `model.evaluate.evaluate`.

    Raises:
        RequestError: it does something else; the message says what.
    """
    data = _data()
    rng = np.random.default_rng(0)
    scores = torch.from_numpy(rng.permutation(data.n_items + 1).astype(np.float32))
    constant, known = _ByItem(torch.zeros_like(scores)), _ByItem(scores)

    for split in ("validation", "test"):
        for ranks in _ranked(rank, constant, data, split=split):
            candidates = ranks.equal + 1.0
            _require((ranks.greater == 0).all(), "equal scores must rank nobody above the target")
            if ranks.protocol == "popular-100":
                counts = 1 + (data.negatives["popular-100"] > 0).sum(1)
                _require((candidates == counts).all(), "each negative must be a candidate, once")
            for k in (1, 5, 10):
                chance = np.minimum(k / candidates, 1.0)
                found = recall_at(k, ranks.greater, equal=ranks.equal)
                _require(
                    np.allclose(found, chance, atol=1e-12),
                    f"constant scores must give Recall@{k} of {k} / candidates",
                )
    plain = _ranked(rank, known, data)
    shuffled = {"popular-100": rng.permutation(data.negatives["popular-100"], axis=1)}
    _require(
        _equal(plain, _ranked(rank, known, replace(data, negatives=shuffled))),
        "the order of candidates must not matter",
    )
    one = replace(LIMITS["cpu"], sequences=1)
    _require(
        _equal(plain, _ranked(rank, known, data, limits=one)),
        "the number of users ranked at once must not matter",
    )
    for ranks in plain:
        for metric in (recall_at, ndcg_at):
            values = [metric(k, ranks.greater, equal=ranks.equal).mean() for k in range(1, 30)]
            _require(bool((np.diff(values) >= 0).all()), "a metric at k must grow with k")
    broken = scores.clone()
    broken[int(data.negatives["popular-100"][0, 0])] = float("nan")
    try:
        _ranked(rank, _ByItem(broken), data)
    except Diverged:
        return
    _require(False, "a score that is NaN must be refused, not ranked")


def _data() -> PreparedData:
    recipe = SyntheticConfig(recipe="planted-order", users=200, items=160, events=8)
    config = DatasetConfig(name="selftest", core="once", min_interactions=3, synthetic=recipe)
    return prepare(generate(recipe), config)


def _ranked(
    rank: Ranking, model: _ByItem, data: PreparedData, *, split: str = "test", **options: object
) -> tuple[Ranks, ...]:
    return rank(
        model,
        data,
        split,
        protocols=PROTOCOLS,
        evaluation=EvaluationConfig(),
        max_len=8,
        **options,
    )


def _equal(some: tuple[Ranks, ...], others: tuple[Ranks, ...]) -> bool:
    return all(
        np.array_equal(a.greater, b.greater) and np.array_equal(a.equal, b.equal)
        for a, b in zip(some, others, strict=True)
    )


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise RequestError(
            f"the evaluator failed its own test: {rule}; nothing was trained: check the versions "
            "of torch and numpy against constraints.txt"
        )
