"""CTA: attention whose content scores are calibrated by kernels of time, mixed by the context.

Wu, Cai, Wang, "Déjà vu: A Contextualized Temporal Attention Mechanism for Sequential
Recommendation", WWW 2020, arXiv 2002.00741.
"""

from typing import cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from model.blocks import drop, linear
from model.config import CtaConfig
from model.data.batches import Batch, TrainingBatch
from model.network import draw
from model.next_item import (
    DotProduct,
    causal_mask,
    log_days,
    next_item_loss,
    until_next,
    without_target,
)
from model.sasrec import Block

KERNELS = 4


class Context(nn.Module):
    """A gated recurrence (GRU) over the events so far, and what mixture of kernels it asks for.

    With s the sigmoid: `r = s(W_r x + b_r + U_r c)`, `z = s(W_z x + b_z + U_z c)`,
    `n = tanh(W_n x + b_n + r * (U_n c))`, `c' = (1 - z) * n + z * c`; `p = softmax(W_p c' + b_p)`.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.of_x = linear(hidden, 3 * hidden)
        self.of_c = linear(hidden, 3 * hidden, bias=False)
        self.mixture = linear(hidden, KERNELS)

    def forward(
        self, x: Float[Tensor, "batch time hidden"], real: Float[Tensor, "batch time 1"]
    ) -> Float[Tensor, "batch time kernels"]:
        """Return p after each event; padding leaves the context at zero."""
        c = x.new_zeros(len(x), x.shape[-1])
        found = []
        for step, heard in enumerate(self.of_x(x).unbind(dim=1)):
            r, z, n = heard.chunk(3, dim=-1)
            of_r, of_z, of_n = self.of_c(c).chunk(3, dim=-1)
            z = torch.sigmoid(z + of_z)
            new = torch.tanh(n + torch.sigmoid(r + of_r) * of_n)
            c = ((1 - z) * new + z * c) * real[:, step]
            found.append(c)
        return torch.softmax(self.mixture(torch.stack(found, dim=1)), dim=-1)


class Cta(DotProduct):
    """What matters for the next item: content, how long ago it was, and which clock applies.

    - alpha: h_j from causal self-attention blocks over item plus position embeddings;
      `a_ij = (W_Q h_i) . (W_K h_j) / sqrt(hidden)`
    - beta: with T_ij the time from event j to the item after i, the kernels `exp(-|k_1| T) + b_1`,
      `1 + b_2 - k_2 log(1 + T)`, `1 + b_3 - k_3 T` and `1 + b_4`
    - gamma: p_j, the mixture that the context of event j asks for;
      `g_ij = softmax_j(a_ij * sum_k p_jk kernel_k(T_ij))` over j <= i

    The output `W_2 relu(W_1 sum_j g_ij h_j)`, added to h_i and normalised, is compared with items
    by dot products. T is `log(1 + days)`; at evaluation it ends at the target's time, which is thus
    an input. Loss as SASRec's: `loss` and `negatives`.

    Numbered differences from the paper:

    1. Every position of a window is a target, so the context runs forward alone; the paper has one
       target a sequence and reads the context both ways.
    2. Content scores are calibrated before any softmax; the paper normalises them first, too.
    3. T is a logarithm of days, where the paper scales intervals for each data set.
    4. The output is added to h_i, as in the attention blocks.
    """

    def __init__(self, config: CtaConfig, *, n_items: int, seed: int) -> None:
        super().__init__()
        hidden = config.hidden
        self._config = config
        self.item_embedding = nn.Parameter(torch.empty(n_items + 2, hidden))
        self.position_embedding = nn.Parameter(torch.empty(config.max_len, hidden))
        self.block = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.context = Context(hidden)
        self.query = linear(hidden, hidden)
        self.key = linear(hidden, hidden)
        self.kernel_scale = nn.Parameter(torch.empty(1, KERNELS - 1))
        self.kernel_bias = nn.Parameter(torch.empty(1, KERNELS))
        self.expand = linear(hidden, hidden)
        self.contract = linear(hidden, hidden)
        self.final_norm = nn.LayerNorm(hidden)
        draw(self, seed)

    def hidden(
        self,
        batch: Batch,
        next_times: Int64[Tensor, "batch time"],
        dropout: torch.Generator | None = None,
        *,
        newest: int | None = None,
    ) -> Float[Tensor, "batch newest hidden"]:
        """Return the state after each of the `newest` events, or after all if None."""
        rate = self._config.dropout
        items, length = batch.items, batch.items.shape[1]
        wanted = newest or length
        embedded = functional.embedding(items, self.item_embedding)
        embedded = drop(embedded, rate, dropout)
        mask = causal_mask(items, embedded.dtype)
        h = embedded + self.position_embedding[-length:]
        for block in self.block:
            h = block(h, mask, newest=length, dropout=dropout)
        real = (items > 0).to(h.dtype)[..., None]
        mixture = self.context(embedded, real)
        asking = h[:, -wanted:]
        content = self.query(asking) @ self.key(h).mT * self._config.hidden**-0.5
        ago = (next_times[:, -wanted:, None] - batch.times[:, None, :]).clamp_(min=0)
        calibrated = content * self.calibration(log_days(ago, h.dtype), mixture)
        weights = torch.softmax(calibrated + mask[:, -wanted:], dim=-1)
        mixed = drop(weights, rate, dropout) @ h
        inner = drop(functional.relu(self.expand(mixed)), rate, dropout)
        made = drop(self.contract(inner), rate, dropout)
        return cast("Tensor", self.final_norm(asking + made))

    def calibration(
        self,
        ago: Float[Tensor, "batch queries keys"],
        mixture: Float[Tensor, "batch keys kernels"],
    ) -> Float[Tensor, "batch queries keys"]:
        """Return `sum_k p_jk kernel_k(T_ij)`."""
        fall, curve, slope = self.kernel_scale[0].unbind()
        bias = self.kernel_bias[0].unbind()
        share = mixture.mT[:, :, None, :].unbind(dim=1)
        kernels = (
            torch.exp(-fall.abs() * ago) + bias[0],
            1 + bias[1] - curve * torch.log1p(ago),
            1 + bias[2] - slope * ago,
            1 + bias[3],
        )
        parts = [p * k for p, k in zip(share, kernels, strict=True)]
        return sum(parts[1:], parts[0])

    def loss(
        self, batch: TrainingBatch, dropout: torch.Generator | None = None
    ) -> Float[Tensor, ""]:
        """Return the mean loss over positions with a next item."""
        hidden = self.hidden(batch, batch.times + until_next(batch), dropout)
        return next_item_loss(hidden, batch, items=self.item_embedding, config=self._config)

    def state(self, batch: Batch) -> Float[Tensor, "batch hidden"]:
        """Return the state after the newest event, given when the target comes."""
        return self.hidden(without_target(batch), batch.times[:, 1:], newest=1)[:, -1]
