"""Independent random generators by name: one seed names them all, none touches global state.

A stream depends on the seed and its own name alone, so that a draw added to one stream moves no
other: two networks that share a named part draw the same weights for it at equal seeds.
"""

import hashlib
import json

import numpy as np
import torch


def numpy_generator(seed: int, *names: str) -> np.random.Generator:
    """Return the NumPy stream of that name.

    >>> numpy_generator(0, "order").integers(100) == numpy_generator(0, "order").integers(100)
    np.True_
    """
    return np.random.default_rng(_derived(seed, names))


def torch_generator(seed: int, *names: str, device: str | torch.device = "cpu") -> torch.Generator:
    """Return the torch stream of that name; another kind of device gives other numbers."""
    return torch.Generator(device).manual_seed(_derived(seed, names))


def _derived(seed: int, names: tuple[str, ...]) -> int:
    """Hash seed and name into 63 bits, the most that both libraries take."""
    digest = hashlib.sha256(json.dumps([seed, *names]).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
