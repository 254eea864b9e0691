"""Relatives of the paper's models in plain loops and float64: the oracles of the fast ones."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.reference_baselines import Causal, Weights


@dataclass(frozen=True)
class Lstm(Weights):
    """Time-LSTM in one of its variants; gaps are in seconds until the next event."""

    variant: int

    def hidden(self, items: list[int], gaps: list[int]) -> list[Tensor]:
        """Return h after each event; padding leaves the state at zero."""
        width = self.weights["item_embedding"].shape[1]
        c = h = torch.zeros(width, dtype=torch.float64)
        found = []
        for item, gap in zip(items, gaps, strict=True):
            if item > 0:
                x = self.weights["item_embedding"][item]
                c, h = self._step(x, math.log(1 + gap / 86_400), c, h)
            found.append(h)
        return found

    def _step(self, x: Tensor, d: float, c: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        names = ["input", "forget", "output", "content"]
        if self.variant == 3:
            names.remove("forget")
        heard = self.map("cell.of_x", x) + self.weights["cell.of_h.weight"] @ h
        part = {name: heard[n * len(x) : (n + 1) * len(x)] for n, name in enumerate(names)}
        peephole = {name: self.weights[f"cell.peephole.{name}"][0] for name in names[:-1]}
        clocks = []
        for n in range(1 if self.variant == 1 else 2):
            own = slice(n * len(x), (n + 1) * len(x))
            of_gap = self.weights["cell.time_of_gap"][n]
            if self.variant > 1 and n == 0:
                of_gap = -of_gap.abs()
            timed = self.map("cell.time_of_x", x)[own]
            clocks.append(torch.sigmoid(timed + torch.sigmoid(d * of_gap)))
        i = torch.sigmoid(part["input"] + peephole["input"] * c)
        g = torch.tanh(part["content"])
        if self.variant == 3:
            spoken = (1 - i * clocks[0]) * c + i * clocks[0] * g
            kept = (1 - i) * c + i * clocks[1] * g
        else:
            f = torch.sigmoid(part["forget"] + peephole["forget"] * c)
            spoken = f * c + i * clocks[0] * g
            kept = f * c + i * clocks[-1] * g
        of_gap = d * self.weights["cell.output_of_gap"][0]
        o = torch.sigmoid(part["output"] + of_gap + peephole["output"] * spoken)
        return kept, o * torch.tanh(spoken)


@dataclass(frozen=True)
class Calibrated(Causal):
    """CTA; `times` and `next_times` are in seconds."""

    def states(self, items: list[int], times: list[int], next_times: list[int]) -> list[Tensor]:
        """Return the state after each event; padding's mean nothing."""
        table = self.weights["item_embedding"]
        positions = self.weights["position_embedding"][-len(items) :]
        embedded = [table[item] for item in items]
        h = [e + p for e, p in zip(embedded, positions, strict=True)]
        for block in range(self.layers):
            h = [self._block(f"block.{block}", h, i, items, None) for i in range(len(items))]
        mixtures = self._mixtures(items, embedded)
        found = []
        for i in range(len(items)):
            seen = [j for j in range(i + 1) if items[j] > 0]
            if not seen:
                found.append(h[i])
                continue
            scores = []
            for j in seen:
                content = self.map("query", h[i]) @ self.map("key", h[j]) / math.sqrt(len(h[i]))
                ago = math.log(1 + max(0, next_times[i] - times[j]) / 86_400)
                scores.append(content * (mixtures[j] @ self._kernels(ago)))
            weights = torch.softmax(torch.stack(scores), 0)
            mixed = sum(w * h[j] for w, j in zip(weights, seen, strict=True))
            made = self.map("contract", torch.relu(self.map("expand", mixed)))
            found.append(self.norm("final_norm", h[i] + made))
        return found

    def _kernels(self, ago: float) -> Tensor:
        k, b = self.weights["kernel_scale"][0], self.weights["kernel_bias"][0]
        return torch.stack(
            [
                torch.exp(-k[0].abs() * ago) + b[0],
                1 + b[1] - k[1] * math.log(1 + ago),
                1 + b[2] - k[2] * ago,
                1 + b[3],
            ]
        )

    def _mixtures(self, items: list[int], embedded: list[Tensor]) -> list[Tensor]:
        width = len(embedded[0])
        c = torch.zeros(width, dtype=torch.float64)
        found = []
        for item, x in zip(items, embedded, strict=True):
            if item > 0:
                of_x = self.map("context.of_x", x).split(width)
                of_c = (self.weights["context.of_c.weight"] @ c).split(width)
                r, z = (torch.sigmoid(of_x[n] + of_c[n]) for n in (0, 1))
                new = torch.tanh(of_x[2] + r * of_c[2])
                c = (1 - z) * new + z * c
            found.append(torch.softmax(self.map("context.mixture", c), 0))
        return found


@dataclass(frozen=True)
class Encoded(Weights):
    """The Transformer, for the events of one sequence, none of them padding."""

    heads: int
    layers: int
    n_newer: int

    def states(self, items: list[int]) -> list[Tensor]:
        """Return the state after each event of the newer half."""
        table = self.weights["item_embedding"]
        width = table.shape[1]
        x = [
            table[item] * math.sqrt(width) + self._sinusoid(len(items) - 1 - n, width)
            for n, item in enumerate(items)
        ]
        older, newer = x[: -self.n_newer], x[-self.n_newer :]
        for layer in range(self.layers):
            name = f"encoder.{layer}"
            normed = [self.norm(f"{name}.attention_norm", row) for row in older]
            older = [
                row + self._attended(f"{name}.attention", query, normed)
                for row, query in zip(older, normed, strict=True)
            ]
            older = [self._fed(name, row) for row in older]
        memory = [self.norm("encoder_norm", row) for row in older]
        for layer in range(self.layers):
            name = f"decoder.{layer}"
            normed = [self.norm(f"{name}.attention_norm", row) for row in newer]
            newer = [
                row + self._attended(f"{name}.attention", normed[i], normed[: i + 1])
                for i, row in enumerate(newer)
            ]
            if memory:
                newer = [
                    row
                    + self._attended(
                        f"{name}.source_attention", self.norm(f"{name}.source_norm", row), memory
                    )
                    for row in newer
                ]
            newer = [self._fed(name, row) for row in newer]
        return [self.norm("decoder_norm", row) for row in newer]

    def _fed(self, name: str, row: Tensor) -> Tensor:
        normed = self.norm(f"{name}.feed_forward_norm", row)
        inner = torch.relu(self.map(f"{name}.feed_forward.expand", normed))
        return row + self.map(f"{name}.feed_forward.contract", inner)

    def _attended(self, name: str, query: Tensor, rows: list[Tensor]) -> Tensor:
        q = self.map(f"{name}.query", query)
        width = len(q) // self.heads
        heads = []
        for m in range(self.heads):
            own = slice(m * width, (m + 1) * width)
            scores = [q[own] @ self.map(f"{name}.key", row)[own] / math.sqrt(width) for row in rows]
            weights = torch.softmax(torch.stack(scores), 0)
            parts = [
                w * self.map(f"{name}.value", row)[own]
                for w, row in zip(weights, rows, strict=True)
            ]
            heads.append(sum(parts[1:], parts[0]))
        return self.map(f"{name}.output", torch.cat(heads))

    @staticmethod
    def _sinusoid(place: int, width: int) -> Tensor:
        phases = [place / 10_000 ** (2 * k / width) for k in range(width // 2)]
        values = [math.sin(p) for p in phases] + [math.cos(p) for p in phases]
        return torch.tensor(values, dtype=torch.float64)


@dataclass(frozen=True)
class Drifting(Weights):
    """TimeSVD++; times are in seconds, `first` and `last` those that the bins lie between."""

    bins: int
    first: int
    last: int

    def score(
        self, user: int, item: int, *, time: int, mean_time: float, history: list[int]
    ) -> Tensor:
        """Return r_ui(t) of a user whose other events are the history."""
        w = self.weights
        days = (time - mean_time) / 86_400
        dev = math.copysign(abs(days) ** 0.4, days)
        b = self.bin_of(time)
        score = w["bias"][0] + w["user_bias"][user, 0] + w["user_drift_bias"][user, 0] * dev
        score = score + w["user_bin_bias"][user, b]
        score = score + w["item_bias"][item, 0] + w["item_bin_bias"][item, b]
        for d in range(w["item_embedding"].shape[1]):
            taste = w["user_embedding"][user, d] + w["user_drift"][user, d] * dev
            for other in history:
                taste = taste + w["history_embedding"][other, d] / math.sqrt(len(history))
            score = score + w["item_embedding"][item, d] * taste
        return score

    def bin_of(self, time: int) -> int:
        """Return the bin of a time, those outside in the first or last one."""
        width = (self.last - self.first) // self.bins + 1
        return min(self.bins - 1, max(0, (time - self.first) // width))

    def loss(self, user: int, events: list[tuple[int, int]], negatives: list[list[int]]) -> Tensor:
        """Return the loss of a user's events (item, time) but the first, summed."""
        mean_time = sum(time for _, time in events) / len(events)
        total = torch.zeros((), dtype=torch.float64)
        for n, (item, time) in enumerate(events):
            if n == 0:
                continue
            history = [other for m, (other, _) in enumerate(events) if m != n]
            known = {"time": time, "mean_time": mean_time, "history": history}
            total = total - torch.sigmoid(self.score(user, item, **known)).log()
            for wrong in negatives[n - 1]:
                total = total - torch.sigmoid(-self.score(user, wrong, **known)).log()
        return total


@dataclass(frozen=True)
class Tensored:
    """What BPTF's cells say, cell by cell: factors as lists of rows, items from row 1."""

    events: set[tuple[int, int, int]]
    weight: float
    n_items: int

    def cells(self) -> list[tuple[int, int, int, float, float]]:
        """Return every cell that counts: user, item, bin, value, weight."""
        active = {(user, k) for user, _, k in self.events}
        return [
            (u, i, k, 1.0, 1.0) if (u, i, k) in self.events else (u, i, k, 0.0, self.weight)
            for u, k in sorted(active)
            for i in range(1, self.n_items + 1)
        ]

    def squared_error(self, factors: tuple[Tensor, Tensor, Tensor]) -> tuple[float, float]:
        """Return the weighted squared error, and the sum of the weights."""
        users, items, times = factors
        error = total = 0.0
        for u, i, k, value, weight in self.cells():
            expected = sum(float(users[u, d] * items[i, d] * times[k, d]) for d in range(2))
            error += weight * (value - expected) ** 2
            total += weight
        return error, total

    def conditional(
        self,
        mode: int,
        row: int,
        *,
        factors: tuple[Tensor, Tensor, Tensor],
        prior: tuple[Tensor, Tensor],
        alpha: float,
    ) -> tuple[Tensor, Tensor]:
        """Return mean and covariance of a row, given all other numbers."""
        mean, precision = prior
        known, linear = precision.clone(), precision @ mean
        first, second = (m for m in range(3) if m != mode)
        for *cell, value, weight in self.cells():
            if cell[mode] == row:
                q = factors[first][cell[first]] * factors[second][cell[second]]
                known += alpha * weight * torch.outer(q, q)
                linear = linear + alpha * weight * value * q
        covariance = torch.linalg.inv(known)
        return covariance @ linear, covariance
