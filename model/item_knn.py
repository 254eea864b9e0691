"""Item-based nearest neighbours: what others had who had what the user had; nothing is trained.

Deshpande, Karypis, "Item-Based Top-N Recommendation Algorithms", ACM TOIS 2004; a weight that falls
with an event's age is that of Ding, Li, "Time Weight Collaborative Filtering", CIKM 2005.
"""

import numpy as np
import torch
from jaxtyping import Float, Int64
from scipy import sparse
from torch import Tensor

from model.config import ItemKnnConfig
from model.data.batches import Batch
from model.data.prepare import PreparedData
from model.data.split import training_ends

_SECONDS_PER_DAY = 86_400
_ROWS = 1024


class ItemKnn:
    """The score of item i: `sum_j exp(-decay * age_j) s_ji` over the user's newest events j.

    `s_ji = n_ij / sqrt(n_i n_j)` is the cosine of two items, n counting the users who had both, or
    one, in their training prefix. Of each j only the `neighbours` items with the largest cosine
    count (equal ones in item order), j itself never. The age is in days before the newest event: an
    age before the target's time would multiply all scores of a user alike, so the target's time
    cannot matter.

    Numbered differences from the papers:

    1. Cosine of who had an item, not of ratings.
    2. The similarities are not normalised to sum 1 for each j.
    """

    def __init__(self, config: ItemKnnConfig, data: PreparedData) -> None:
        self._decay = config.decay
        self._similar = _similarities(data, config.neighbours)

    def state(self, batch: Batch) -> Float[Tensor, "batch classes"]:
        """Return every item's score, padding's (0) first."""
        items, times = batch.items[:, :-1], batch.times[:, :-1]
        age = (times[:, -1:] - times).double() / _SECONDS_PER_DAY
        weights = torch.exp(-self._decay * age) * (items > 0)
        rows = np.repeat(np.arange(len(items)), items.shape[1])
        pairs = (rows, items.numpy(force=True).ravel())
        shape = (len(items), self._similar.shape[0])
        had = sparse.csr_array((weights.numpy(force=True).ravel(), pairs), shape=shape)
        return torch.from_numpy((had @ self._similar).toarray()).to(batch.items.device)

    def candidate_scores(
        self, state: Float[Tensor, "batch classes"], candidates: Int64[Tensor, "batch candidates"]
    ) -> Float[Tensor, "batch candidates"]:
        """Return the candidates' scores."""
        return state.gather(1, candidates)

    def all_scores(self, state: Float[Tensor, "batch classes"]) -> Float[Tensor, "batch classes"]:
        """Return the state: it is the scores."""
        return state


def _similarities(data: PreparedData, neighbours: int) -> sparse.csr_array:
    """Return s, row j holding the cosines of j with its nearest items, shape (I + 1, I + 1)."""
    user = np.repeat(np.arange(data.n_users), np.diff(data.offsets))
    known = np.arange(len(data.items)) < training_ends(data.offsets)[user]
    pairs = (user[known], data.items[known].astype(np.int64))
    shape = (data.n_users, data.n_items + 1)
    had = sparse.csr_array((np.ones(known.sum()), pairs), shape=shape)
    had.data[:] = 1.0  # once or often: had
    counts = np.maximum(np.asarray(had.sum(axis=0)).ravel(), 1.0)
    by_item = sparse.csr_array(had.T)
    found = []
    for first in range(0, by_item.shape[0], _ROWS):
        some = (by_item[first : first + _ROWS] @ had).tocsr()
        row = np.repeat(np.arange(some.shape[0]), np.diff(some.indptr))
        some.data /= np.sqrt(counts[first + row] * counts[some.indices])
        order = np.lexsort((some.indices, -some.data, row))
        order = order[some.indices[order] != first + row[order]]
        nth = np.arange(len(order)) - np.searchsorted(row[order], row[order])
        kept = order[nth < neighbours]
        cells = (some.data[kept], (row[kept], some.indices[kept]))
        found.append(sparse.csr_array(cells, shape=some.shape))
    return sparse.csr_array(sparse.vstack(found))
