"""TiSASRec: SASRec whose attention knows the time between two events, counted in a personal unit.

Li, Wang, McAuley, "Time Interval Aware Self-Attention for Sequential Recommendation", WSDM 2020.
"""

from typing import Any, cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

from model.blocks import drop, linear
from model.config import TisasrecConfig
from model.data.batches import Batch, TrainingBatch
from model.network import Network, draw
from model.sasrec import (
    PointwiseFeedForward,
    causal_mask,
    dots,
    next_item_loss,
    of_users,
    without_target,
)


class IntervalScores(Function):
    """`out[b, i, j] = q[b, i] . table[index[b, i, j]]`, by a look-up in `q table^T`.

    A tensor of batch x time x time x width never exists: the product has a column for each
    interval, and its gradient is the sum of the scores' gradients over the pairs of that interval.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, table: Tensor, index: Tensor) -> Tensor:  # noqa: ANN401
        """Look the scores up."""
        ctx.save_for_backward(query, table, index)
        return torch.matmul(query, table.T).gather(2, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:  # noqa: ANN401
        """Collect the gradient by interval."""
        query, table, index = ctx.saved_tensors
        by_interval = histogram(gradient, index, n=len(table))
        d_table = by_interval.flatten(0, 1).T @ query.flatten(0, 1)
        return by_interval @ table, d_table, None


class IntervalValues(Function):
    """`out[b, i] = sum_j a[b, i, j] table[index[b, i, j]]`, by a histogram of the weights a."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, table: Tensor, index: Tensor) -> Tensor:  # noqa: ANN401
        """Sum the weights by interval, then the table's rows."""
        ctx.save_for_backward(weights, table, index)
        return histogram(weights, index, n=len(table)) @ table

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:  # noqa: ANN401
        """Look the gradient of the weights up; the histogram is made again, to keep none."""
        weights, table, index = ctx.saved_tensors
        by_interval = histogram(weights, index, n=len(table))
        d_table = by_interval.flatten(0, 1).T @ gradient.flatten(0, 1)
        return torch.matmul(gradient, table.T).gather(2, index), d_table, None


def histogram(
    values: Float[Tensor, "batch queries keys"],
    index: Int64[Tensor, "batch queries keys"],
    *,
    n: int,
) -> Float[Tensor, "batch queries n"]:
    """Return `out[b, i, r]`, the sum of the values of which the index is r."""
    found = values.new_zeros(*values.shape[:2], n)
    return found.scatter_add_(2, index, values)


class TimedAttention(nn.Module):
    """Each head, over j <= i that are no padding, with d_ij the interval between i and j:

    - `score_ij = q_i . (k_j + p_j + r[d_ij]) / sqrt(w)`, softmax over j, a_ij
    - `out_i = sum_j a_ij (v_j + p'_j + r'[d_ij])`

    q, k and v as in SASRec; p, p' are position and r, r' interval embeddings for keys and values,
    the blocks' own in common, of which a head takes its channels.
    """  # noqa: D415

    def __init__(self, config: TisasrecConfig) -> None:
        super().__init__()
        self._rate, self._width = config.dropout, config.hidden // config.heads
        self.query = linear(config.hidden, config.hidden)
        self.key = linear(config.hidden, config.hidden)
        self.value = linear(config.hidden, config.hidden)

    def forward(
        self,
        query: Float[Tensor, "batch queries hidden"],
        x: Float[Tensor, "batch time hidden"],
        *,
        context: "Context",
        dropout: torch.Generator | None,
    ) -> Float[Tensor, "batch queries hidden"]:
        """Attend from the given queries, the newest positions of `x`."""
        n_queries = query.shape[1]
        mask, index = context.mask[:, -n_queries:], context.index[:, -n_queries:]
        tensors = (
            self.query(query) * self._width**-0.5,
            self.key(x) + context.position_key,
            self.value(x) + context.position_value,
            context.interval_key,
            context.interval_value,
        )
        mixed = []
        for q, k, v, r_k, r_v in zip(*(y.split(self._width, -1) for y in tensors), strict=True):
            scores = torch.baddbmm(mask, q, k.mT)
            scores = scores + IntervalScores.apply(q, r_k.contiguous(), index)  # type: ignore[no-untyped-call]
            weights = drop(torch.softmax(scores, dim=-1), self._rate, dropout)
            by_time = IntervalValues.apply(weights, r_v.contiguous(), index)  # type: ignore[no-untyped-call]
            mixed.append(torch.bmm(weights, v) + by_time)
        return torch.cat(mixed, dim=-1)


class Context:
    """What the blocks share about a batch.

    Attributes:
        mask: 0 where attention may go, else the lowest number.
        index: the row of the interval tables for each pair of events.
        interval_key, interval_value: the rows that the batch uses, after dropout.
        position_key, position_value: of the batch's positions, after dropout.
    """

    def __init__(self, network: "Tisasrec", batch: Batch, dropout: torch.Generator | None) -> None:
        length = batch.items.shape[1]
        scaled = scaled_times(batch)
        most = len(network.interval_key) - 1
        clipped = (scaled[:, :, None] - scaled[:, None, :]).abs().clamp_(max=most)
        # Only intervals that occur get a column: with seconds as the unit most pairs are clipped.
        occurs = torch.zeros(most + 1, dtype=torch.int64, device=clipped.device)
        occurs[clipped.flatten()] = 1
        used = occurs.nonzero()[:, 0]
        self.index = (occurs.cumsum(0) - 1)[clipped]
        self.mask = causal_mask(batch.items, network.interval_key.dtype)

        def dropped(table: Tensor) -> Tensor:
            return drop(table, network.rate, dropout)

        self.interval_key = dropped(network.interval_key[used])
        self.interval_value = dropped(network.interval_value[used])
        self.position_key = dropped(network.position_key[-length:])
        self.position_value = dropped(network.position_value[-length:])


class Block(nn.Module):
    """SASRec's block around `TimedAttention`."""

    def __init__(self, config: TisasrecConfig) -> None:
        super().__init__()
        self.query_norm = nn.LayerNorm(config.hidden)
        self.attention = TimedAttention(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden)
        self.feed_forward = PointwiseFeedForward(config.hidden, config.dropout)

    def forward(
        self,
        x: Float[Tensor, "batch time hidden"],
        context: Context,
        *,
        newest: int,
        dropout: torch.Generator | None,
    ) -> Float[Tensor, "batch newest hidden"]:
        """Return the `newest` positions."""
        query = self.query_norm(x[:, -newest:])
        y = query + self.attention(query, x, context=context, dropout=dropout)
        z = self.feed_forward_norm(y)
        return cast("Tensor", z + self.feed_forward(z, dropout))


class Tisasrec(Network):
    """Item embedding, dropout, blocks that know intervals and positions, a final norm.

    The interval of two events is `|s_i - s_j|`, at most `max_interval`, of the personalised times
    `s_i = round((t_i - t_first) / u) + 1`; the unit u is the user's smallest non-zero gap among the
    times that are known: the training prefix, at evaluation all before the target. The target's
    own time is not read. Scores and loss are SASRec's.

    Numbered differences from the paper and its authors' code, beside those of `model.sasrec`:

    1. No tensor of batch x time x time x hidden: clipped intervals allow a look-up for keys and a
       histogram of weights for values, exact identities.
    2. Dropout of interval and position embeddings masks the tables, one mask a batch, where the
       authors mask each pair of events on its own.
    3. The unit comes from known times only; the authors' is taken over the whole history, the
       held-out events included.
    """

    def __init__(self, config: TisasrecConfig, *, n_items: int, seed: int) -> None:
        super().__init__()
        self._config, self.rate = config, config.dropout
        hidden = config.hidden
        self.item_embedding = nn.Parameter(torch.empty(n_items + 2, hidden))
        self.position_key = nn.Parameter(torch.empty(config.max_len, hidden))
        self.position_value = nn.Parameter(torch.empty(config.max_len, hidden))
        self.interval_key = nn.Parameter(torch.empty(config.max_interval + 1, hidden))
        self.interval_value = nn.Parameter(torch.empty(config.max_interval + 1, hidden))
        self.block = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.final_norm = nn.LayerNorm(hidden)
        draw(self, seed)

    def hidden(
        self,
        batch: Batch,
        dropout: torch.Generator | None = None,
        *,
        newest: int | None = None,
    ) -> Float[Tensor, "batch newest hidden"]:
        """Return the state after each of the `newest` events, or after all if None."""
        length = batch.items.shape[1]
        context = Context(self, batch, dropout)
        x = functional.embedding(batch.items, self.item_embedding)
        x = drop(x, self.rate, dropout)
        last = len(self.block) - 1
        for n, block in enumerate(self.block):
            wanted = newest or length if n == last else length
            x = block(x, context, newest=wanted, dropout=dropout)
        return cast("Tensor", self.final_norm(x))

    def loss(
        self, batch: TrainingBatch, dropout: torch.Generator | None = None
    ) -> Float[Tensor, ""]:
        """Return the mean loss over positions with a next item."""
        return next_item_loss(
            self.hidden(batch, dropout), batch, items=self.item_embedding, config=self._config
        )

    def state(self, batch: Batch) -> Float[Tensor, "batch hidden"]:
        """Return the state after the newest event; the target's own place is not read."""
        return self.hidden(without_target(batch), newest=1)[:, -1]

    def candidate_scores(
        self, state: Float[Tensor, "batch hidden"], candidates: Int64[Tensor, "batch candidates"]
    ) -> Float[Tensor, "batch candidates"]:
        """Score each row's own candidates."""
        return dots(state, self.item_embedding, items=candidates)

    def all_scores(self, state: Float[Tensor, "batch hidden"]) -> Float[Tensor, "batch classes"]:
        """Score items 1..I; column 0 belongs to padding."""
        return state @ self.item_embedding[:-1].T


def scaled_times(batch: Batch) -> Int64[Tensor, "batch time"]:
    """Return `round((t - t_first) / unit) + 1` of each event; at padding it means nothing."""
    elapsed = (batch.times - batch.times[:, :1]).double()
    return (elapsed / of_users(batch).units).round().long() + 1
