"""Where a trained MEANTIME looks: its attention weights, in full or summed by how far back.

The network never writes all weights of all heads down. Here they are computed once more, from the
same projections and relations, without dropout.
"""

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from model.blocks import side_by_side
from model.config import EvaluationConfig
from model.data.batches import Batch, evaluation_batch
from model.data.prepare import PreparedData
from model.data.split import HeldOut, target_positions
from model.meantime import Block, Context, Meantime, MixtureAttention

ITSELF = "itself"
"""The first category of both kinds of distance: the target's own, masked position."""

GAPS: tuple[tuple[str, float], ...] = (
    ("same second", 1),
    ("< 1 minute", 60),
    ("< 1 hour", 3_600),
    ("< 1 day", 86_400),
    ("< 1 week", 604_800),
    ("< 30 days", 2_592_000),
    ("< 1 year", 31_557_600),
    ("longer", math.inf),
)
"""Categories of time between a past event and the target: name, seconds that it stays below."""

STEPS: tuple[tuple[str, float], ...] = (
    ("1", 2),
    ("2", 3),
    ("3–4", 5),
    ("5–8", 9),
    ("9–16", 17),
    ("17–32", 33),
    ("33–64", 65),
    ("65–128", 129),
    ("further", math.inf),
)
"""Categories of events back from the target: name, events that it stays below."""

EXAMPLE_LENGTH = 25
"""Positions that a map of one history should have: more cannot be read."""

_TOGETHER = 32


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """How the target's attention divides over categories of distance, mean over users.

    Attributes:
        names: of the categories, `ITSELF` first.
        attention: sums to 1 over the categories for every block and head.
        uniform: what each category would get if all positions had the same weight.
    """

    names: tuple[str, ...]
    attention: Float64[NDArray[np.float64], "blocks heads categories"]
    uniform: Float64[NDArray[np.float64], "categories"]


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """One user's input, and who attends to what in it.

    Attributes:
        user: the user's id in the data.
        gaps: seconds from each position's event to the target, oldest first; the last is 0.
        weights: rows ask, columns are asked; each row sums to 1.
    """

    user: str
    gaps: Int64[NDArray[np.int64], "time"]
    weights: Float64[NDArray[np.float64], "blocks heads time time"]


@dataclass(frozen=True, slots=True, eq=False)
class AttentionMaps:
    """What the heads of one trained network look at.

    Attributes:
        heads: owner of each head: an embedding, or `content.0`, ..
        split: whose inputs were read.
        n_users: users whose targets' attention is averaged.
        by_gap: over the time to the target.
        by_step: over the events to the target.
        history: one user's.
    """

    heads: tuple[str, ...]
    split: HeldOut
    n_users: int
    by_gap: Shares
    by_step: Shares
    history: History


@torch.inference_mode()
def attention_maps(
    model: Meantime,
    data: PreparedData,
    split: HeldOut,
    *,
    evaluation: EvaluationConfig,
    max_len: int,
    user: int | None = None,
) -> AttentionMaps:
    """Read every user's input as evaluation does and average where the target's position looks.

    Args:
        model: trained, on the CPU.
        data: the data set it was trained on.
        split: whose inputs; no target item is read.
        evaluation: decides the time that the target's position carries.
        max_len: of the model.
        user: whose history is mapped, counted from 0; by default the first of those with nearest
            to `EXAMPLE_LENGTH` positions.
    """
    heads = tuple(cast("Block", model.block[0]).attention.owners)
    shape = (len(model.block), len(heads))
    gap_sums = _Sums(GAPS, shape)
    step_sums = _Sums(STEPS, shape)
    lengths = np.minimum(target_positions(data.offsets, split) - data.offsets[:-1] + 1, max_len)
    order = np.argsort(lengths, kind="stable")
    for first in range(0, len(order), _TOGETHER):
        users = order[first : first + _TOGETHER]
        batch = evaluation_batch(
            data, split, users, max_len=max_len, target_time=evaluation.target_time
        )
        # (blocks, heads, batch, time): what the newest position gives to each.
        weights = attention_weights(model, batch)[..., -1, :].double().numpy()
        real = batch.items.numpy() > 0
        gaps = (batch.times[:, -1:] - batch.times).numpy()
        steps = np.broadcast_to(np.arange(gaps.shape[1])[::-1], gaps.shape)
        gap_sums.add(weights, gaps, real)
        step_sums.add(weights, steps, real)
    if user is None:
        user = int(np.argmin(np.abs(lengths - EXAMPLE_LENGTH)))
    batch = evaluation_batch(
        data, split, np.array([user]), max_len=max_len, target_time=evaluation.target_time
    )
    history = History(
        user=str(data.user_ids[user]),
        gaps=(batch.times[0, -1] - batch.times[0]).numpy(),
        weights=attention_weights(model, batch)[:, :, 0].double().numpy(),
    )
    return AttentionMaps(heads, split, data.n_users, gap_sums.shares(), step_sums.shares(), history)


def attention_weights(
    model: Meantime, batch: Batch
) -> Float[Tensor, "blocks heads batch queries keys"]:
    """Return every head's weights at every position, without dropout; 0 for padding as a key."""
    context = model.context(batch, None)
    x = functional.embedding(batch.items, model.item_embedding)
    found = []
    for module in model.block:
        block = cast("Block", module)
        found.append(_weights(block.attention, block.attention_norm(x), context))
        x = block(x, context, scored=None, dropout=None)
    return torch.stack(found)


def _weights(
    attention: MixtureAttention, x: Float[Tensor, "batch time hidden"], context: Context
) -> Float[Tensor, "heads batch queries keys"]:
    """Repeat what `MixtureAttention` asks of each head, up to the softmax."""
    queries, keys = side_by_side(x, attention.query, attention.key)
    found = []
    for owner in attention.owners:
        own = attention.channels(owner)
        query, key = queries[..., own], keys[..., own]
        scale = query.shape[-1] ** -0.5
        scores = query @ key.mT * scale
        if owner in context.relations:
            scores = scores + attention.relative_scores(
                owner, query, relation=context.relations[owner], dropout=None
            )
        elif owner in context.at_queries:
            at_queries, at_keys = attention.absolute(owner, context, whole=True)
            scores = (query + at_queries) @ (key + at_keys).mT * scale
        if context.unseen is not None:
            scores = scores + context.unseen
        found.append(scores.softmax(dim=-1))
    return torch.stack(found)


class _Sums:
    """Adds up weights by category of distance, user by user."""

    def __init__(self, categories: tuple[tuple[str, float], ...], shape: tuple[int, int]) -> None:
        self._names = (ITSELF, *(name for name, _ in categories))
        self._below = np.array([below for _, below in categories])
        self._attention = np.zeros((*shape, len(self._names)))
        self._uniform = np.zeros(len(self._names))
        self._users = 0

    def add(
        self,
        weights: Float64[NDArray[np.float64], "blocks heads batch time"],
        distances: Int64[NDArray[np.int64], "batch time"],
        real: NDArray[np.bool_],
    ) -> None:
        """Add a batch; distances are not below 0, the newest position is the target's own."""
        category = 1 + np.searchsorted(self._below, distances, side="right")
        category[:, -1] = 0
        even = real / real.sum(axis=1, keepdims=True)
        for n in range(len(self._names)):
            held = real & (category == n)
            self._attention[..., n] += (weights * held).sum(axis=(2, 3))
            self._uniform[n] += even[held].sum()
        self._users += len(real)

    def shares(self) -> Shares:
        """Return the means, without categories in which no event lies."""
        kept = self._uniform > 0
        names = tuple(name for name, there in zip(self._names, kept, strict=True) if there)
        return Shares(
            names, self._attention[..., kept] / self._users, self._uniform[kept] / self._users
        )
