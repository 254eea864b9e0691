"""BERT4Rec: a bidirectional Transformer that fills in masked items.

Sun et al., "BERT4Rec: Sequential Recommendation with Bidirectional Encoder Representations from
Transformer", CIKM 2019, arXiv 1904.06690.
"""

from typing import cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from model.attention import attend
from model.blocks import ItemHead, add_dropped, drop, gelu, linear
from model.config import Bert4recConfig
from model.data.batches import Batch, TrainingBatch
from model.loss import item_cross_entropy
from model.network import Network, draw


class SelfAttention(nn.Module):
    """Each head: `softmax_j(q_i . k_j / sqrt(w)) v_j` over all j that are no padding; then W_O."""

    def __init__(self, config: Bert4recConfig) -> None:
        super().__init__()
        self._rate, self._width = config.dropout, config.hidden // config.heads
        self.query = linear(config.hidden, config.hidden)
        self.key = linear(config.hidden, config.hidden)
        self.value = linear(config.hidden, config.hidden)
        self.output = linear(config.hidden, config.hidden)

    def forward(
        self,
        query: Float[Tensor, "batch queries hidden"],
        x: Float[Tensor, "batch time hidden"],
        *,
        padding: Float[Tensor, "batch 1 time"] | None,
        dropout: torch.Generator | None,
    ) -> Float[Tensor, "batch queries hidden"]:
        """Attend from the given queries to all positions."""
        of_heads = (
            y.split(self._width, dim=-1) for y in (self.query(query), self.key(x), self.value(x))
        )
        mixed = [
            attend(q, k, v, relative=None, unseen=padding, rate=self._rate, dropout=dropout)
            for q, k, v in zip(*of_heads, strict=True)
        ]
        return cast("Tensor", self.output(torch.cat(mixed, dim=-1)))


class GeluFeedForward(nn.Module):
    """`W2 gelu(W1 x + b1) + b2`, hidden -> 4 hidden -> hidden, without dropout inside."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.expand = linear(hidden, 4 * hidden)
        self.contract = linear(4 * hidden, hidden)

    def forward(self, x: Float[Tensor, "*rows hidden"]) -> Float[Tensor, "*rows hidden"]:
        """Transform every row on its own."""
        return cast("Tensor", self.contract(gelu(self.expand(x))))


class Block(nn.Module):
    """`x = norm(x + drop(attention(x)))`, then `norm(x + drop(feed_forward(x)))`."""

    def __init__(self, config: Bert4recConfig) -> None:
        super().__init__()
        self._rate = config.dropout
        self.attention = SelfAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden)
        self.feed_forward = GeluFeedForward(config.hidden)
        self.feed_forward_norm = nn.LayerNorm(config.hidden)

    def forward(
        self,
        x: Float[Tensor, "batch time hidden"],
        *,
        padding: Float[Tensor, "batch 1 time"] | None,
        newest: int,
        dropout: torch.Generator | None,
    ) -> Float[Tensor, "batch newest hidden"]:
        """Return the `newest` positions."""
        own = x[:, -newest:]
        attended = self.attention(own, x, padding=padding, dropout=dropout)
        own = self.attention_norm(add_dropped(own, attended, rate=self._rate, generator=dropout))
        made = self.feed_forward(own)
        made = add_dropped(own, made, rate=self._rate, generator=dropout)
        return cast("Tensor", self.feed_forward_norm(made))


class Bert4rec(Network):
    """`drop(norm(item + position))`, post-norm blocks, MEANTIME's item head; trained as a cloze.

    At evaluation the last place holds `[MASK]`; its time is not read.

    Numbered differences from the paper and its authors' code:

    1. The cloze is MEANTIME's: each position is chosen at `mask_probability`, and there are no
       extra samples with only the last position masked.
    2. The training budget's rules are the same for every model: Adam with coupled weight decay, no
       schedule of the learning rate, gradients clipped at norm 5.
    3. Weights start from a normal of spread 0.02, not truncated.
    4. The padding row of the item embedding is zero and stays zero.
    5. LayerNorm eps is 1e-5; the authors' is 1e-12.
    """

    def __init__(self, config: Bert4recConfig, *, n_items: int, seed: int) -> None:
        super().__init__()
        self._config = config
        self.item_embedding = nn.Parameter(torch.empty(n_items + 2, config.hidden))
        self.position_embedding = nn.Parameter(torch.empty(config.max_len, config.hidden))
        self.embedding_norm = nn.LayerNorm(config.hidden)
        self.block = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.head = ItemHead(config.hidden, n_items)
        draw(self, seed)

    def hidden(
        self,
        batch: Batch,
        dropout: torch.Generator | None = None,
        *,
        newest: int | None = None,
    ) -> Float[Tensor, "batch newest hidden"]:
        """Return the last block's output at the `newest` places, or at all if None."""
        items = batch.items
        length = items.shape[1]
        x = functional.embedding(items, self.item_embedding) + self.position_embedding[-length:]
        x = drop(self.embedding_norm(x), self._config.dropout, dropout)
        absent, padding = items == 0, None
        if absent.any():
            padding = torch.zeros(absent.shape, dtype=x.dtype, device=x.device)
            padding = padding.masked_fill_(absent, torch.finfo(x.dtype).min)[:, None, :]
        last = len(self.block) - 1
        for n, block in enumerate(self.block):
            wanted = newest or length if n == last else length
            x = block(x, padding=padding, newest=wanted, dropout=dropout)
        return x

    def loss(
        self, batch: TrainingBatch, dropout: torch.Generator | None = None
    ) -> Float[Tensor, ""]:
        """Return the mean cross entropy over rows 0..I at the chosen positions."""
        chosen = batch.labels > 0
        state = self.head.state(self.hidden(batch, dropout)[chosen])
        return item_cross_entropy(
            state, self.item_embedding, bias=self.head.item_bias, labels=batch.labels[chosen]
        )

    def state(self, batch: Batch) -> Float[Tensor, "batch hidden"]:
        """Return what scores candidates at the newest place, without dropout."""
        return self.head.state(self.hidden(batch, newest=1)[:, -1])

    def candidate_scores(
        self, state: Float[Tensor, "batch hidden"], candidates: Int64[Tensor, "batch candidates"]
    ) -> Float[Tensor, "batch candidates"]:
        """Score each row's own candidates."""
        return self.head.candidate_scores(state, self.item_embedding, candidates=candidates)

    def all_scores(self, state: Float[Tensor, "batch hidden"]) -> Float[Tensor, "batch classes"]:
        """Score items 1..I; column 0 belongs to padding."""
        return self.head.all_scores(state, self.item_embedding)
