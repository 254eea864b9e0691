"""From raw interactions to one immutable data set of flat arrays, with a fingerprint.

What comes out is a function of the raw rows, the declared options and `VERSION` alone: no clock,
time zone, locale or hash seed.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from model.config import DatasetConfig
from model.data import sources, synthetic
from model.data.array_cache import Arrays, mapped, peek
from model.data.interactions import Interactions, content_sha256
from model.data.negatives import popular_negatives, uniform_negatives
from model.errors import RequestError

VERSION = 1
"""Raised when the same rows and options give other arrays; negatives and their seed included."""

MAKERS = tuple(
    Path(__file__).with_name(f"{module}.py")
    for module in ("prepare", "negatives", "synthetic", "interactions")
)
"""The code that arrays depend on."""

_FLAT = ("items", "timestamps", "days", "offsets", "popularity", "user_ids", "item_ids")
_NEGATIVES = "negatives."

_SECONDS_PER_DAY = 86_400
_INTEGER = re.compile(r"[+-]?[0-9]{1,100}")


@dataclass(frozen=True, slots=True, eq=False)
class PreparedData:
    """Users' histories end to end: user u is `offsets[u]:offsets[u + 1]`, oldest event first.

    Arrays are read-only and flat, so that one copy can be shared by many processes.

    Attributes:
        fingerprint: SHA-256 over raw rows, options and version: results compare only within one.
        n_days: last day + 1.
        items: numbers 1..n_items, int32, shape (events,).
        timestamps: seconds UTC, int64, shape (events,); never falls within a user.
        days: whole UTC days since the data set's first day, int32, shape (events,).
        offsets: int64, shape (n_users + 1,); every user has at least 3 events.
        popularity: events of each item, held-out ones included, int64, shape (n_items + 1,).
        user_ids: raw ids, shape (n_users,); `user_ids[u]` is user u.
        item_ids: raw ids, shape (n_items,); `item_ids[i - 1]` is item number i.
        negatives: by protocol, item numbers, int32, shape (n_users, 100); 0 = none left.
    """

    name: str
    fingerprint: str
    n_users: int
    n_items: int
    n_days: int
    items: NDArray[np.int32]
    timestamps: NDArray[np.int64]
    days: NDArray[np.int32]
    offsets: NDArray[np.int64]
    popularity: NDArray[np.int64]
    user_ids: NDArray[np.str_]
    item_ids: NDArray[np.str_]
    negatives: Mapping[str, NDArray[np.int32]]


def load_prepared(config: DatasetConfig, folder: Path) -> PreparedData:
    """Generate a declared synthetic data set, or load a stored one from `folder`, and prepare it.

    What was prepared is kept in `folder`, and is mapped, not copied, when it is asked for again.

    Raises:
        RequestError: nothing of that name is stored, or too little is left of it.
    """

    def build() -> Arrays:
        if config.synthetic is not None:
            return _arrays(prepare(synthetic.generate(config.synthetic), config))
        return _arrays(prepare(sources.load(config.name, folder), config))

    return _prepared(mapped(_entry(config, folder), build), name=config.name)


def fingerprint_here(config: DatasetConfig, folder: Path) -> str | None:
    """Return the fingerprint that `load_prepared` would give, without preparing anything.

    None where `folder` does not have the data, or never had those of a recipe prepared.
    """
    try:
        known = peek(_entry(config, folder), "fingerprint")
        if known is not None:
            return str(known[0])
        if config.synthetic is not None:
            return None
        return _fingerprint(sources.load(config.name, folder), config)
    except RequestError:
        return None


def _entry(config: DatasetConfig, folder: Path) -> Path:
    """Return where `folder` keeps the arrays of a declared data set, prepared or not."""
    if config.synthetic is not None:
        source = config.synthetic.model_dump_json()
    else:
        with sources.stored_file(config.name, folder).open("rb") as file:
            source = hashlib.file_digest(file, "sha256").hexdigest()
    return folder / sources.PREPARED / cache_key(source, config)


def prepare(interactions: Interactions, config: DatasetConfig) -> PreparedData:
    """Filter, order, number and split into days (MODEL, "Data preparation"), and draw negatives.

    Raises:
        RequestError: `min_rating` without ratings, or fewer than 1 user or 2 items are left.
    """
    raw_users, users_seen = pd.factorize(interactions.users)
    raw_items, items_seen = pd.factorize(interactions.items)
    kept = np.flatnonzero(_kept(raw_users, raw_items, interactions.ratings, config))
    users, user_ids = _numbered(raw_users[kept], users_seen)
    items, item_ids = _numbered(raw_items[kept], items_seen)
    if len(user_ids) < 1 or len(item_ids) < 2:
        raise RequestError(
            f"at least 1 user and 2 items must be left after filtering, "
            f"got {len(user_ids)} and {len(item_ids)} of {len(interactions)} rows of {config.name} "
            f"(core: {config.core}, min_interactions: {config.min_interactions}, "
            f"min_rating: {config.min_rating}); lower min_interactions or check the file"
        )

    timestamps = interactions.timestamps[kept]
    order = np.lexsort((timestamps, users))  # stable: equal times keep the file's row order
    numbers: NDArray[np.int32] = (items[order] + 1).astype(np.int32)
    timestamps = timestamps[order]
    days = timestamps // _SECONDS_PER_DAY
    days = (days - days.min()).astype(np.int32)
    lengths = np.bincount(users, minlength=len(user_ids))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    popularity = np.bincount(numbers, minlength=len(item_ids) + 1).astype(np.int64)
    negatives = {
        "popular-100": popular_negatives(numbers, offsets, popularity),
        "uniform-100": uniform_negatives(numbers, offsets, n_items=len(item_ids)),
    }
    return PreparedData(
        name=config.name,
        fingerprint=_fingerprint(interactions, config),
        n_users=len(user_ids),
        n_items=len(item_ids),
        n_days=int(days.max()) + 1,
        items=_read_only(numbers),
        timestamps=_read_only(timestamps),
        days=_read_only(days),
        offsets=_read_only(offsets),
        popularity=_read_only(popularity),
        user_ids=_read_only(user_ids),
        item_ids=_read_only(item_ids),
        negatives={name: _read_only(drawn) for name, drawn in negatives.items()},
    )


def _kept(
    users: NDArray[np.intp],
    items: NDArray[np.intp],
    ratings: NDArray[np.float64] | None,
    config: DatasetConfig,
) -> NDArray[np.bool_]:
    """Return which rows survive the rating filter and the filter of rare items, then users."""
    kept = np.ones(len(users), dtype=np.bool_)
    if config.min_rating is not None:
        if ratings is None:
            raise RequestError(
                f"min_rating needs ratings, got min_rating={config.min_rating} and "
                f"{config.name} has none; import it with a rating column or drop min_rating"
            )
        kept = ratings >= config.min_rating
    while True:
        before = np.count_nonzero(kept)
        for codes in (items, users):
            counts = np.bincount(codes[kept], minlength=codes.max(initial=0) + 1)
            kept = kept & (counts[codes] >= config.min_interactions)
        if config.core == "once" or np.count_nonzero(kept) == before:
            return kept


def _numbered(
    codes: NDArray[np.intp], ids: NDArray[np.object_]
) -> tuple[NDArray[np.intp], NDArray[np.str_]]:
    """Renumber the ids that still occur from 0 in sorted order: as integers, else by code point."""
    present = np.flatnonzero(np.bincount(codes, minlength=len(ids)))
    texts = ids[present].tolist()
    as_integers = all(_INTEGER.fullmatch(text) for text in texts)
    order = sorted(
        range(len(texts)),
        # `7` and `007` are two ids: the text breaks their tie.
        key=lambda n: (int(texts[n]) if as_integers else 0, texts[n]),
    )
    ranked = present[order]
    number = np.zeros(len(ids), dtype=np.intp)
    number[ranked] = np.arange(len(ranked))
    return number[codes], np.array([texts[n] for n in order], dtype=np.str_)


def _fingerprint(interactions: Interactions, config: DatasetConfig) -> str:
    """Hash what the arrays depend on; the name and a recipe act through the rows alone."""
    value = {
        "rows": content_sha256(interactions),
        "options": config.model_dump(mode="json", exclude={"name", "synthetic"}),
        "version": VERSION,
    }
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def cache_key(source: str, config: DatasetConfig, *, makers: Sequence[Path] = MAKERS) -> str:
    """Hash what the arrays depend on, as the fingerprint does, without reading any rows.

    The code that makes them is part of it: whoever changes that sees no old arrays, even before
    `VERSION` is raised.
    """
    value = {
        "source": source,
        "options": config.model_dump(mode="json", exclude={"name", "synthetic"}),
        "version": VERSION,
        "code": [maker.read_text(encoding="utf-8") for maker in makers],
    }
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _arrays(data: PreparedData) -> Arrays:
    """Return all there is to keep, each an array."""
    return {
        "fingerprint": np.array([data.fingerprint]),
        "n_days": np.array([data.n_days]),
        **{name: getattr(data, name) for name in _FLAT},
        **{f"{_NEGATIVES}{name}": drawn for name, drawn in data.negatives.items()},
    }


def _prepared(arrays: Arrays, *, name: str) -> PreparedData:
    """Undo `_arrays`."""
    return PreparedData(
        name=name,
        fingerprint=str(arrays["fingerprint"][0]),
        n_users=len(arrays["user_ids"]),
        n_items=len(arrays["item_ids"]),
        n_days=int(arrays["n_days"][0]),
        **{field: arrays[field] for field in _FLAT},
        negatives={
            field.removeprefix(_NEGATIVES): drawn
            for field, drawn in arrays.items()
            if field.startswith(_NEGATIVES)
        },
    )


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
