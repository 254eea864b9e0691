"""How an array of per-user counts lies in the table `rank`: little-endian int32, zlib-compressed.

>>> unpack(pack(np.array([0, 3, 2], dtype=np.int32))).tolist()
[0, 3, 2]
"""

import zlib

import numpy as np
from numpy.typing import NDArray

_LAYOUT = np.dtype("<i4")


def pack(counts: NDArray[np.int32]) -> bytes:
    """Return the bytes to store; the same on every machine."""
    return zlib.compress(counts.astype(_LAYOUT).tobytes())


def unpack(stored: bytes) -> NDArray[np.int32]:
    """Return the counts, read-only, in the data set's user order."""
    return np.frombuffer(zlib.decompress(stored), dtype=_LAYOUT)
