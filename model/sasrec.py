"""SASRec: causal self-attention whose state after each item is compared with the next one.

Kang, McAuley, "Self-Attentive Sequential Recommendation", ICDM 2018, arXiv 1808.09781.
"""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from model.attention import attend
from model.blocks import drop, linear
from model.config import CtaConfig, SasrecConfig
from model.data.batches import Batch, TrainingBatch
from model.network import draw
from model.next_item import DotProduct, causal_mask, next_item_loss, without_target


class CausalAttention(nn.Module):
    """Each head: `softmax_j(q_i . k_j / sqrt(w)) v_j` over j <= i that are no padding.

    q = W_Q n + b_Q of the normalised input n, but k = W_K x + b_K and v = W_V x + b_V of the input
    itself, as it came from the block before. Heads are concatenated; no output projection.
    """

    def __init__(self, config: SasrecConfig | CtaConfig) -> None:
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
        mask: Float[Tensor, "batch queries time"],
        dropout: torch.Generator | None,
    ) -> Float[Tensor, "batch queries hidden"]:
        """Attend from the given queries, the newest positions of `x`, to where `mask` is 0."""
        of_heads = (
            y.split(self._width, dim=-1) for y in (self.query(query), self.key(x), self.value(x))
        )
        mixed = [
            attend(q, k, v, relative=None, unseen=mask, rate=self._rate, dropout=dropout)
            for q, k, v in zip(*of_heads, strict=True)
        ]
        return torch.cat(mixed, dim=-1)


class PointwiseFeedForward(nn.Module):
    """`drop(W2 drop(relu(W1 x + b1)) + b2)`, hidden -> hidden -> hidden."""

    def __init__(self, hidden: int, rate: float) -> None:
        super().__init__()
        self._rate = rate
        self.expand = linear(hidden, hidden)
        self.contract = linear(hidden, hidden)

    def forward(
        self, x: Float[Tensor, "*rows hidden"], dropout: torch.Generator | None
    ) -> Float[Tensor, "*rows hidden"]:
        """Transform every row on its own."""
        inner = drop(functional.relu(self.expand(x)), self._rate, dropout)
        return drop(self.contract(inner), self._rate, dropout)


class Block(nn.Module):
    """`y = n + attention(n, x)`, `n = norm x`; then `z + feed_forward(z)`, `z = norm y`.

    What is added to is the normalised input, not the input: the residual way is through the norms.
    """

    def __init__(self, config: SasrecConfig | CtaConfig) -> None:
        super().__init__()
        self.query_norm = nn.LayerNorm(config.hidden)
        self.attention = CausalAttention(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden)
        self.feed_forward = PointwiseFeedForward(config.hidden, config.dropout)

    def forward(
        self,
        x: Float[Tensor, "batch time hidden"],
        mask: Float[Tensor, "batch time time"],
        *,
        newest: int,
        dropout: torch.Generator | None,
    ) -> Float[Tensor, "batch newest hidden"]:
        """Return the `newest` positions."""
        query = self.query_norm(x[:, -newest:])
        y = query + self.attention(query, x, mask=mask[:, -newest:], dropout=dropout)
        z = self.feed_forward_norm(y)
        return cast("Tensor", z + self.feed_forward(z, dropout))


class Sasrec(DotProduct):
    """Item plus learned position embedding, dropout, causal blocks, a final norm.

    The score of item i after the newest event is `x . e_i`; no bias, no sqrt(hidden) scaling of
    embeddings. Loss, the mean over positions of `-log sigmoid(x . e_next) - sum log sigmoid(-x .
    e_n)` over the `negatives` n, drawn from a fixed pool of 1,000 per user; with `loss: softmax`,
    cross entropy over all items.

    Numbered differences from the paper and its authors' code:

    1. Embeddings are not scaled by sqrt(hidden), as in the implementation behind the table of the
       MEANTIME paper; weights start from normal(0, 0.02) like every model's here.
    2. Negatives come from a pool drawn uniformly outside the training prefix; a pool outside the
       whole history would tell what the held-out items are not.
    3. Weight decay is coupled and on all parameters, and gradients are clipped at norm 5: the
       training budget's rules are the same for every model.
    4. LayerNorm eps is 1e-5; the authors' is 1e-8.
    5. Sequences may be shorter than `max_len`: position embeddings count from the newest event.
    """

    def __init__(self, config: SasrecConfig, *, n_items: int, seed: int) -> None:
        super().__init__()
        self._config = config
        self.item_embedding = nn.Parameter(torch.empty(n_items + 2, config.hidden))
        self.position_embedding = nn.Parameter(torch.empty(config.max_len, config.hidden))
        self.block = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.final_norm = nn.LayerNorm(config.hidden)
        draw(self, seed)

    def hidden(
        self,
        batch: Batch,
        dropout: torch.Generator | None = None,
        *,
        newest: int | None = None,
    ) -> Float[Tensor, "batch newest hidden"]:
        """Return the state after each of the `newest` events, or after all if None."""
        items = batch.items
        length = items.shape[1]
        x = functional.embedding(items, self.item_embedding) + self.position_embedding[-length:]
        x = drop(x, self._config.dropout, dropout)
        mask = causal_mask(items, x.dtype)
        last = len(self.block) - 1
        for n, block in enumerate(self.block):
            wanted = newest or length if n == last else length
            x = block(x, mask, newest=wanted, dropout=dropout)
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
