"""The obvious MEANTIME: r_ij in full, entry by entry, every position in every block.

What speed and memory are measured against, and whose learning the fast path must equal. It shares
the weights of a `model.meantime.Meantime` and computes the same function; its relative dropout is
a true mask on every entry of r_ij, shared by the blocks, as the authors have it.
"""

import torch
from torch import Tensor
from torch.nn import functional

from model.blocks import drop
from model.config import MeantimeConfig
from model.data.batches import Batch, TrainingBatch
from model.meantime import Meantime


class PlainMeantime(Meantime):
    """MEANTIME with batch x time x time x hidden tensors for Sin, Exp and Log."""

    tells_windows_apart = False

    def __init__(self, config: MeantimeConfig, **sizes) -> None:
        super().__init__(config, **sizes)
        self.plain = config

    def hidden(self, batch: Batch, dropout: torch.Generator | None = None) -> Tensor:
        x = functional.embedding(batch.items, self.item_embedding)
        x = drop(x, self.plain.dropout, dropout)
        absolute = {name: self._absolute(name, batch, dropout) for name in self.embedding}
        relative = {
            name: drop(self._relative(name, batch.times).to(x.dtype), self.plain.dropout, dropout)
            for name in ("sin", "exp", "log")
            if name in self.plain.embeddings
        }
        padding = (batch.items == 0)[:, None, :]
        for block in self.block:
            normed = block.attention_norm(x)
            attended = self._attend(
                block.attention, normed, absolute, relative, padding, dropout=dropout
            )
            x = x + drop(attended, self.plain.dropout, dropout)
            normed = block.feed_forward_norm(x)
            x = x + drop(block.feed_forward(normed, dropout), self.plain.dropout, dropout)
            x = drop(x, self.plain.dropout, dropout)
        return x

    def loss(self, batch: TrainingBatch, dropout: torch.Generator | None = None) -> Tensor:
        chosen = batch.labels > 0
        state = self.head.state(self.hidden(batch, dropout)[chosen])
        logits = self.head.all_scores(state, self.item_embedding)
        return functional.cross_entropy(logits, batch.labels[chosen])

    def state(self, batch: Batch) -> Tensor:
        return self.head.state(self.hidden(batch)[:, -1])

    def _absolute(self, name: str, batch: Batch, dropout: torch.Generator | None) -> Tensor:
        table = self.embedding[name]
        n_rows, length = batch.items.shape
        if name == "day":
            found = functional.embedding(batch.days, table)
        elif name == "pos":
            found = table[-length:].expand(n_rows, -1, -1)
        else:
            found = table.expand(n_rows, length, -1)
        return drop(found, self.plain.dropout, dropout)

    def _relative(self, name: str, times: Tensor) -> Tensor:
        """Return r_ij, (batch, time, time, hidden); only the phases of sin are float64."""
        hidden, base = self.plain.hidden, self.plain.frequency_base
        d = (times[:, :, None] - times[:, None, :])[..., None].double() / self.plain.tau
        if name == "sin":
            k = torch.arange(hidden // 2, dtype=torch.float64)
            phases = d * base ** (-2 * k / hidden)
            return torch.cat([phases.sin().float(), phases.cos().float()], -1)
        k = torch.arange(hidden, dtype=torch.float32)
        products = d.abs().float() * base ** (-k / hidden)
        return torch.exp(-products) if name == "exp" else torch.log1p(products)

    def _attend(self, attention, x, absolute, relative, padding, *, dropout) -> Tensor:
        query, key, value = attention.query(x), attention.key(x), attention.value(x)
        width = self.plain.hidden // self.plain.heads
        relatives, mixed = list(relative), []
        for head in range(self.plain.heads):
            own = slice(head * width, (head + 1) * width)
            owner = attention.owners[head]
            q, k = query[..., own], key[..., own]
            if owner in absolute:
                q = q + attention.absolute_query[owner](absolute[owner])
                k = k + attention.absolute_key[owner](absolute[owner])
            scores = q @ k.mT
            if owner in relative:
                projected = attention.relative_key[owner](relative[owner])
                biased = q + attention.relative_bias[:, relatives.index(owner)]
                scores = scores + (projected @ biased[..., None])[..., 0]
            scores = (scores / width**0.5).masked_fill(padding, torch.finfo(x.dtype).min)
            weights = drop(scores.softmax(-1), self.plain.dropout, dropout)
            mixed.append(weights @ value[..., own])
        return attention.output(torch.cat(mixed, -1))
