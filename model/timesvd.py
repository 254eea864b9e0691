"""TimeSVD++: biases and tastes that drift, for events instead of ratings.

Koren, "Collaborative Filtering with Temporal Dynamics", KDD 2009.
"""

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from model.config import TimesvdConfig
from model.data.batches import Batch, TrainingBatch
from model.data.next_items import NextItemBatch
from model.data.prepare import PreparedData
from model.data.split import training_ends
from model.network import Network, draw
from model.next_item import dots, of_users, without_target

DRIFT_POWER = 0.4
SECONDS_PER_DAY = 86_400


class TimeBins(nn.Module):
    """Equal stretches of time from the first to the last event of the training prefixes.

    A time before or after belongs to the first or last.
    """

    first: Tensor
    seconds: Tensor

    def __init__(self, n: int, times: Int64[Tensor, "events"]) -> None:
        super().__init__()
        self._n = n
        first, last = int(times.min()), int(times.max())
        self.register_buffer("first", torch.tensor(first), persistent=False)
        seconds = (last - first) // n + 1
        self.register_buffer("seconds", torch.tensor(seconds), persistent=False)

    def forward(self, times: Int64[Tensor, "*places"]) -> Int64[Tensor, "*places"]:
        """Return the number of each time's bin, from 0."""
        passed = torch.div(times - self.first, self.seconds, rounding_mode="floor")
        return passed.clamp_(0, self._n - 1)


class TimeSvd(Network):
    """User u takes item i at time t with probability `s(r_ui(t))`, s being the sigmoid.

    `r_ui(t) = mu + b_u + a_u dev_u(t) + b_u,bin(t) + b_i + b_i,bin(t)
    + q_i . (p_u + alpha_u dev_u(t) + |N|^-1/2 sum_{j in N} y_j)`

    - dev_u(t) = `sign(t - t_u) |t - t_u|^0.4` in days, t_u the mean time of u's training prefix
    - bin(t): one of `bins` equal stretches of time
    - N: u's other events: in training those of the prefix without i itself, at evaluation all that
      are known

    Loss: the mean over events of `-log s(r_ui(t)) - sum_k log s(-r_uk(t))`, k one of `negatives`
    items that u has not had in training, at the event's own time (as for the next-item models; the
    logistic loss with sampled negatives of He et al., "Neural Collaborative Filtering", WWW 2017).
    At evaluation t is the target's time, which is thus an input.

    Numbered differences from the paper:

    1. Events and sampled absences with a logistic loss; the paper fits ratings by least squares.
    2. N leaves out the item that is asked for: an absence is never in N, so that N with it would
       tell the answer (as Kabbur, Ning, Karypis, "FISM", KDD 2013).
    3. A user's bias has the bins of the items', and factors drift along dev_u alone: the paper
       gives both a parameter for each day, which no later day has.
    4. b_i is not scaled by c_u(t), which models how a user's scale of ratings changes.
    5. Adam on batches of whole users, L2 as `weight_decay` on all parameters alike.

    The user's terms change no ranking: they let the others fit what is left.
    """

    mean_time: Tensor

    def __init__(self, config: TimesvdConfig, data: PreparedData, *, seed: int) -> None:
        super().__init__()
        hidden, n_users, n_rows = config.hidden, data.n_users, data.n_items + 1
        starts, ends = data.offsets[:-1], training_ends(data.offsets)
        totals = np.cumsum(np.append(0, data.timestamps - data.timestamps.min()).astype(np.float64))
        means = (totals[ends] - totals[starts]) / (ends - starts) + data.timestamps.min()
        self.register_buffer("mean_time", torch.from_numpy(means), persistent=False)
        self.bins = TimeBins(config.bins, training_times(data))
        self.user_embedding = nn.Parameter(torch.empty(n_users, hidden))
        self.user_drift = nn.Parameter(torch.empty(n_users, hidden))
        self.item_embedding = nn.Parameter(torch.empty(n_rows, hidden))
        self.history_embedding = nn.Parameter(torch.empty(n_rows, hidden))
        self.bias = nn.Parameter(torch.empty(1))
        self.user_bias = nn.Parameter(torch.empty(n_users, 1))
        self.user_drift_bias = nn.Parameter(torch.empty(n_users, 1))
        self.user_bin_bias = nn.Parameter(torch.empty(n_users, config.bins))
        self.item_bias = nn.Parameter(torch.empty(n_rows, 1))
        self.item_bin_bias = nn.Parameter(torch.empty(n_rows, config.bins))
        draw(self, seed)
        with torch.no_grad():
            self.user_drift.zero_()
            self.history_embedding[0] = 0

    def hidden(
        self,
        users: Int64[Tensor, "*places"],
        times: Int64[Tensor, "*places"],
        *,
        history: Float[Tensor, "*places hidden"],
    ) -> Float[Tensor, "*places hidden_and_term"]:
        """Return what q_i is multiplied with, and after it the terms that no item changes.

        Args:
            users: whose taste.
            times: when.
            history: `|N|^-1/2 sum_{j in N} y_j`.
        """
        days = (times - self.mean_time[users]) / SECONDS_PER_DAY
        dev = (days.sign() * days.abs() ** DRIFT_POWER).to(history.dtype)[..., None]
        embedded = functional.embedding(users, self.user_embedding)
        taste = embedded + functional.embedding(users, self.user_drift) * dev + history
        term = self.bias + functional.embedding(users, self.user_bias)
        term = term + functional.embedding(users, self.user_drift_bias) * dev
        binned = self.user_bin_bias[users, self.bins(times)][..., None]
        return torch.cat([taste, term + binned], dim=-1)

    def loss(
        self, batch: TrainingBatch, dropout: torch.Generator | None = None
    ) -> Float[Tensor, ""]:
        """Return the mean loss over events with a label; each row is a user's whole prefix."""
        del dropout
        if not isinstance(batch, NextItemBatch):
            raise TypeError("the logistic loss needs negatives: a NextItemBatch")
        chosen = batch.labels > 0
        events = torch.cat([batch.items, batch.labels[:, -1:]], dim=1)
        y = functional.embedding(events, self.history_embedding, padding_idx=0)
        others = ((events > 0).sum(dim=1, keepdim=True) - 1).to(y.dtype)
        history = (y.sum(dim=1, keepdim=True) - y[:, 1:]) * (others**-0.5)[..., None]
        times = batch.next_times[chosen]
        state = self.hidden(batch.users[chosen], times, history=history[chosen])
        asked = torch.cat([batch.labels[chosen][:, None], batch.negatives[chosen]], dim=1)
        scores = self._scores(state, self.bins(times), items=asked)
        wrong = functional.softplus(scores[:, 1:]).sum(dim=1)
        return (functional.softplus(-scores[:, 0]) + wrong).mean()

    def state(self, batch: Batch) -> Float[Tensor, "batch hidden_term_and_bin"]:
        """Return what `hidden` does and, as a number, the target's bin."""
        known = of_users(without_target(batch))
        y = functional.embedding(known.items, self.history_embedding)
        n_events = (known.items > 0).sum(dim=1, keepdim=True).clamp_(min=1).to(y.dtype)
        times = batch.times[:, -1]
        state = self.hidden(known.users[:, -1], times, history=y.sum(dim=1) * n_events**-0.5)
        return torch.cat([state, self.bins(times)[:, None]], dim=1)

    def candidate_scores(
        self,
        state: Float[Tensor, "batch hidden_term_and_bin"],
        candidates: Int64[Tensor, "batch candidates"],
    ) -> Float[Tensor, "batch candidates"]:
        """Score each row's own candidates."""
        return self._scores(state[:, :-1], state[:, -1].long(), items=candidates)

    def all_scores(
        self, state: Float[Tensor, "batch hidden_term_and_bin"]
    ) -> Float[Tensor, "batch classes"]:
        """Score items 1..I; column 0 belongs to padding."""
        of_items = state[:, :-2] @ self.item_embedding.T + self.item_bias.T
        return of_items + self.item_bin_bias.T[state[:, -1].long()] + state[:, -2:-1]

    def _scores(
        self,
        state: Float[Tensor, "rows hidden_and_term"],
        bins: Int64[Tensor, "rows"],
        *,
        items: Int64[Tensor, "rows n"],
    ) -> Float[Tensor, "rows n"]:
        content = dots(state[:, :-1], self.item_embedding, items=items)
        of_items = functional.embedding(items, self.item_bias)[..., 0]
        return content + of_items + self.item_bin_bias[items, bins[:, None]] + state[:, -1:]


def training_times(data: PreparedData) -> Int64[Tensor, "events"]:
    """Return when the events of the training prefixes came."""
    ends = np.repeat(training_ends(data.offsets), np.diff(data.offsets))
    return torch.from_numpy(data.timestamps[np.arange(len(ends)) < ends])
