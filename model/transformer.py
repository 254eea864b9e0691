"""The plain Transformer: an encoder reads older events, a decoder predicts what follows newer ones.

Vaswani et al., "Attention Is All You Need", NeurIPS 2017, arXiv 1706.03762.
"""

import math
from typing import cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from model.attention import attend
from model.blocks import add_dropped, drop, linear
from model.config import TransformerConfig
from model.data.batches import Batch, TrainingBatch
from model.loss import item_cross_entropy
from model.network import Network, draw
from model.next_item import causal_mask, dots, without_target


class MultiHeadAttention(nn.Module):
    """`W_O [softmax(q_m k_m^T / sqrt(w) + mask) v_m]_m`: scaled dot products, head by head."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self._rate, self._width = config.dropout, config.hidden // config.heads
        self.query = linear(config.hidden, config.hidden)
        self.key = linear(config.hidden, config.hidden)
        self.value = linear(config.hidden, config.hidden)
        self.output = linear(config.hidden, config.hidden)

    def forward(
        self,
        query: Float[Tensor, "batch queries hidden"],
        memory: Float[Tensor, "batch keys hidden"],
        *,
        unseen: Float[Tensor, "batch #queries keys"],
        dropout: torch.Generator | None,
    ) -> Float[Tensor, "batch queries hidden"]:
        """Attend from the queries to the rows of memory where `unseen` is 0."""
        of_heads = (
            y.split(self._width, dim=-1)
            for y in (self.query(query), self.key(memory), self.value(memory))
        )
        mixed = [
            attend(q, k, v, relative=None, unseen=unseen, rate=self._rate, dropout=dropout)
            for q, k, v in zip(*of_heads, strict=True)
        ]
        return cast("Tensor", self.output(torch.cat(mixed, dim=-1)))


class ReluFeedForward(nn.Module):
    """`W2 drop(relu(W1 x + b1)) + b2`, hidden -> 4 hidden -> hidden."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self._rate = config.dropout
        self.expand = linear(config.hidden, 4 * config.hidden)
        self.contract = linear(4 * config.hidden, config.hidden)

    def forward(
        self, x: Float[Tensor, "*rows hidden"], dropout: torch.Generator | None
    ) -> Float[Tensor, "*rows hidden"]:
        """Transform every row on its own."""
        inner = drop(functional.relu(self.expand(x)), self._rate, dropout)
        return cast("Tensor", self.contract(inner))


class EncoderLayer(nn.Module):
    """`x + drop(attention(norm x))`, then `x + drop(feed_forward(norm x))`."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self._rate = config.dropout
        self.attention_norm = nn.LayerNorm(config.hidden)
        self.attention = MultiHeadAttention(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden)
        self.feed_forward = ReluFeedForward(config)

    def forward(
        self,
        x: Float[Tensor, "batch time hidden"],
        *,
        unseen: Float[Tensor, "batch #time time"],
        dropout: torch.Generator | None,
    ) -> Float[Tensor, "batch time hidden"]:
        """Let every event see every other."""
        normed = self.attention_norm(x)
        attended = self.attention(normed, normed, unseen=unseen, dropout=dropout)
        x = add_dropped(x, attended, rate=self._rate, generator=dropout)
        made = self.feed_forward(self.feed_forward_norm(x), dropout)
        return add_dropped(x, made, rate=self._rate, generator=dropout)


class DecoderLayer(nn.Module):
    """The encoder's layer with attention to the encoder's output between its two sublayers."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self._rate = config.dropout
        self.attention_norm = nn.LayerNorm(config.hidden)
        self.attention = MultiHeadAttention(config)
        self.source_norm = nn.LayerNorm(config.hidden)
        self.source_attention = MultiHeadAttention(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden)
        self.feed_forward = ReluFeedForward(config)

    def forward(
        self,
        x: Float[Tensor, "batch time hidden"],
        source: "Source | None",
        *,
        unseen: Float[Tensor, "batch time time"],
        dropout: torch.Generator | None,
    ) -> Float[Tensor, "batch time hidden"]:
        """Let every event see those before it, and the encoder's output."""
        normed = self.attention_norm(x)
        attended = self.attention(normed, normed, unseen=unseen, dropout=dropout)
        x = add_dropped(x, attended, rate=self._rate, generator=dropout)
        if source is not None:
            read = self.source_attention(
                self.source_norm(x), source.memory, unseen=source.unseen, dropout=dropout
            )
            x = add_dropped(x, read * source.exists, rate=self._rate, generator=dropout)
        made = self.feed_forward(self.feed_forward_norm(x), dropout)
        return add_dropped(x, made, rate=self._rate, generator=dropout)


class Source:
    """What the decoder reads of the encoder.

    Attributes:
        memory: the encoder's output.
        unseen: 0 at events, the lowest number at padding.
        exists: 1 for sequences with an older event, 0 for those without, which read nothing.
    """

    def __init__(
        self, memory: Float[Tensor, "batch time hidden"], items: Int64[Tensor, "batch time"]
    ) -> None:
        self.memory = memory
        self.unseen = padding_mask(items, memory.dtype)
        self.exists = (items > 0).any(dim=1).to(memory.dtype)[:, None, None]


class Transformer(Network):
    """Embeddings times sqrt(hidden) plus sinusoids, encoder, decoder, generator.

    Of `max_len` events the newer half goes to the decoder, which at each of them predicts the next
    item and sees no later one; the older half goes to the encoder, where every event sees every
    other, and each layer of the decoder attends to all of it. Position p counts back from the
    newest event: `sin(p / 10000^(2k/hidden))`, `cos(..)`. A norm ends each stack. The generator
    scores item i by `x . e_i + b_i`: the paper, too, shares its matrix with the embedding. Loss:
    cross entropy over all items.

    Numbered differences from the paper:

    1. Norms come before sublayers, and one ends each stack, as in common implementations.
    2. The inner size is four times the hidden size (as 2048 is of 512), the depth is a factor.
    3. No label smoothing and no warm-up: the training budget's rules are those of every model.
    4. Windows end every half `max_len` events, so that the decoder's halves tile a history: of a
       history longer than `max_len` the first events are read and not predicted.
    """

    def __init__(self, config: TransformerConfig, *, n_items: int, seed: int) -> None:
        super().__init__()
        self._config = config
        self.item_embedding = nn.Parameter(torch.empty(n_items + 2, config.hidden))
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.encoder_norm = nn.LayerNorm(config.hidden)
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.decoder_norm = nn.LayerNorm(config.hidden)
        self.item_bias = nn.Parameter(torch.zeros(1, n_items + 1))
        draw(self, seed, matrices="glorot")

    def hidden(
        self, batch: Batch, dropout: torch.Generator | None = None
    ) -> Float[Tensor, "batch newer hidden"]:
        """Return the state after each event of the newer half."""
        items = batch.items
        n_newer = min(self._config.asked, items.shape[1])
        source = self._source(items[:, :-n_newer], dropout, after=n_newer)
        newer = items[:, -n_newer:]
        x = self._embedded(newer, dropout, after=0)
        mask = causal_mask(newer, x.dtype)
        for layer in self.decoder:
            x = layer(x, source, unseen=mask, dropout=dropout)
        return cast("Tensor", self.decoder_norm(x))

    def loss(
        self, batch: TrainingBatch, dropout: torch.Generator | None = None
    ) -> Float[Tensor, ""]:
        """Return the mean cross entropy over positions with a next item, all in the newer half."""
        hidden = self.hidden(batch, dropout)
        labels = batch.labels[:, -hidden.shape[1] :]
        chosen = labels > 0
        bias = self.item_bias.index_fill(
            1,
            torch.zeros(1, dtype=torch.int64, device=labels.device),
            torch.finfo(self.item_bias.dtype).min,  # padding is no class
        )
        return item_cross_entropy(
            hidden[chosen], self.item_embedding, bias=bias, labels=labels[chosen]
        )

    def state(self, batch: Batch) -> Float[Tensor, "batch hidden"]:
        """Return the state after the newest event; the target's own place is not read."""
        return self.hidden(without_target(batch))[:, -1]

    def candidate_scores(
        self, state: Float[Tensor, "batch hidden"], candidates: Int64[Tensor, "batch candidates"]
    ) -> Float[Tensor, "batch candidates"]:
        """Score each row's own candidates."""
        bias = self.item_bias[0, candidates]
        return dots(state, self.item_embedding, items=candidates) + bias

    def all_scores(self, state: Float[Tensor, "batch hidden"]) -> Float[Tensor, "batch classes"]:
        """Score items 1..I; column 0 belongs to padding."""
        return state @ self.item_embedding[:-1].T + self.item_bias

    def _source(
        self, items: Int64[Tensor, "batch time"], dropout: torch.Generator | None, *, after: int
    ) -> Source | None:
        if not items.shape[1]:
            return None
        x = self._embedded(items, dropout, after=after)
        unseen = padding_mask(items, x.dtype)
        for layer in self.encoder:
            x = layer(x, unseen=unseen, dropout=dropout)
        return Source(self.encoder_norm(x), items)

    def _embedded(
        self, items: Int64[Tensor, "batch time"], dropout: torch.Generator | None, *, after: int
    ) -> Float[Tensor, "batch time hidden"]:
        hidden = self._config.hidden
        x = functional.embedding(items, self.item_embedding) * math.sqrt(hidden)
        places = torch.arange(items.shape[1] - 1 + after, after - 1, -1, device=items.device)
        x = x + sinusoids(places, hidden).to(x.dtype)
        return drop(x, self._config.dropout, dropout)


def padding_mask(
    items: Int64[Tensor, "batch time"], dtype: torch.dtype
) -> Float[Tensor, "batch 1 time"]:
    """Return 0 at events, the lowest number at padding."""
    mask = torch.zeros(items.shape, dtype=dtype, device=items.device)
    return mask.masked_fill_(items == 0, torch.finfo(dtype).min)[:, None, :]


def sinusoids(places: Int64[Tensor, "places"], hidden: int) -> Float[Tensor, "places hidden"]:
    """Return sines, then cosines, of `place / 10000^(2k/hidden)`, in float64."""
    half = (hidden + 1) // 2
    exponents = torch.arange(half, dtype=torch.float64, device=places.device) * 2 / hidden
    phases = places.double()[:, None] / 10_000**exponents
    return torch.cat([phases.sin(), phases.cos()], dim=1)[:, :hidden]
