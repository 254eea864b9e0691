import numpy as np
import pytest

from model.data.interactions import Interactions


@pytest.fixture(scope="session")
def interactions_of():
    """Build interactions from rows (user, item, time) or (user, item, time, rating)."""

    def build(rows):
        users, items, times, *ratings = zip(*rows, strict=True)
        return Interactions(
            users=np.array([str(user) for user in users], dtype=object),
            items=np.array([str(item) for item in items], dtype=object),
            timestamps=np.array(times, dtype=np.int64),
            ratings=np.array(ratings[0], dtype=np.float64) if ratings else None,
        )

    return build
