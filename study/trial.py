"""A trial is its effective configuration: what the model reads, written one way, and its hash.

Two declarations that train the same thing have equal effective configurations, hence one id:
options that nothing reads are removed, embeddings are in canonical order, heads are a number and
numbers have one spelling. The data set enters by name and preparation, so an id needs no data.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from model.config import (
    RELATIVE_EMBEDDINGS,
    TIMED_EMBEDDINGS,
    DatasetConfig,
    EvaluationConfig,
    MeantimeConfig,
    SyntheticConfig,
    TrainingConfig,
    TrialConfig,
)
from study.space import FACTORS, Subset, Value, canonical, label, resolve_heads

SCHEME = 1
"""Version of the way ids are made; raised when the canonical text below changes its form."""

NUMERICS = 2
"""Raised by every commit that moves results, so that old results are never taken for new ones."""

Effective = dict[str, Any]
"""`{dataset, evaluation, model, numerics, scheme, seed, training}`: plain and JSON-ready."""


def unread(embeddings: Subset, factors: Mapping[str, Value]) -> frozenset[str]:
    """Return the factors that nothing reads when these embeddings are trained so.

    Args:
        embeddings: the subset.
        factors: at least `dropout`, `epochs` and `patience`.

    >>> few = {"dropout": 0.2, "epochs": 200, "patience": 20}
    >>> sorted(unread(("pos", "con"), few))
    ['frequency_base', 'relative_dropout', 'target_time', 'tau']
    >>> sorted(unread(("sin",), {**few, "dropout": 0.0, "epochs": 20}))
    ['patience', 'relative_dropout']
    """
    names: set[str] = set()
    if not any(name in RELATIVE_EMBEDDINGS for name in embeddings):
        names |= {"tau", "frequency_base", "relative_dropout"}
    if not any(name in TIMED_EMBEDDINGS for name in embeddings):
        names.add("target_time")
    if factors["dropout"] == 0:
        names.add("relative_dropout")
    # The first epoch is the best so far, so patience can run out after `patience` more at least.
    if float(factors["patience"]) >= float(factors["epochs"]):
        names.add("patience")
    return frozenset(names)


@dataclass(frozen=True, slots=True)
class Trial:
    """One effective configuration including its seed: what is trained, once, for every study.

    Attributes:
        id: 16 hexadecimal digits, the content hash of `effective`.
        effective: the configuration without unread options; treat as read-only.
    """

    id: str
    effective: Effective = field(hash=False)

    @property
    def dataset(self) -> str:
        """Name of the data set."""
        return str(self.effective["dataset"]["name"])

    @property
    def model(self) -> str:
        """Name of the model."""
        return str(self.effective["model"]["name"])

    @property
    def embeddings(self) -> Subset:
        """The subset in canonical order."""
        return canonical(self.effective["model"]["embeddings"])

    @property
    def label(self) -> str:
        """The subset's label, e.g. `Day+Pos+Sin+Log`, or `none`."""
        return label(self.embeddings)

    @property
    def seed(self) -> int:
        """The replicate."""
        return int(self.effective["seed"])

    @property
    def factors(self) -> dict[str, Value | None]:
        """Every factor's value, heads resolved; None where the trial does not read the factor."""
        return {name: self.effective[factor.section].get(name) for name, factor in FACTORS.items()}

    def config(self) -> TrialConfig:
        """Return the validated configuration that `model.train` takes; unread options default.

        An unread patience is the number of epochs, since its default might be less.
        """
        training = self.effective["training"]
        dataset = dict(self.effective["dataset"])
        if "synthetic" in dataset:
            dataset["synthetic"] = SyntheticConfig(**dataset["synthetic"])
        return TrialConfig(
            dataset=DatasetConfig(**dataset),
            model=MeantimeConfig(**{**self.effective["model"], "embeddings": self.embeddings}),
            training=TrainingConfig(**{"patience": training["epochs"], **training}),
            evaluation=EvaluationConfig(**self.effective["evaluation"]),
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True)
class Arm:
    """What trials that differ only by seed share; hashes the shared text once for all seeds."""

    shared: Effective
    _before_seed: str
    _after_seed: str

    def trial(self, seed: int) -> Trial:
        """Return the arm's trial with this seed; its id equals `trial_id(trial.effective)`."""
        text = f"{self._before_seed}{seed:d}{self._after_seed}"
        return Trial(id=_digest(text), effective={**self.shared, "seed": seed})


def arm(dataset: DatasetConfig, embeddings: Subset, factors: Mapping[str, Value]) -> Arm:
    """Return the arm that these declared values come to.

    Args:
        dataset: the data set and its preparation.
        embeddings: the subset in canonical order.
        factors: a value for every name in `study.space.FACTORS`; heads as declared.
    """
    unread_names = unread(embeddings, factors)
    sections: dict[str, dict[str, Any]] = {
        "dataset": _spelt_one_way(dataset.model_dump(mode="json", exclude_none=True)),
        "model": {"name": MeantimeConfig().name, "embeddings": list(embeddings)},
        "training": {},
        "evaluation": {},
    }
    for section in ("model", "training", "evaluation"):
        read = {
            name: factors[name]
            for name, factor in FACTORS.items()
            if factor.section == section and name not in unread_names
        }
        sections[section] |= _spelt_one_way(read)
    sections["model"]["heads"] = resolve_heads(sections["model"]["heads"], embeddings)
    shared: Effective = {**sections, "numerics": NUMERICS, "scheme": SCHEME}
    members = [f'"{name}":{_canonical_json(shared[name])}' for name in sorted(shared)]
    split = sum(name < "seed" for name in shared)
    before, after = ",".join(members[:split]), ",".join(members[split:])
    return Arm(shared, f'{{{before},"seed":', f",{after}}}")


def _spelt_one_way(values: Mapping[str, Any]) -> dict[str, Any]:
    """Turn -0.0 into 0.0, which is equal but would be written differently."""
    return {
        name: value + 0.0 if isinstance(value, float) else value for name, value in values.items()
    }


def effective(config: TrialConfig) -> Effective:
    """Return a configuration without the options that it does not read."""
    factors = {
        name: getattr(getattr(config, factor.section), name) for name, factor in FACTORS.items()
    }
    return arm(config.dataset, config.model.embeddings, factors).trial(config.seed).effective


def trial_id(effective: Effective) -> str:
    """Return the id of an effective configuration: the start of the SHA-256 of its JSON."""
    return _digest(_canonical_json(effective))


_canonical_json = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
).encode


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
