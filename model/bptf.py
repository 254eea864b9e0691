"""BPTF: Bayesian factorization of a tensor of users, items and time, by Gibbs sampling.

Xiong, Chen, Huang, Schneider, Carbonell, "Temporal Collaborative Filtering with Bayesian
Probabilistic Tensor Factorization", SDM 2010.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor, nn

from model.config import BptfConfig
from model.data.batches import Batch
from model.data.prepare import PreparedData
from model.data.split import training_ends
from model.errors import Diverged
from model.network import Sampled
from model.next_item import of_users
from model.randomness import torch_generator
from model.timesvd import TimeBins, training_times

_ROWS = 512  # whose precisions are in memory at once
_CELLS = 1 << 18
_STRENGTH = 1.0  # beta_0: what a factor's prior mean counts, in rows
_NOISE_FREEDOM, _NOISE_SCALE = 1.0, 0.04  # nu_0 and W_0 of alpha's prior, the paper's


class Bptf(Sampled):
    """Cell (u, i, k) of the tensor is normal around `sum_d U_ud V_id T_kd`, with precision alpha.

    A cell is 1 where user u had item i in time bin k, else 0. Priors, D being the width `hidden`:

    - `U_u ~ N(mu_U, L_U^-1)`, `V_i ~ N(mu_V, L_V^-1)`
    - `T_1 ~ N(mu_T, L_T^-1)`, `T_k ~ N(T_k-1, L_T^-1)`: time drifts
    - each L is Wishart with identity scale and D degrees of freedom; given L, `mu_U` and `mu_V` are
      `N(0, L^-1)`, `mu_T` is `N(1, L^-1)`; `alpha` is Wishart(0.04, 1)

    A sweep draws alpha, the three (mu, L), then U, V, and T in order of time, each from its
    distribution given all others and the cells. The score of an item is the mean over the newest
    `samples` sweeps of `sum_d U_ud V_id T_kd`, k being the bin of the target's time.

    Numbered differences from the paper:

    1. Events and their absence instead of ratings. Absences are the cells of bins in which the
       user had anything: which item, not whether, is the question. Each counts as `zero_weight`
       of an observation: the log likelihood expected if absences are drawn at that rate. (All
       absences by weight: Hu, Koren, Volinsky, ICDM 2008; in a tensor with time bands: Hidasi,
       Tikk, "Fast ALS-Based Tensor Factorization", ECML PKDD 2012, whose products of Gram
       matrices make them as cheap as none.)
    2. U and V start from normal(0, 1 / sqrt(D)) and T from 1, where the paper starts from a point
       estimate.
    3. No fixed burn-in: older sweeps leave the mean, and validation chooses the epoch, that is how
       many sweeps are made.
    """

    cells: Tensor
    pairs: Tensor
    user_embedding: nn.Parameter
    time_embedding: nn.Parameter
    user_samples: Tensor
    item_samples: Tensor
    time_samples: Tensor
    n_sweeps: Tensor

    def __init__(self, config: BptfConfig, data: PreparedData, *, seed: int) -> None:
        super().__init__()
        self._weight = config.zero_weight
        self.bins = TimeBins(config.bins, training_times(data))
        starts, ends = data.offsets[:-1], training_ends(data.offsets)
        users = np.repeat(np.arange(data.n_users), ends - starts)
        kept = np.arange(len(data.items)) < np.repeat(ends, np.diff(data.offsets))
        bins = self.bins(training_times(data)).numpy()
        cells = np.unique(np.stack([users, data.items[kept].astype(np.int64), bins]), axis=1)
        pairs = np.unique(cells[[0, 2]], axis=1)
        self.register_buffer("cells", torch.from_numpy(cells), persistent=False)
        self.register_buffer("pairs", torch.from_numpy(pairs), persistent=False)
        shapes = {"user": data.n_users, "item": data.n_items + 1, "time": config.bins}
        for name, n_rows in shapes.items():
            drawn = torch.ones(n_rows, config.hidden, dtype=torch.float64)
            if name != "time":
                generator = torch_generator(seed, "weights", f"{name}_embedding")
                drawn.normal_(0, config.hidden**-0.5, generator=generator)
            parameter = nn.Parameter(drawn, requires_grad=False)
            self.register_parameter(f"{name}_embedding", parameter)
            samples = torch.zeros(config.samples, n_rows, config.hidden)
            self.register_buffer(f"{name}_samples", samples)
        self.register_buffer("n_sweeps", torch.tensor(0))
        with torch.no_grad():
            self.item_embedding[0] = 0

    @torch.no_grad()
    def sweep(self, rng: np.random.Generator) -> float:
        """Draw everything anew and return the mean weighted squared error before it.

        Raises:
            Diverged: the numbers are not finite any more.
        """
        users, items, times = self.user_embedding, self.item_embedding[1:], self.time_embedding
        error, n_counted = self.squared_error()
        if not np.isfinite(error):
            raise Diverged(
                f"the factors must be finite, got an error of {error}; raise zero_weight"
            )
        freedom = _NOISE_FREEDOM + n_counted
        alpha = rng.gamma(freedom / 2, 2 / (1 / _NOISE_SCALE + error))
        of_users = gaussian_prior(users.numpy(force=True), rng)
        of_items = gaussian_prior(items.numpy(force=True), rng)
        of_times = walk_prior(times.numpy(force=True), rng)
        active = torch.zeros(len(users), len(times), dtype=torch.float64, device=users.device)
        active[self.pairs[0], self.pairs[1]] = 1
        self._draw_users(alpha, rng, prior=of_users, active=active)
        self._draw_items(alpha, rng, prior=of_items)
        self._draw_times(alpha, rng, walk=of_times, active=active)
        slot = int(self.n_sweeps) % len(self.user_samples)
        self.user_samples[slot] = self.user_embedding
        self.item_samples[slot] = self.item_embedding
        self.time_samples[slot] = self.time_embedding
        self.n_sweeps += 1
        return error / n_counted

    def _draw_users(
        self,
        alpha: float,
        rng: np.random.Generator,
        *,
        prior: "Gaussian",
        active: Float[Tensor, "users bins"],
    ) -> None:
        times, items = self.time_embedding, self.item_embedding
        time_grams = (times[:, :, None] * times[:, None, :]).flatten(1)
        item_gram = items[1:].T @ items[1:]
        for rows, edges, (_, i, k) in self._by_row(0, len(self.user_embedding)):
            absent = (active[rows] @ time_grams).reshape(-1, *item_gram.shape) * item_gram
            self.user_embedding[rows] = self._drawn(
                items[i] * times[k], edges, rng, prior=prior, absent=absent, alpha=alpha
            )

    def _draw_items(self, alpha: float, rng: np.random.Generator, *, prior: "Gaussian") -> None:
        users, times = self.user_embedding, self.time_embedding
        pairs = users[self.pairs[0]] * times[self.pairs[1]]
        absent = pairs.T @ pairs
        for rows, edges, (u, _, k) in self._by_row(1, len(self.item_embedding)):
            self.item_embedding[rows] = self._drawn(
                users[u] * times[k], edges, rng, prior=prior, absent=absent, alpha=alpha
            )
        self.item_embedding[0] = 0

    def _draw_times(
        self,
        alpha: float,
        rng: np.random.Generator,
        *,
        walk: "Gaussian",
        active: Float[Tensor, "users bins"],
    ) -> None:
        """Draw each bin's factor between its neighbours, the first after the walk's mean."""
        users, items, times = self.user_embedding, self.item_embedding, self.time_embedding
        item_gram = items.T @ items
        mean, precision = walk
        for rows, edges, (u, i, _) in self._by_row(2, len(times), at_once=1):
            k = rows.start
            around = [times[k - 1].numpy(force=True) if k else mean]
            around += [row.numpy(force=True) for row in times[k + 1 : k + 2]]
            prior = np.mean(around, axis=0), len(around) * precision
            there = users[active[:, k] > 0]
            absent = item_gram * (there.T @ there)
            times[rows] = self._drawn(
                users[u] * items[i], edges, rng, prior=prior, absent=absent, alpha=alpha
            )

    def squared_error(self) -> tuple[float, float]:
        """Return the weighted squared error over all cells, and what the cells count together."""
        users, items, times = self.user_embedding, self.item_embedding[1:], self.time_embedding
        pairs = users[self.pairs[0]] * times[self.pairs[1]]
        everywhere: Tensor = ((pairs.T @ pairs) * (items.T @ items)).sum()
        error = self._weight * everywhere
        for first in range(0, self.cells.shape[1], _CELLS):
            u, i, k = self.cells[:, first : first + _CELLS]
            expected = (users[u] * self.item_embedding[i] * times[k]).sum(dim=1)
            error += ((1 - expected) ** 2 - self._weight * expected**2).sum()
        n_events = self.cells.shape[1]
        n_absent = self.pairs.shape[1] * len(items) - n_events
        return float(error), n_events + self._weight * n_absent

    def state(self, batch: Batch) -> Float[Tensor, "batch samples_and_hidden"]:
        """Return `U_ud T_kd` of every kept sweep, end to end."""
        users = of_users(batch).users[:, -1]
        bins = self.bins(batch.times[:, -1])
        factors = self.user_samples[:, users] * self.time_samples[:, bins]
        return factors.transpose(0, 1).flatten(1)

    def candidate_scores(
        self,
        state: Float[Tensor, "batch samples_and_hidden"],
        candidates: Int64[Tensor, "batch candidates"],
    ) -> Float[Tensor, "batch candidates"]:
        """Score each row's own candidates."""
        parts = state.chunk(len(self.item_samples), dim=1)
        summed = torch.zeros(candidates.shape, device=state.device)
        for items, part in zip(self.item_samples, parts, strict=True):
            summed += (items[candidates] @ part[:, :, None])[:, :, 0]
        return summed / self._n_kept

    def all_scores(
        self, state: Float[Tensor, "batch samples_and_hidden"]
    ) -> Float[Tensor, "batch classes"]:
        """Score items 1..I; column 0 belongs to padding."""
        return state @ self.item_samples.transpose(0, 1).flatten(1).T / self._n_kept

    @property
    def _n_kept(self) -> int:
        return max(1, min(int(self.n_sweeps), len(self.item_samples)))

    def _by_row(
        self, mode: int, n_rows: int, *, at_once: int = _ROWS
    ) -> Iterator[tuple[slice, list[int], Int64[Tensor, "3 cells"]]]:
        """Yield rows of a factor, where each one's events start (the end too), and the events."""
        counts = torch.bincount(self.cells[mode], minlength=n_rows).cumsum(0)
        starts = [0, *counts.tolist()]
        in_order = self.cells[:, torch.argsort(self.cells[mode], stable=True)]
        for first in range(0, n_rows, at_once):
            rows = slice(first, min(first + at_once, n_rows))
            edges = starts[rows.start : rows.stop + 1]
            yield rows, [e - edges[0] for e in edges], in_order[:, edges[0] : edges[-1]]

    def _drawn(
        self,
        products: Float[Tensor, "cells hidden"],
        edges: list[int],
        rng: np.random.Generator,
        *,
        prior: "Gaussian",
        absent: Float[Tensor, "*rows hidden hidden"],
        alpha: float,
    ) -> Float[Tensor, "rows hidden"]:
        """Draw rows of a factor given the two others.

        Args:
            products: of the others' rows, for each event in order of row.
            edges: where each row's events start, the last one's end included.
            rng: of the trial.
            prior: mean and precision.
            absent: sum of outer products over all cells, events included, of each row or of all.
            alpha: of the cells.
        """
        device = products.device
        rows = [products[first:stop] for first, stop in pairwise(edges)]
        mean, precision = (torch.from_numpy(np.asarray(part)).to(device) for part in prior)
        grams = torch.stack([row.T @ row for row in rows])
        known = precision + alpha * ((1 - self._weight) * grams + self._weight * absent)
        linear = precision @ mean + alpha * torch.stack([row.sum(dim=0) for row in rows])
        lower = torch.linalg.cholesky_ex(known).L
        noise = torch.from_numpy(rng.standard_normal(linear.shape)).to(device)[..., None]
        half = torch.linalg.solve_triangular(lower, linear[..., None], upper=False)
        found: Tensor = torch.linalg.solve_triangular(lower.mT, half + noise, upper=True)
        return found[..., 0]


Gaussian = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Mean, shape (hidden,), and precision, shape (hidden, hidden)."""


def gaussian_prior(rows: NDArray[np.float64], rng: np.random.Generator) -> Gaussian:
    """Draw mean and precision of the normal distribution that these rows come from."""
    n, middle = len(rows), rows.mean(axis=0)
    apart = rows - middle
    spread = apart.T @ apart + _STRENGTH * n / (_STRENGTH + n) * np.outer(middle, middle)
    return _normal_wishart(n * middle / (_STRENGTH + n), n, spread=spread, rows=n, rng=rng)


def walk_prior(rows: NDArray[np.float64], rng: np.random.Generator) -> Gaussian:
    """Draw the mean of a random walk's first row and the precision of its steps."""
    steps, first = np.diff(rows, axis=0), rows[0] - 1.0
    spread = steps.T @ steps + _STRENGTH / (_STRENGTH + 1) * np.outer(first, first)
    mean = (rows[0] + _STRENGTH * 1.0) / (_STRENGTH + 1)
    return _normal_wishart(mean, len(rows), spread=spread, rows=1, rng=rng)


def _normal_wishart(
    mean: NDArray[np.float64],
    freedom: int,
    *,
    spread: NDArray[np.float64],
    rows: int,
    rng: np.random.Generator,
) -> Gaussian:
    """Draw a precision with `freedom` more than D degrees, then a mean that `rows` rows told."""
    width = len(mean)
    scale = np.linalg.inv(np.eye(width) + spread)
    scale = (scale + scale.T) / 2
    drawn = stats.wishart.rvs(width + freedom, scale, random_state=rng)
    precision = np.reshape(np.asarray(drawn, dtype=np.float64), (width, width))
    lower = np.linalg.cholesky((_STRENGTH + rows) * precision)
    noise = np.linalg.solve(lower.T, rng.standard_normal(width))
    return mean + noise, precision
