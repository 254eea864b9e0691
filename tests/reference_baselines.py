"""SASRec, TiSASRec, BERT4Rec and MARank in plain loops and float64: the oracles of the networks.

Slow on purpose: one score at a time, no batches, no identity, no dropout. Weights are named as in
the networks' states; vectors and gradients are torch's.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Weights:
    """The maps that all of them are made of."""

    weights: dict[str, Tensor]

    def map(self, name: str, x: Tensor) -> Tensor:
        return self.weights[f"{name}.weight"] @ x + self.weights[f"{name}.bias"]

    def norm(self, name: str, x: Tensor) -> Tensor:
        centred = x - x.mean()
        scaled = centred / torch.sqrt((centred**2).mean() + 1e-5)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


@dataclass(frozen=True)
class Causal(Weights):
    """SASRec; with `max_interval` TiSASRec."""

    heads: int
    layers: int
    max_interval: int | None = None

    def hidden(self, items: list[int], scaled: list[int] | None = None) -> list[Tensor]:
        """Return the state after each event; None in place of padding's."""
        table = self.weights["item_embedding"]
        x = [table[item] for item in items]
        if self.max_interval is None:
            positions = self.weights["position_embedding"][-len(items) :]
            x = [row + position for row, position in zip(x, positions, strict=True)]
        for block in range(self.layers):
            x = [self._block(f"block.{block}", x, i, items, scaled) for i in range(len(items))]
        return [self.norm("final_norm", row) for row in x]

    def loss(self, items, targets, negatives, scaled=None) -> Tensor:
        """Return the mean over all rows' real targets of the binary cross entropy."""
        table, losses = self.weights["item_embedding"], []
        for n, row in enumerate(items):
            hidden = self.hidden(row, None if scaled is None else scaled[n])
            for i, target in enumerate(targets[n]):
                if target > 0:
                    right = torch.sigmoid(hidden[i] @ table[target])
                    wrong = torch.sigmoid(hidden[i] @ table[negatives[n][i]])
                    losses.append(-torch.log(right) - torch.log(1 - wrong))
        return torch.stack(losses).mean()

    def _block(self, name: str, x: list[Tensor], i: int, items, scaled) -> Tensor:
        query = self.norm(f"{name}.query_norm", x[i])
        q = self.map(f"{name}.attention.query", query)
        keys = [self.map(f"{name}.attention.key", row) for row in x]
        values = [self.map(f"{name}.attention.value", row) for row in x]
        seen = [j for j in range(i + 1) if items[j] > 0]
        width = len(q) // self.heads
        heads = []
        for m in range(self.heads):
            own = slice(m * width, (m + 1) * width)
            if not seen:
                heads.append(torch.zeros(width, dtype=torch.float64))
                continue
            scores = []
            for j in seen:
                key = keys[j] + self._timed("key", len(x), i, j, scaled)
                scores.append(q[own] @ key[own] / math.sqrt(width))
            weights = torch.softmax(torch.stack(scores), 0)
            mixed = torch.zeros(width, dtype=torch.float64)
            for w, j in zip(weights, seen, strict=True):
                value = values[j] + self._timed("value", len(x), i, j, scaled)
                mixed = mixed + w * value[own]
            heads.append(mixed)
        z = self.norm(f"{name}.feed_forward_norm", query + torch.cat(heads))
        inner = torch.relu(self.map(f"{name}.feed_forward.expand", z))
        return z + self.map(f"{name}.feed_forward.contract", inner)

    def _timed(self, kind: str, length: int, i: int, j: int, scaled) -> Tensor:
        if self.max_interval is None:
            return torch.zeros((), dtype=torch.float64)
        interval = min(abs(scaled[i] - scaled[j]), self.max_interval)
        positions = self.weights[f"position_{kind}"][-length:]
        return positions[j] + self.weights[f"interval_{kind}"][interval]


@dataclass(frozen=True)
class Bert(Weights):
    """BERT4Rec."""

    heads: int
    layers: int

    def hidden(self, items: list[int]) -> list[Tensor]:
        table, positions = self.weights["item_embedding"], self.weights["position_embedding"]
        x = [
            self.norm("embedding_norm", table[item] + position)
            for item, position in zip(items, positions[-len(items) :], strict=True)
        ]
        real = [j for j, item in enumerate(items) if item > 0]
        for block in range(self.layers):
            x = [self._block(f"block.{block}", x, i, real) for i in range(len(items))]
        return x

    def loss(self, items, labels) -> Tensor:
        n_classes, losses = len(self.weights["item_embedding"]) - 1, []
        for row, wanted in zip(items, labels, strict=True):
            hidden = self.hidden(row)
            for i, label in enumerate(wanted):
                if label > 0:
                    logits = torch.stack([self.score(hidden[i], k) for k in range(n_classes)])
                    losses.append(torch.logsumexp(logits, 0) - logits[label])
        return torch.stack(losses).mean()

    def score(self, hidden: Tensor, item: int) -> Tensor:
        state = self.norm("head.norm", _gelu(self.map("head.linear", hidden)))
        bias = self.weights["head.item_bias"][0, item]
        return state @ self.weights["item_embedding"][item] + bias

    def _block(self, name: str, x: list[Tensor], i: int, real: list[int]) -> Tensor:
        q = self.map(f"{name}.attention.query", x[i])
        width = len(q) // self.heads
        heads = []
        for m in range(self.heads):
            own = slice(m * width, (m + 1) * width)
            scores = [
                q[own] @ self.map(f"{name}.attention.key", x[j])[own] / math.sqrt(width)
                for j in real
            ]
            weights = torch.softmax(torch.stack(scores), 0)
            parts = [
                w * self.map(f"{name}.attention.value", x[j])[own]
                for w, j in zip(weights, real, strict=True)
            ]
            heads.append(sum(parts[1:], parts[0]))
        attended = self.map(f"{name}.attention.output", torch.cat(heads))
        y = self.norm(f"{name}.attention_norm", x[i] + attended)
        inner = _gelu(self.map(f"{name}.feed_forward.expand", y))
        made = self.map(f"{name}.feed_forward.contract", inner)
        return self.norm(f"{name}.feed_forward_norm", y + made)


@dataclass(frozen=True)
class Mara(Weights):
    """MARank; `items` are the newest, none of them padding, and users are rows of the table."""

    layers: int

    def hidden(self, user: int, items: list[int]) -> Tensor:
        query = self.weights["user_embedding"][user]
        rows = [self.weights["item_context_embedding"][item] for item in items]
        levels = []
        of_user, of_items = query, rows
        for level in range(self.layers):
            of_user = self._step(f"user_residual.{level}", of_user)
            of_items = [self._step(f"item_residual.{level}", row) for row in of_items]
            levels.append(
                self._attended(
                    of_items,
                    of_user,
                    *(f"level_attention.{kind}.{level}" for kind in ("item", "user", "out")),
                )
            )
        names = (f"item_attention.{kind}" for kind in ("item", "user", "out"))
        levels.append(self._attended(rows, query, *names) + rows[-1])
        scores = [
            self.map("merge_attention.out", torch.tanh(self.map("merge_attention.hidden", row)))
            for row in levels
        ]
        merged = _averaged(levels, scores)
        made = merged
        for step in range(self.layers):
            made = self._step(f"final_residual.{step}", made)
        return merged + made

    def score(self, user: int, hidden: Tensor, item: int) -> Tensor:
        lasting = self.weights["user_embedding"][user] @ self.weights["item_embedding"][item]
        return hidden @ self.weights["item_context_embedding"][item] + lasting

    def loss(self, users, items, positives, negatives) -> Tensor:
        losses = []
        for user, row, right, wrong in zip(users, items, positives, negatives, strict=True):
            hidden = self.hidden(user, row)
            margin = self.score(user, hidden, right) - self.score(user, hidden, wrong)
            losses.append(-torch.log(torch.sigmoid(margin)))
        return torch.stack(losses).mean()

    def _step(self, name: str, x: Tensor) -> Tensor:
        return torch.relu(x + self.map(name, x))

    def _attended(self, rows: list[Tensor], query: Tensor, item: str, user: str, out: str):
        scores = [
            self.map(out, torch.tanh(self.map(item, row) + self.map(user, query))) for row in rows
        ]
        return _averaged(rows, scores)


def _averaged(rows: list[Tensor], scores: list[Tensor]) -> Tensor:
    weights = torch.softmax(torch.sigmoid(torch.cat(scores)), 0)
    parts = [w * row for w, row in zip(weights, rows, strict=True)]
    return sum(parts[1:], parts[0])


def _gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
