import numpy as np
import pytest

from model.data.negatives import N_NEGATIVES
from model.data.prepare import PreparedData

DAY = 86_400


@pytest.fixture(scope="session")
def prepared_of():
    """Build a data set from item sequences; events are a day and a second apart."""

    def build(sequences, *, n_items, negatives=None):
        lengths = [len(items) for items in sequences]
        items = np.concatenate(sequences).astype(np.int32)
        timestamps = np.concatenate([np.arange(n) * (DAY + 1) for n in lengths]).astype(np.int64)
        candidates = np.zeros((len(sequences), N_NEGATIVES), dtype=np.int32)
        for user, sequence in enumerate(sequences):
            unseen = [i for i in range(1, n_items + 1) if i not in sequence][:N_NEGATIVES]
            chosen = unseen if negatives is None else negatives[user]
            candidates[user, : len(chosen)] = chosen
        return PreparedData(
            name="small",
            fingerprint="0" * 64,
            n_users=len(sequences),
            n_items=n_items,
            n_days=int(timestamps.max()) // DAY + 1,
            items=items,
            timestamps=timestamps,
            days=(timestamps // DAY).astype(np.int32),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            popularity=np.bincount(items, minlength=n_items + 1).astype(np.int64),
            user_ids=np.array([str(u) for u in range(len(sequences))]),
            item_ids=np.array([str(i) for i in range(1, n_items + 1)]),
            negatives={"popular-100": candidates, "uniform-100": candidates},
        )

    return build
