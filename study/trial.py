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
    MODELS,
    RELATIVE_EMBEDDINGS,
    TIMED_EMBEDDINGS,
    DatasetConfig,
    EvaluationConfig,
    SyntheticConfig,
    TrainingConfig,
    TrialConfig,
)
from study.space import FACTORS, READ, Point, Subset, Value, canonical, label, resolve_heads

SCHEME = 1
"""Version of the way ids are made; raised when the canonical text below changes its form."""

NUMERICS = 3
"""Raised by every commit that moves results, so that old results are never taken for new ones."""

UNSAID = {"protocol": "popular-100"}
"""Factors younger than stored results, with the value that those had: it is left out of ids."""

Effective = dict[str, Any]
"""`{dataset, evaluation, model, numerics, scheme, seed, training}`: plain and JSON-ready."""


def unread(model: str, embeddings: Subset | None, *, factors: Point) -> frozenset[str]:
    """Return the factors that nothing reads when this model is trained so.

    Args:
        model: the model's name.
        embeddings: the subset; None for a model without.
        factors: a value for every factor that the model may read.

    >>> few = {"dropout": 0.2, "epochs": 200, "patience": 20, "loss": "softmax"}
    >>> sorted(unread("meantime", ("pos", "con"), factors=few) & set(READ["meantime"]))
    ['frequency_base', 'relative_dropout', 'target_time', 'tau']
    >>> few["epochs"] = 20
    >>> sorted(unread("sasrec", None, factors=few) & set(READ["sasrec"]))
    ['negatives', 'patience']
    """
    names = set(FACTORS).difference(READ[model])
    of_meantime = embeddings or ()
    if not any(name in RELATIVE_EMBEDDINGS for name in of_meantime):
        names |= {"tau", "frequency_base", "relative_dropout"}
    if model == "meantime" and not any(name in TIMED_EMBEDDINGS for name in of_meantime):
        names.add("target_time")
    if factors.get("dropout") == 0:
        names.add("relative_dropout")
    if factors.get("loss") == "softmax":
        names.add("negatives")
    # The first epoch is the best so far, so patience can run out after `patience` more at least.
    if "patience" not in names and float(factors["patience"]) >= float(factors["epochs"]):
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
    def embeddings(self) -> Subset | None:
        """The subset in canonical order; None for a model without temporal embeddings."""
        declared = self.effective["model"].get("embeddings")
        return None if declared is None else canonical(declared)

    @property
    def label(self) -> str:
        """The subset's label, e.g. `Day+Pos+Sin+Log`, or `none`; empty for another model."""
        return "" if self.embeddings is None else label(self.embeddings)

    @property
    def title(self) -> str:
        """What is trained, in a word: the subset's label, or the model's name."""
        return self.label or self.model

    @property
    def seed(self) -> int:
        """The replicate."""
        return int(self.effective["seed"])

    @property
    def factors(self) -> dict[str, Value | None]:
        """Every factor's value, heads resolved; None where the trial does not read the factor."""
        return {
            name: self.effective[factor.section].get(name, UNSAID.get(name))
            for name, factor in FACTORS.items()
        }

    def config(self) -> TrialConfig:
        """Return the validated configuration that `model.train` takes; unread options default.

        An unread patience is the number of epochs, since its default might be less.
        """
        model, training = dict(self.effective["model"]), dict(self.effective["training"])
        if self.embeddings is not None:
            model["embeddings"] = self.embeddings
        if "epochs" in training:
            training.setdefault("patience", training["epochs"])
        dataset = dict(self.effective["dataset"])
        if "synthetic" in dataset:
            dataset["synthetic"] = SyntheticConfig(**dataset["synthetic"])
        return TrialConfig(
            dataset=DatasetConfig(**dataset),
            model=MODELS[self.model](**model),
            training=TrainingConfig(**training),
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


def arm(
    dataset: DatasetConfig, model: str, *, embeddings: Subset | None = None, factors: Point
) -> Arm:
    """Return the arm that these declared values come to.

    Args:
        dataset: the data set and its preparation.
        model: the model's name.
        embeddings: the subset in canonical order; None for a model without.
        factors: a value for every factor in `study.space.READ` of the model; heads as declared.
    """
    unread_names = unread(model, embeddings, factors=factors)
    sections: dict[str, dict[str, Any]] = {
        "dataset": _spelt_one_way(dataset.model_dump(mode="json", exclude_none=True)),
        "model": {"name": model},
        "training": {},
        "evaluation": {},
    }
    if embeddings is not None:
        sections["model"]["embeddings"] = list(embeddings)
    for section in ("model", "training", "evaluation"):
        read = {
            name: factors[name]
            for name, factor in FACTORS.items()
            if factor.section == section
            and name not in unread_names
            and factors[name] != UNSAID.get(name)
        }
        sections[section] |= _spelt_one_way(read)
    if "heads" in sections["model"]:
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
    model = config.model.name
    factors = {name: getattr(getattr(config, FACTORS[name].section), name) for name in READ[model]}
    embeddings = getattr(config.model, "embeddings", None)
    made = arm(config.dataset, model, embeddings=embeddings, factors=factors)
    return made.trial(config.seed).effective


def trial_id(effective: Effective) -> str:
    """Return the id of an effective configuration: the start of the SHA-256 of its JSON."""
    return _digest(_canonical_json(effective))


_canonical_json = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
).encode


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
