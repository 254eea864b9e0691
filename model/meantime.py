"""MEANTIME: self-attention in which each head sees time through an embedding of its own.

Cho, Park, Yoo, "MEANTIME: Mixture of Attention Mechanisms with Multi-temporal Embeddings for
Sequential Recommendation", RecSys 2020, arXiv 2008.08273.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from model.attention import attend
from model.blocks import (
    FeedForward,
    ItemHead,
    add_dropped,
    drop,
    linear,
    side_by_side,
    standard_normal,
)
from model.config import ABSOLUTE_EMBEDDINGS, RELATIVE_EMBEDDINGS, MeantimeConfig
from model.data.batches import Batch, TrainingBatch
from model.loss import item_cross_entropy
from model.network import INITIAL_SPREAD, Network
from model.packing import PackedBatch
from model.randomness import torch_generator
from model.relative import (
    GapRelation,
    Gaps,
    Relation,
    SinRelation,
    knot_features,
    rows,
    sin_frequencies,
)


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """What all blocks share about a batch: absolute embeddings are dropped once, not per block.

    Attributes:
        at_queries: the absolute embeddings of the positions that attend.
        at_keys: those of all positions.
        relations: the relative embeddings between the two.
        unseen: what scores get besides: 0, or the lowest number for keys that are padding or of
            another window; None if all keys are seen. Queries may have it in common.
    """

    at_queries: dict[str, Float[Tensor, "batch queries hidden"]]
    at_keys: dict[str, Float[Tensor, "batch keys hidden"]]
    relations: dict[str, Relation]
    unseen: Float[Tensor, "batch #queries keys"] | None

    def rows(self, places: Int64[Tensor, "batch chosen"]) -> "Context":
        """Return the context of the queries at these places; keys stay whole."""
        unseen = self.unseen
        if unseen is not None and unseen.shape[1] > 1:
            unseen = rows(unseen, places)
        return replace(
            self,
            at_queries={name: rows(a, places) for name, a in self.at_queries.items()},
            relations={name: r.rows(places) for name, r in self.relations.items()},
            unseen=unseen,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """The positions at which a batch is scored: the last block computes no others.

    Places count a batch's positions row by row.

    Attributes:
        places: the scored places in order.
        lined_up: each sequence's scored places in order, then others up to the longest.
        real: the places in `lined_up` that are scored; in order they are `places`.
    """

    places: Int64[Tensor, "1 scored"]
    lined_up: Int64[Tensor, "batch chosen"]
    real: Int64[Tensor, "1 scored"]

    @classmethod
    def of(cls, mask: Bool[Tensor, "batch time"]) -> "Scored":
        """Line up the places of a mask."""
        counts = mask.sum(dim=1, keepdim=True)
        longest = int(counts.max())
        columns = mask.int().argsort(dim=1, descending=True, stable=True)[:, :longest]
        sequence = torch.arange(len(mask), device=mask.device)[:, None]
        real = torch.arange(longest, device=mask.device) < counts
        return cls(
            places=mask.flatten().nonzero().mT,
            lined_up=columns + sequence * mask.shape[1],
            real=real.flatten().nonzero().mT,
        )


class MixtureAttention(nn.Module):
    """Content attention, plus what each head's own embedding says about i and j.

    With q, k, v = W x + b (each hidden -> n w), of which head m owns channels m w .. (m + 1) w:

    - with an absolute embedding a: `(q_i + W_PQ a_i + b_PQ) . (k_j + W_PK a_j + b_PK)`
    - with a relative embedding r: `q_i . k_j + (q_i + b_R) . (W_R r_ij + b_WR)`
    - with none, by content: `q_i . k_j`

    divided by sqrt(w). The relative term is `u_i . r_ij`, `u_i = W_R^T (q_i + b_R)`, and what b_WR
    adds. The biases on the key's side, b_K, b_PK and b_WR, are left out: each adds the same to all
    scores of i, which the softmax ignores.
    """

    def __init__(self, config: MeantimeConfig) -> None:
        super().__init__()
        self._heads = config.heads
        self._rate = config.dropout
        self._relative_dropout = config.relative_dropout
        self._width = config.hidden // config.heads
        self.owners = head_owners(config)
        hidden, channels = config.hidden, config.heads * self._width
        absolute = [e for e in config.embeddings if e in ABSOLUTE_EMBEDDINGS]
        relative = [e for e in config.embeddings if e in RELATIVE_EMBEDDINGS]
        self.query = linear(hidden, channels)
        self.key = linear(hidden, channels, bias=False)
        self.value = linear(hidden, channels)
        width = self._width
        self.absolute_query = nn.ModuleDict({e: linear(hidden, width) for e in absolute})
        self.absolute_key = nn.ModuleDict({e: linear(hidden, width, bias=False) for e in absolute})
        self.relative_key = nn.ModuleDict({e: linear(hidden, width, bias=False) for e in relative})
        self.relative_bias = nn.Parameter(torch.empty(1, len(relative), 1, self._width))
        self.output = linear(channels, hidden)

    def forward(
        self,
        x: Float[Tensor, "batch time hidden"],
        context: Context,
        *,
        scored: Scored | None,
        dropout: torch.Generator | None,
    ) -> Float[Tensor, "*positions hidden"]:
        """Attend from the scored positions, laid end to end, or from all if None."""
        if scored is None:
            queries, keys, values = side_by_side(x, self.query, self.key, self.value)
        else:
            context = context.rows(scored.lined_up)
            queries = self.query(rows(x, scored.lined_up))
            keys, values = side_by_side(x, self.key, self.value)
        mixed = []
        widths = [self._width] * self._heads
        of_heads = (x.split_with_sizes(widths, dim=-1) for x in (queries, keys, values))
        for owner, query, key, value in zip(self.owners, *of_heads, strict=True):
            own_query, own_key, relative = query, key, None
            if owner in context.relations:
                relation = context.relations[owner]
                relative = self.relative_scores(owner, query, relation=relation, dropout=dropout)
            elif owner in context.at_queries:
                at_queries, at_keys = self.absolute(owner, context, whole=scored is None)
                own_query, own_key = query + at_queries, key + at_keys
            attended = attend(
                own_query,
                own_key,
                value,
                relative=relative,
                unseen=context.unseen,
                rate=self._rate,
                dropout=dropout,
            )
            mixed.append(attended)
        together = torch.cat(mixed, dim=-1)
        if scored is not None:
            together = rows(together, scored.real)[0]
        return cast("Tensor", self.output(together))

    def absolute(
        self, name: str, context: Context, *, whole: bool
    ) -> tuple[Float[Tensor, "batch queries width"], Float[Tensor, "batch keys width"]]:
        """Project an absolute embedding for queries and keys; `whole`: they are the same."""
        for_query = cast("nn.Linear", self.absolute_query[name])
        for_key = cast("nn.Linear", self.absolute_key[name])
        if whole:
            at_queries, at_keys = side_by_side(context.at_keys[name], for_query, for_key)
            return at_queries, at_keys
        return for_query(context.at_queries[name]), for_key(context.at_keys[name])

    def channels(self, owner: str) -> slice:
        """Return the channels of q, k and v that belong to this owner's head."""
        first = self.owners.index(owner) * self._width
        return slice(first, first + self._width)

    def head_weights(self, owner: str) -> list[Tensor]:
        """Return everything of this owner's head that starts at random."""
        own = self.channels(owner)
        weights: list[Tensor] = [m.weight[own] for m in (self.query, self.key, self.value)]
        weights.append(self.output.weight[:, own])
        by_embedding = (self.absolute_query, self.absolute_key, self.relative_key)
        weights += [cast("nn.Linear", m[owner]).weight for m in by_embedding if owner in m]
        if owner in self.relative_key:
            weights.append(self.relative_bias[:, list(self.relative_key).index(owner)])
        return weights

    def relative_scores(
        self,
        name: str,
        query: Float[Tensor, "batch queries width"],
        *,
        relation: Relation,
        dropout: torch.Generator | None,
    ) -> Float[Tensor, "batch queries keys"]:
        """Return `u_i . r_ij / sqrt(w)`, in training under dropout of r_ij.

        Entry-wise dropout adds `sum_f u_f r_f (mask_f / (1 - p) - 1)`, independent over j, of mean
        0 and variance `p / (1 - p) sum_f u_f^2 r_f^2`: a normal of that variance stands for it.
        A mask on u, `feature`, is common to all j, and the softmax cancels most of its noise.
        """
        bias = self.relative_bias[:, list(self.relative_key).index(name)]
        query = (query + bias) * self._width**-0.5
        weight = cast("nn.Linear", self.relative_key[name]).weight
        if dropout is None or self._rate == 0:
            return relation.scores(query, weight)
        if self._relative_dropout == "feature":
            u = drop(query @ weight, self._rate, dropout)
            return relation.scores(u, torch.eye(u.shape[-1], dtype=u.dtype, device=u.device))
        spread = relation.spread(query, weight)
        noise = standard_normal(spread, dropout)
        strength = math.sqrt(self._rate / (1 - self._rate))
        return torch.addcmul(relation.scores(query, weight), noise, spread, value=strength)


class Block(nn.Module):
    """`x + attention(norm x)`, then `x + feed_forward(norm x)`; branches and end are dropped."""

    def __init__(self, config: MeantimeConfig) -> None:
        super().__init__()
        self._rate = config.dropout
        self.attention_norm = nn.LayerNorm(config.hidden)
        self.attention = MixtureAttention(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden)
        self.feed_forward = FeedForward(config.hidden, config.dropout)

    def forward(
        self,
        x: Float[Tensor, "batch time hidden"],
        context: Context,
        *,
        scored: Scored | None,
        dropout: torch.Generator | None,
    ) -> Float[Tensor, "*positions hidden"]:
        """Return the scored positions, laid end to end, or all of them if None."""
        attended = self.attention(self.attention_norm(x), context, scored=scored, dropout=dropout)
        if scored is not None:
            x = rows(x, scored.places)[0]
        x = add_dropped(x, attended, rate=self._rate, generator=dropout)
        transformed = self.feed_forward(self.feed_forward_norm(x), dropout)
        x = add_dropped(x, transformed, rate=self._rate, generator=dropout)
        return drop(x, self._rate, dropout)


class Meantime(Network):
    """Item embedding, blocks, item head.

    Numbered differences from the paper and its authors' code:

    1. No global content bias b_I: with b_Q + b_I and b_R - b_I it is the same class of functions.
    2. Phases are float64; the authors' are float32, which is noise at gaps of months.
    3. `relative_dropout: entrywise` is a normal of the right variance, drawn for each block, in
       place of masks on r_ij that the blocks share.
    4. The padding row of the item embedding is zero and stays zero; the authors train it.
    5. Heads without an embedding attend by content, so that the number of heads is free.
    6. No b_K, b_PK and b_WR: they cannot change an output, see `MixtureAttention`.

    Weights are drawn per named part (an embedding, its head in a block, a content head, ..): parts
    which two subsets share start equal at equal seeds, hidden size and heads.
    """

    tells_windows_apart = True

    def __init__(self, config: MeantimeConfig, *, n_items: int, n_days: int, seed: int) -> None:
        super().__init__()
        hidden = config.hidden
        self._config = config
        table_rows = {"day": n_days, "pos": config.max_len, "con": 1}
        self.item_embedding = nn.Parameter(torch.empty(n_items + 2, hidden))
        self.embedding = nn.ParameterDict(
            {e: torch.empty(n, hidden) for e, n in table_rows.items() if e in config.embeddings}
        )
        self.block = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.head = ItemHead(hidden, n_items)
        self._frequencies = sin_frequencies(hidden, config.frequency_base)
        self._features = {
            kind: knot_features(kind, hidden, base=config.frequency_base, tau=config.tau)
            for kind in ("exp", "log")
            if kind in config.embeddings
        }
        self._draw(seed)

    def hidden(
        self, batch: Batch, dropout: torch.Generator | None = None
    ) -> Float[Tensor, "batch time hidden"]:
        """Return the last block's output everywhere; at padding it means nothing."""
        return self._encode(batch, None, dropout)

    def loss(
        self, batch: TrainingBatch, dropout: torch.Generator | None = None
    ) -> Float[Tensor, ""]:
        """Return the mean cross entropy over rows 0..I at the chosen positions.

        The batch must have one; a batch without makes no step.
        """
        chosen = batch.labels > 0
        state = self.head.state(self._encode(batch, Scored.of(chosen), dropout))
        return item_cross_entropy(
            state, self.item_embedding, bias=self.head.item_bias, labels=batch.labels[chosen]
        )

    def state(self, batch: Batch) -> Float[Tensor, "batch hidden"]:
        """Return what scores candidates at the newest position, without dropout."""
        newest = torch.zeros_like(batch.items, dtype=torch.bool)
        newest[:, -1] = True
        return self.head.state(self._encode(batch, Scored.of(newest), None))

    def candidate_scores(
        self, state: Float[Tensor, "batch hidden"], candidates: Int64[Tensor, "batch candidates"]
    ) -> Float[Tensor, "batch candidates"]:
        """Score each row's own candidates."""
        return self.head.candidate_scores(state, self.item_embedding, candidates=candidates)

    def all_scores(self, state: Float[Tensor, "batch hidden"]) -> Float[Tensor, "batch classes"]:
        """Score items 1..I; column 0 belongs to padding."""
        return self.head.all_scores(state, self.item_embedding)

    def _encode(
        self, batch: Batch, scored: Scored | None, dropout: torch.Generator | None
    ) -> Float[Tensor, "*positions hidden"]:
        """Run the blocks; the last one at the scored positions alone."""
        context = self.context(batch, dropout)
        x = functional.embedding(batch.items, self.item_embedding)
        x = drop(x, self._config.dropout, dropout)
        last = len(self.block) - 1
        for n, block in enumerate(self.block):
            x = block(x, context, scored=scored if n == last else None, dropout=dropout)
        return x

    def context(self, batch: Batch, dropout: torch.Generator | None) -> Context:
        """Look up absolute embeddings and relate times, in float64, to each newest position's."""
        n_rows, length = batch.items.shape
        absolute = {}
        for name, table in self.embedding.items():
            match name:
                case "day":
                    found = functional.embedding(batch.days, table)
                case "pos" if isinstance(batch, PackedBatch):
                    found = functional.embedding(len(table) - 1 - batch.newer, table)
                case "pos":
                    found = table[-length:].expand(n_rows, -1, -1)
                case _:
                    found = table.expand(n_rows, length, -1)
            absolute[name] = drop(found, self._config.dropout, dropout)
        moments = (batch.times - batch.times[:, -1:]).double() / self._config.tau
        relations: dict[str, Relation] = {}
        dtype, device = self.item_embedding.dtype, self.item_embedding.device
        if "sin" in self._config.embeddings:
            relations["sin"] = SinRelation.of(moments, self._frequencies.to(device), dtype=dtype)
        if self._features:
            gaps = Gaps.of(moments, self._config.tau, dtype=dtype)
            for kind, features in self._features.items():
                relations[kind] = GapRelation(features.to(device, dtype), gaps)
        apart = (batch.items == 0)[:, None, :]
        if isinstance(batch, PackedBatch):
            apart = batch.apart()
        unseen = None
        if apart.any():
            unseen = torch.zeros(apart.shape, dtype=dtype, device=device)
            unseen.masked_fill_(apart, torch.finfo(dtype).min)
        return Context(absolute, absolute, relations, unseen)

    @torch.no_grad()
    def _draw(self, seed: int) -> None:
        """Draw weights, embeddings and b_R from normal(0, 0.02); biases are 0, norms 1."""
        for module in self.modules():
            if isinstance(module, nn.Linear) and module.bias is not None:
                module.bias.zero_()
        for name, weights in self._parts():
            generator = torch_generator(seed, "weights", name)
            for weight in weights:
                weight.copy_(torch.randn(weight.shape, generator=generator) * INITIAL_SPREAD)
        self.item_embedding[0] = 0

    def _parts(self) -> Iterator[tuple[str, list[Tensor]]]:
        """Name every part that is drawn; a part's tensors may be slices of fused weights."""
        yield "item_embedding", [self.item_embedding]
        yield "head", [self.head.linear.weight]
        for name, table in self.embedding.items():
            yield f"embedding.{name}", [table]
        for n, module in enumerate(self.block):
            block = cast("Block", module)
            ends = [block.feed_forward.expand.weight, block.feed_forward.contract.weight]
            yield f"block.{n}.feed_forward", ends
            for owner in block.attention.owners:
                yield f"block.{n}.head.{owner}", block.attention.head_weights(owner)


def head_owners(config: MeantimeConfig) -> list[str]:
    """Return the owner of each head: embeddings in canonical order, then `content.0`, ..

    >>> head_owners(MeantimeConfig(embeddings=("pos", "log"), heads=4))
    ['pos', 'log', 'content.0', 'content.1']
    """
    n_content = config.heads - len(config.embeddings)
    return [*config.embeddings, *(f"content.{m}" for m in range(n_content))]
