"""MEANTIME in plain loops and float64, each line an equation: the oracle of the fast network.

Slow on purpose: one score at a time, r_ij in full, no identity, no dropout. Torch only supplies
vectors and, through autograd, gradients. Weights are named as in the network's state.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

ABSOLUTE, RELATIVE = ("day", "pos", "con"), ("sin", "exp", "log")


@dataclass(frozen=True)
class Reference:
    weights: dict[str, Tensor]
    embeddings: list[str]
    hidden_size: int
    heads: int
    layers: int
    max_len: int
    tau: float = 1.0
    frequency_base: float = 10000.0

    def hidden(self, items: Tensor, times: Tensor, days: Tensor) -> Tensor:
        rows = zip(items.tolist(), times.tolist(), days.tolist(), strict=True)
        return torch.stack([self._sequence(*row) for row in rows])

    def loss(self, items: Tensor, times: Tensor, days: Tensor, labels: Tensor) -> Tensor:
        hidden = self.hidden(items, times, days)
        losses = []
        for b, i in labels.nonzero().tolist():
            logits = torch.stack(
                [self._score(hidden[b, i], item) for item in range(self._n_items + 1)]
            )
            losses.append(torch.logsumexp(logits, 0) - logits[labels[b, i]])
        return torch.stack(losses).mean()

    def candidate_scores(
        self, items: Tensor, times: Tensor, days: Tensor, candidates: Tensor
    ) -> Tensor:
        hidden = self.hidden(items, times, days)
        return torch.stack(
            [
                torch.stack([self._score(hidden[b, -1], c) for c in row])
                for b, row in enumerate(candidates.tolist())
            ]
        )

    @property
    def _n_items(self) -> int:
        return len(self.weights["item_embedding"]) - 2

    def _score(self, hidden: Tensor, item: int) -> Tensor:
        state = self._norm("head.norm", _gelu(self._map("head.linear", hidden)))
        bias = self.weights["head.item_bias"][0, item]
        return state @ self.weights["item_embedding"][item] + bias

    def _sequence(self, items: list[int], times: list[int], days: list[int]) -> Tensor:
        x = [self.weights["item_embedding"][item] for item in items]
        for block in range(self.layers):
            name = f"block.{block}"
            normed = [self._norm(f"{name}.attention_norm", row) for row in x]
            attended = self._attention(f"{name}.attention", normed, items, times, days)
            x = [row + more for row, more in zip(x, attended, strict=True)]
            for i, row in enumerate(x):
                normed_row = self._norm(f"{name}.feed_forward_norm", row)
                expanded = _gelu(self._map(f"{name}.feed_forward.expand", normed_row))
                x[i] = row + self._map(f"{name}.feed_forward.contract", expanded)
        return torch.stack(x)

    def _attention(
        self, name: str, x: list[Tensor], items: list[int], times: list[int], days: list[int]
    ) -> list[Tensor]:
        width = self.hidden_size // self.heads
        real = [j for j, item in enumerate(items) if item > 0]
        queries, keys, values = (
            [self._map(f"{name}.{kind}", row) for row in x] for kind in ("query", "key", "value")
        )
        attended = []
        for i in range(len(x)):
            heads = []
            for m in range(self.heads):
                own = slice(m * width, (m + 1) * width)
                embedding = self.embeddings[m] if m < len(self.embeddings) else None
                scores = []
                for j in real:
                    q, k = queries[i][own], keys[j][own]
                    if embedding in ABSOLUTE:
                        first = self.max_len - len(x)
                        a_i = self._absolute(embedding, first + i, days[i])
                        a_j = self._absolute(embedding, first + j, days[j])
                        score = (q + self._map(f"{name}.absolute_query.{embedding}", a_i)) @ (
                            k + self._map(f"{name}.absolute_key.{embedding}", a_j)
                        )
                    elif embedding in RELATIVE:
                        n = [e for e in self.embeddings if e in RELATIVE].index(embedding)
                        b_r = self.weights[f"{name}.relative_bias"][0, n, 0]
                        r = self._relative(embedding, (times[i] - times[j]) / self.tau)
                        key = self._map(f"{name}.relative_key.{embedding}", r)
                        score = q @ k + (q + b_r) @ key
                    else:
                        score = q @ k
                    scores.append(score / math.sqrt(width))
                weights = torch.softmax(torch.stack(scores), 0) if real else []
                heads.append(
                    sum(
                        (w * values[j][own] for w, j in zip(weights, real, strict=True)),
                        torch.zeros(width, dtype=torch.float64),
                    )
                )
            attended.append(self._map(f"{name}.output", torch.cat(heads)))
        return attended

    def _absolute(self, embedding: str, position: int, day: int) -> Tensor:
        row = {"day": day, "pos": position, "con": 0}[embedding]
        return self.weights[f"embedding.{embedding}"][row]

    def _relative(self, embedding: str, d: float) -> Tensor:
        h, f = self.hidden_size, self.frequency_base
        if embedding == "sin":
            phases = [d * f ** (-2 * k / h) for k in range(h // 2)]
            values = [math.sin(p) for p in phases] + [math.cos(p) for p in phases]
        elif embedding == "exp":
            values = [math.exp(-abs(d) * f ** (-k / h)) for k in range(h)]
        else:
            values = [math.log1p(abs(d) * f ** (-k / h)) for k in range(h)]
        return torch.tensor(values, dtype=torch.float64)

    def _map(self, name: str, x: Tensor) -> Tensor:
        return self.weights[f"{name}.weight"] @ x + self.weights[f"{name}.bias"]

    def _norm(self, name: str, x: Tensor) -> Tensor:
        centred = x - x.mean()
        scaled = centred / torch.sqrt((centred**2).mean() + 1e-5)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def _gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
