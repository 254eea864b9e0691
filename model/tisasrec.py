"""TiSASRec: SASRec whose attention knows the time between two events, counted in a personal unit.

Li, Wang, McAuley, "Time Interval Aware Self-Attention for Sequential Recommendation", WSDM 2020.
"""

from dataclasses import dataclass
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
from model.network import draw
from model.next_item import DotProduct, causal_mask, next_item_loss, of_users, without_target
from model.sasrec import PointwiseFeedForward

_SUM = 0  # torch's number for embedding_bag's mode
_SHORT = 2**15


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The interval of every pair of events, in two orders; heads and blocks share them.

    A bag is the pairs of one query, P of them one after the other.

    Attributes:
        interval: row of the tables, for each pair, bag after bag.
        bag: the query of each pair.
        bag_starts: place of each bag's first pair.
        order: the pairs in order of their interval.
        ordered_bag: their queries in that order.
        interval_starts: place of each interval's first pair in that order.
    """

    interval: Int64[Tensor, "pairs"]
    bag: Int64[Tensor, "pairs"]
    bag_starts: Int64[Tensor, "bags"]
    order: Int64[Tensor, "pairs"]
    ordered_bag: Int64[Tensor, "pairs"]
    interval_starts: Int64[Tensor, "intervals"]

    @classmethod
    def of(cls, interval: Int64[Tensor, "batch queries keys"], *, n_intervals: int) -> "Pairs":
        """Sort the pairs; row by row they are as many as keys."""
        flat, n_keys = interval.flatten(), interval.shape[2]
        bag = torch.arange(len(flat), device=flat.device) // n_keys
        # Sorting 16 bits takes a third of the time of sorting 64.
        short = flat.to(torch.int16) if n_intervals <= _SHORT else flat
        order = short.sort(stable=True).indices
        counts = torch.bincount(flat, minlength=n_intervals)
        return cls(
            interval=flat,
            bag=bag,
            bag_starts=torch.arange(0, len(flat), n_keys, device=flat.device),
            order=order,
            ordered_bag=bag[order],
            interval_starts=counts.cumsum(0) - counts,
        )

    def scores(self, query: Tensor, table: Tensor) -> Tensor:
        """Return `query[bag] . table[interval]` of each pair, and make nothing larger."""
        found: Tensor = torch.ops.aten._embedding_bag_per_sample_weights_backward(
            query, table, self.interval, self.bag_starts, self.bag, _SUM
        )
        return found

    def by_query(self, weights: Tensor, table: Tensor) -> Tensor:
        """Return for each query the sum over its pairs of `weight * table[interval]`."""
        return functional.embedding_bag(
            self.interval, table, self.bag_starts, mode="sum", per_sample_weights=weights
        )

    def by_interval(self, weights: Tensor, query: Tensor) -> Tensor:
        """Return for each interval the sum over its pairs of `weight * query[bag]`."""
        return functional.embedding_bag(
            self.ordered_bag,
            query,
            self.interval_starts,
            mode="sum",
            per_sample_weights=weights[self.order],
        )


class IntervalScores(Function):
    """`q[i] . table[d_ij]` of every pair; both gradients are sums over pairs."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, table: Tensor, pairs: Pairs) -> Tensor:  # noqa: ANN401
        """Return a number for each pair."""
        ctx.save_for_backward(query, table)
        ctx.pairs = pairs
        return pairs.scores(query, table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:  # noqa: ANN401
        """Sum by query and by interval."""
        query, table = ctx.saved_tensors
        gradient = gradient.contiguous()
        by_query = ctx.pairs.by_query(gradient, table)
        return by_query, ctx.pairs.by_interval(gradient, query), None


class IntervalValues(Function):
    """`sum_j a_ij table[d_ij]` of every query."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, table: Tensor, pairs: Pairs) -> Tensor:  # noqa: ANN401
        """Return a row for each query."""
        ctx.save_for_backward(weights, table)
        ctx.pairs = pairs
        return pairs.by_query(weights, table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:  # noqa: ANN401
        """Score each pair by the gradient, and sum by interval."""
        weights, table = ctx.saved_tensors
        gradient = gradient.contiguous()
        of_pairs = ctx.pairs.scores(gradient, table)
        return of_pairs, ctx.pairs.by_interval(weights, gradient), None


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
        mask, pairs = context.of_newest(query.shape[1])
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
            timed = interval_scores(q.flatten(0, 1), r_k, pairs=pairs)
            weights = torch.softmax(scores + timed.view_as(scores), dim=-1)
            weights = drop(weights, self._rate, dropout)
            by_time = interval_values(weights.flatten(), r_v, pairs=pairs)
            mixed.append(torch.bmm(weights, v) + by_time.view_as(q))
        return torch.cat(mixed, dim=-1)


class Context:
    """What the blocks share about a batch.

    Attributes:
        mask: 0 where attention may go, else the lowest number.
        interval_key, interval_value: the interval tables after dropout.
        position_key, position_value: of the batch's positions, after dropout.
    """

    def __init__(self, network: "Tisasrec", batch: Batch, dropout: torch.Generator | None) -> None:
        length = batch.items.shape[1]
        scaled = scaled_times(batch)
        most = len(network.interval_key) - 1
        self._intervals = (scaled[:, :, None] - scaled[:, None, :]).abs_().clamp_(max=most)
        self._pairs: dict[int, Pairs] = {}
        self.mask = causal_mask(batch.items, network.interval_key.dtype)

        def dropped(table: Tensor) -> Tensor:
            return drop(table, network.rate, dropout)

        self.interval_key = dropped(network.interval_key)
        self.interval_value = dropped(network.interval_value)
        self.position_key = dropped(network.position_key[-length:])
        self.position_value = dropped(network.position_value[-length:])

    def of_newest(self, n: int) -> tuple[Float[Tensor, "batch n time"], Pairs]:
        """Return the mask and the pairs of the newest n queries."""
        if n not in self._pairs:
            self._pairs[n] = Pairs.of(self._intervals[:, -n:], n_intervals=len(self.interval_key))
        return self.mask[:, -n:], self._pairs[n]


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


class Tisasrec(DotProduct):
    """Item embedding, dropout, blocks that know intervals and positions, a final norm.

    The interval of two events is `|s_i - s_j|`, at most `max_interval`, of the personalised times
    `s_i = round((t_i - t_first) / u) + 1`; the unit u is the user's smallest non-zero gap among the
    times that are known: the training prefix, at evaluation all before the target. The target's
    own time is not read. Scores and loss are SASRec's.

    Numbered differences from the paper and its authors' code, beside those of `model.sasrec`:

    1. No tensor of batch x time x time x hidden: the tables have few rows, so a pair's row is read
       where it is needed and summed at once; the gradients of the tables sum sorted pairs.
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


def interval_scores(
    query: Float[Tensor, "queries width"], table: Float[Tensor, "intervals width"], *, pairs: Pairs
) -> Float[Tensor, "pairs"]:
    """Return `query . table[interval]` of each pair."""
    with torch.autocast(query.device.type, enabled=False):
        found = IntervalScores.apply(  # type: ignore[no-untyped-call]
            query.to(table.dtype).contiguous(), table.contiguous(), pairs
        )
    return cast("Tensor", found)


def interval_values(
    weights: Float[Tensor, "pairs"], table: Float[Tensor, "intervals width"], *, pairs: Pairs
) -> Float[Tensor, "queries width"]:
    """Return for each query the sum over its pairs of `weight * table[interval]`."""
    with torch.autocast(weights.device.type, enabled=False):
        found = IntervalValues.apply(  # type: ignore[no-untyped-call]
            weights.to(table.dtype).contiguous(), table.contiguous(), pairs
        )
    return cast("Tensor", found)


def scaled_times(batch: Batch) -> Int64[Tensor, "batch time"]:
    """Return `round((t - t_first) / unit) + 1` of each event; at padding it means nothing."""
    elapsed = (batch.times - batch.times[:, :1]).double()
    return (elapsed / of_users(batch).units).round().long() + 1
