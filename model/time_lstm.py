"""Time-LSTM: a recurrent network whose gates know how long it is until the next event.

Zhu, Li, Liao, Wang, Guan, Liu, Cai, "What to Do Next: Modeling User Behaviors by Time-LSTM", IJCAI
2017.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from model.blocks import drop, linear
from model.config import TimeLstmConfig
from model.data.batches import Batch, TrainingBatch
from model.network import draw
from model.next_item import DotProduct, log_days, next_item_loss, until_next, without_target


class TimeCell(nn.Module):
    """One step of Time-LSTM, on x_m, the state (c, h) before it, and d_m, the time until the next.

    s is the sigmoid, `*` elementwise, i, f and o the LSTM's gates with peepholes w_c:

    - `i = s(W_i x + U_i h + w_ci * c + b_i)`, f alike; `g = tanh(W_c x + U_c h + b_c)`
    - variant 1: `T = s(W_t x + s(d V_t) + b_t)`, `c' = f * c + i * T * g`
    - variant 2: T_1 and T_2 alike, V_t1 never positive: `c~ = f * c + i * T_1 * g` speaks,
      `c' = f * c + i * T_2 * g` is kept
    - variant 3: as 2 without f: `c~ = (1 - i * T_1) * c + i * T_1 * g`,
      `c' = (1 - i) * c + i * T_2 * g`
    - `o = s(W_o x + d V_o + U_o h + w_co * c~ + b_o)`, `h' = o * tanh(c~)`; in variant 1 c~ is c'
    """

    def __init__(self, hidden: int, variant: int) -> None:
        super().__init__()
        self._variant = variant
        self.names = ("input", *(("forget",) if variant < 3 else ()), "output", "content")
        self.of_x = linear(hidden, hidden * len(self.names))
        self.of_h = linear(hidden, hidden * len(self.names), bias=False)
        gates = ("input", *(("forget",) if variant < 3 else ()), "output")
        self.peephole = nn.ParameterDict({name: torch.empty(1, hidden) for name in gates})
        self.time_of_x = linear(hidden, hidden * (1 if variant == 1 else 2))
        self.time_of_gap = nn.Parameter(torch.empty(1 if variant == 1 else 2, hidden))
        self.output_of_gap = nn.Parameter(torch.empty(1, hidden))

    def prepared(
        self, x: Float[Tensor, "batch time hidden"], gap: Float[Tensor, "batch time 1"]
    ) -> tuple[Tensor, Tensor]:
        """Return what the gates get from x and from the gap, of all steps at once."""
        own = self.of_x(x)
        first = self.names.index("output") * x.shape[-1]
        last = first + x.shape[-1]
        own = torch.cat(
            [own[..., :first], own[..., first:last] + gap * self.output_of_gap, own[..., last:]],
            dim=-1,
        )
        weights: Tensor = self.time_of_gap
        if self._variant > 1:
            weights = torch.cat([-weights[:1].abs(), weights[1:]])
        of_gap = torch.sigmoid(gap[..., None] * weights).flatten(-2)
        return own, torch.sigmoid(self.time_of_x(x) + of_gap)

    def forward(
        self,
        own: Float[Tensor, "batch gates"],
        timed: Float[Tensor, "batch time_gates"],
        *,
        state: tuple[Tensor, Tensor],
    ) -> tuple[Tensor, Tensor]:
        """Return (c', h')."""
        cell, before = state
        parts = (own + self.of_h(before)).chunk(len(self.names), dim=-1)
        heard = dict(zip(self.names, parts, strict=True))
        take = torch.sigmoid(heard["input"] + self.peephole["input"] * cell)
        content = torch.tanh(heard["content"])
        times = timed.chunk(1 if self._variant == 1 else 2, dim=-1)
        if self._variant == 3:
            spoken = (1 - take * times[0]) * cell + take * times[0] * content
            kept = (1 - take) * cell + take * times[1] * content
        else:
            keep = torch.sigmoid(heard["forget"] + self.peephole["forget"] * cell)
            spoken = keep * cell + take * times[0] * content
            kept = keep * cell + take * times[-1] * content
        out = torch.sigmoid(heard["output"] + self.peephole["output"] * spoken)
        return kept, out * torch.tanh(spoken)


class TimeLstm(DotProduct):
    """Item embedding, dropout, the recurrence, dropout; the score of item i is `h . e_i`.

    d_m is `log(1 + days)` from event m to the next one, at evaluation to the target, whose time is
    thus an input (`target_time: last` makes it 0). Loss as SASRec's: `loss` and `negatives`.

    Numbered differences from the paper:

    1. d is a logarithm of days; the paper feeds the interval itself, which saturates the gates.
    2. h is compared with the items' own embedding, and the loss is that of the other next-item
       models; the paper predicts by a softmax over a catalogue of its own.
    3. V_t1 is minus an absolute value; the paper projects it after each step.
    4. Weights start from Glorot's uniform distribution, vectors from normal(0, 0.02).
    """

    def __init__(self, config: TimeLstmConfig, *, n_items: int, seed: int) -> None:
        super().__init__()
        self._config = config
        self.item_embedding = nn.Parameter(torch.empty(n_items + 2, config.hidden))
        self.cell = TimeCell(config.hidden, config.variant)
        draw(self, seed, matrices="glorot")

    def hidden(
        self,
        batch: Batch,
        gap_seconds: Int64[Tensor, "batch time"],
        dropout: torch.Generator | None = None,
    ) -> Float[Tensor, "batch time hidden"]:
        """Return h after each event; padding leaves the state as it was, at zero."""
        rate = self._config.dropout
        x = functional.embedding(batch.items, self.item_embedding)
        x = drop(x, rate, dropout)
        gap = log_days(gap_seconds, x.dtype)[..., None]
        own, timed = self.cell.prepared(x, gap)
        real = (batch.items > 0).to(x.dtype)[..., None]
        state = (x.new_zeros(len(x), x.shape[-1]), x.new_zeros(len(x), x.shape[-1]))
        found = []
        for step in range(x.shape[1]):
            cell, h = self.cell(own[:, step], timed[:, step], state=state)
            state = (cell * real[:, step], h * real[:, step])
            found.append(state[1])
        return drop(torch.stack(found, dim=1), rate, dropout)

    def loss(
        self, batch: TrainingBatch, dropout: torch.Generator | None = None
    ) -> Float[Tensor, ""]:
        """Return the mean loss over positions with a next item."""
        hidden = self.hidden(batch, until_next(batch), dropout)
        return next_item_loss(hidden, batch, items=self.item_embedding, config=self._config)

    def state(self, batch: Batch) -> Float[Tensor, "batch hidden"]:
        """Return h after the newest event, given when the target comes."""
        gap = batch.times[:, 1:] - batch.times[:, :-1]
        return self.hidden(without_target(batch), gap)[:, -1]
