"""Raw interactions in the file's row order, and the one way to hash them.

Row order is content: it decides the order of events that share a timestamp, so nothing here sorts.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_ROWS_PER_UPDATE = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Interactions:
    """Who interacted with what and when, one row each, as the source lists them.

    Attributes:
        users: raw ids, non-empty text without tabs, line breaks or NUL, shape (rows,).
        items: raw ids likewise, shape (rows,).
        timestamps: seconds since 1970-01-01 UTC, int64, shape (rows,).
        ratings: float64, shape (rows,), or None where the source has no ratings.
    """

    users: NDArray[np.object_]
    items: NDArray[np.object_]
    timestamps: NDArray[np.int64]
    ratings: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.timestamps)


def content_sha256(interactions: Interactions) -> str:
    r"""Return the SHA-256 of the rows as UTF-8 text, `user\titem\trating\ttimestamp\n` each.

    A whole rating has no decimals (`4`, not `4.0`), others are Python's shortest form; without
    ratings the field is empty. The hash so depends on the values, not on the file that held them.

    >>> ids = np.array(["a"], dtype=object)
    >>> row = Interactions(ids, ids, np.array([7]), np.array([4.0]))
    >>> content_sha256(row) == hashlib.sha256(b"a\ta\t4\t7\n").hexdigest()
    True
    """
    digest = hashlib.sha256()
    ratings = _rating_texts(interactions)
    for start in range(0, len(interactions), _ROWS_PER_UPDATE):
        rows = slice(start, start + _ROWS_PER_UPDATE)
        texts = pc.binary_join_element_wise(
            pa.array(interactions.users[rows], pa.string()),
            pa.array(interactions.items[rows], pa.string()),
            pa.array(ratings[rows], pa.string()),
            pc.cast(pa.array(interactions.timestamps[rows]), pa.string()),
            "\t",
        )
        lines = pc.binary_join_element_wise(texts, "", "\n")
        # The texts of an array lie end to end in its last buffer.
        length = pc.sum(pc.binary_length(lines)).as_py()
        digest.update(memoryview(lines.buffers()[-1])[:length])
    return digest.hexdigest()


def _rating_texts(interactions: Interactions) -> NDArray[np.object_]:
    if interactions.ratings is None:
        return np.full(len(interactions), "", dtype=object)
    distinct, inverse = np.unique(interactions.ratings, return_inverse=True)
    texts = [str(int(x)) if x.is_integer() else repr(x) for x in distinct.tolist()]
    return np.array(texts, dtype=object)[inverse]
