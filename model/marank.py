"""MARank: a user's newest items, weighed one by one and through levels of residual networks.

Yu, Zhang, Liang, Zhang, "Multi-order Attentive Ranking Model for Sequential Recommendation", AAAI
2019.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from model.blocks import drop, linear
from model.config import MarankConfig
from model.data.batches import Batch, TrainingBatch
from model.data.next_items import NextItemBatch
from model.network import Network, draw
from model.next_item import dots, of_users, without_target


class Attention(nn.Module):
    """`sum_j a_j X_j`, `a = softmax_j(sigmoid(out(tanh(item(X_j) + user(y)))))`."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.item = linear(hidden, hidden)
        self.user = linear(hidden, hidden)
        self.out = linear(hidden, 1)

    def forward(
        self, rows: Float[Tensor, "batch rows hidden"], query: Float[Tensor, "batch hidden"]
    ) -> Float[Tensor, "batch hidden"]:
        """Average the rows as the query weighs them."""
        heard = torch.tanh(self.item(rows) + self.user(query)[:, None])
        return _weighed(rows, self.out(heard))


class LevelAttention(nn.Module):
    """An `Attention` for each level of the residual networks."""

    def __init__(self, hidden: int, layers: int) -> None:
        super().__init__()
        self.item = nn.ModuleList(linear(hidden, hidden) for _ in range(layers))
        self.user = nn.ModuleList(linear(hidden, hidden) for _ in range(layers))
        self.out = nn.ModuleList(linear(hidden, 1) for _ in range(layers))

    def forward(
        self,
        level: int,
        rows: Float[Tensor, "batch rows hidden"],
        *,
        query: Float[Tensor, "batch hidden"],
    ) -> Float[Tensor, "batch hidden"]:
        """Average a level's rows as that level's query weighs them."""
        heard = torch.tanh(self.item[level](rows) + self.user[level](query)[:, None])
        return _weighed(rows, self.out[level](heard))


class MergeAttention(nn.Module):
    """`sum_l b_l R_l`, `b = softmax_l(sigmoid(out(tanh(hidden(R_l)))))`."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = linear(hidden, hidden)
        self.out = linear(hidden, 1)

    def forward(self, rows: Float[Tensor, "batch rows hidden"]) -> Float[Tensor, "batch hidden"]:
        """Average the levels."""
        return _weighed(rows, self.out(torch.tanh(self.hidden(rows))))


class Marank(Network):
    """The score of item i: `m . c_i + u . e_i`, short-term interest plus lasting preference.

    c are item context, e item, u user embeddings; X holds c of the `history` newest items (a short
    history repeats its last one). A residual step is `o <- relu(o + W o + b)`; U_l and I_l are what
    step l makes of u and of each row of X.

    - individual level: `attention(X, u) + X_last`
    - union level l: `attention_l(I_l, U_l)`
    - merged over the levels by `MergeAttention`: m_0; `m = m_0 + (residual steps on m_0)`

    Loss: the mean of `-log sigmoid(score(next) - score(negative))`, over every event of a training
    prefix but the first.

    Numbered differences from the paper and its authors' code:

    1. `layers` is the depth of all three residual networks, hence the number of union levels.
    2. Dropout masks the embeddings that are read (X and u) and m; the paper names no places.
    3. The negative comes from a pool of 1,000 per user, uniform outside the training prefix, as
       for the other next-item models.
    4. Weights start from normal(0, 0.02) for embeddings and from Glorot's uniform distribution for
       matrices: with small matrices sigmoid and tanh leave nothing to learn from.
    5. The training budget's rules are those of every model: Adam with coupled weight decay,
       gradients clipped at norm 5.
    """

    def __init__(self, config: MarankConfig, *, n_items: int, n_users: int, seed: int) -> None:
        super().__init__()
        hidden = config.hidden
        self._rate, self._history = config.dropout, config.history
        # Row u + 1 is user u.
        self.user_embedding = nn.Parameter(torch.empty(n_users + 1, hidden))
        self.item_embedding = nn.Parameter(torch.empty(n_items + 1, hidden))
        self.item_context_embedding = nn.Parameter(torch.empty(n_items + 1, hidden))
        self.user_residual = _residual(hidden, config.layers)
        self.item_residual = _residual(hidden, config.layers)
        self.final_residual = _residual(hidden, config.layers)
        self.item_attention = Attention(hidden)
        self.level_attention = LevelAttention(hidden, config.layers)
        self.merge_attention = MergeAttention(hidden)
        draw(self, seed, matrices="glorot")
        with torch.no_grad():
            self.item_context_embedding[0] = 0

    def hidden(
        self,
        users: Int64[Tensor, "batch"],
        items: Int64[Tensor, "batch history"],
        dropout: torch.Generator | None = None,
    ) -> Float[Tensor, "batch hidden"]:
        """Return m of users whose newest items these are, none of them padding."""
        user = drop(functional.embedding(users + 1, self.user_embedding), self._rate, dropout)
        rows = functional.embedding(items, self.item_context_embedding)
        rows = drop(rows, self._rate, dropout)
        levels = []
        of_user, of_items = user, rows
        steps = zip(self.user_residual, self.item_residual, strict=True)
        for level, (user_step, item_step) in enumerate(steps):
            of_user = torch.relu(of_user + user_step(of_user))
            of_items = torch.relu(of_items + item_step(of_items))
            levels.append(self.level_attention(level, of_items, query=of_user))
        levels.append(self.item_attention(rows, user) + rows[:, -1])
        merged = self.merge_attention(torch.stack(levels, dim=1))
        interest = merged
        for step in self.final_residual:
            interest = torch.relu(interest + step(interest))
        return drop(merged + interest, self._rate, dropout)

    def loss(
        self, batch: TrainingBatch, dropout: torch.Generator | None = None
    ) -> Float[Tensor, ""]:
        """Return the mean pairwise loss; a label stands at a sequence's last place, if at all."""
        if not isinstance(batch, NextItemBatch):
            raise TypeError("the pairwise loss needs a negative: a NextItemBatch")
        chosen = batch.labels[:, -1] > 0
        state = self._state(batch.users[chosen, -1], batch.items[chosen], dropout)
        pair = torch.stack([batch.labels[chosen, -1], batch.negatives[chosen, -1, 0]], dim=1)
        right, wrong = self.candidate_scores(state, pair).unbind(dim=1)
        return functional.softplus(wrong - right).mean()

    def state(self, batch: Batch) -> Float[Tensor, "batch hidden"]:
        """Return m and u end to end; the target's own place is not read."""
        known = of_users(without_target(batch))
        return self._state(known.users[:, -1], known.items, None)

    def candidate_scores(
        self, state: Float[Tensor, "batch hidden"], candidates: Int64[Tensor, "batch candidates"]
    ) -> Float[Tensor, "batch candidates"]:
        """Score each row's own candidates."""
        interest, user = state.chunk(2, dim=1)
        of_interest = dots(interest, self.item_context_embedding, items=candidates)
        return of_interest + dots(user, self.item_embedding, items=candidates)

    def all_scores(self, state: Float[Tensor, "batch hidden"]) -> Float[Tensor, "batch classes"]:
        """Score items 1..I; column 0 belongs to padding."""
        interest, user = state.chunk(2, dim=1)
        return interest @ self.item_context_embedding.T + user @ self.item_embedding.T

    def freeze_padding(self) -> None:
        """Zero the gradients of the padding rows, which nothing reads."""
        super().freeze_padding()
        if self.item_context_embedding.grad is not None:
            self.item_context_embedding.grad[0] = 0

    def _state(
        self,
        users: Int64[Tensor, "batch"],
        items: Int64[Tensor, "batch time"],
        dropout: torch.Generator | None,
    ) -> Float[Tensor, "batch both"]:
        newest = items[:, -self._history :]
        newest = functional.pad(newest, (self._history - newest.shape[1], 0))
        newest = torch.where(newest > 0, newest, items[:, -1:])
        interest = self.hidden(users, newest, dropout)
        return torch.cat([interest, functional.embedding(users + 1, self.user_embedding)], dim=1)


def _residual(hidden: int, layers: int) -> nn.ModuleList:
    return nn.ModuleList(linear(hidden, hidden) for _ in range(layers))


def _weighed(
    rows: Float[Tensor, "batch rows hidden"], scores: Float[Tensor, "batch rows 1"]
) -> Float[Tensor, "batch hidden"]:
    return (torch.softmax(torch.sigmoid(scores), dim=1) * rows).sum(dim=1)
