"""The factors a study can sweep, derived from `model.config`, and the subsets of embeddings.

A factor is a field of a trial's model, training or evaluation section; a name means one thing in
all sections and models, so that YAML, tables and `--set` name a factor alone. Pure and torch-free.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from model.config import (
    EMBEDDINGS,
    MODELS,
    TIMED_MODELS,
    Embedding,
    EvaluationConfig,
    TrainingConfig,
)
from study.mistakes import broken

Value = int | float | str
Point = Mapping[str, Value]
"""A value for each factor that a model reads."""
Subset = tuple[Embedding, ...]
Section = Literal["model", "training", "evaluation"]

PER_EMBEDDING: Literal["per-embedding"] = "per-embedding"
"""The authors' rule for `heads`: as many heads as the subset has embeddings."""

Heads = int | Literal["per-embedding"]


@dataclass(frozen=True, slots=True)
class Factor:
    """One option of a trial that a study can set or sweep.

    Attributes:
        name: its name everywhere, e.g. `weight_decay`.
        section: the part of `model.config.TrialConfig` that holds it.
        defaults: by each model that reads it, its value where neither study nor file says anything.
        annotation: the type that pydantic checks a declared value against.
    """

    name: str
    section: Section
    defaults: Mapping[str, Value] = field(hash=False)
    annotation: Any = field(repr=False, compare=False)


def label(embeddings: Iterable[str]) -> str:
    """Name a subset in canonical order.

    >>> label(("log", "day", "pos"))
    'Day+Pos+Log'
    >>> label(())
    'none'
    """
    return "+".join(name.capitalize() for name in canonical(embeddings)) or "none"


def canonical(embeddings: Iterable[str]) -> Subset:
    """Return the embeddings without repeats in the order of ids, labels and tables.

    >>> canonical(["log", "day"])
    ('day', 'log')
    """
    wanted = set(embeddings)
    return tuple(name for name in EMBEDDINGS if name in wanted)


def all_subsets() -> tuple[Subset, ...]:
    """Return the 63 subsets with at least one embedding: small before large, canonical within."""
    sizes = range(1, len(EMBEDDINGS) + 1)
    return tuple(subset for size in sizes for subset in combinations(EMBEDDINGS, size))


def as_heads(value: Value) -> Heads:
    """Narrow a factor's value to what `heads` may be."""
    return PER_EMBEDDING if value == PER_EMBEDDING else int(value)


def resolve_heads(heads: Heads, embeddings: Subset | None) -> int:
    """Return the number of heads; 0 for `per-embedding` without embeddings, which is infeasible.

    >>> resolve_heads("per-embedding", ("day", "pos"))
    2
    >>> resolve_heads(6, ("day", "pos"))
    6
    """
    return len(embeddings or ()) if heads == PER_EMBEDDING else int(heads)


def _whole_or_per_embedding(value: object) -> object:
    if value == PER_EMBEDDING:
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise broken(
            "must be a whole number of at least 1, or per-embedding",
            "write for example [6, per-embedding]",
        )
    return value


def _annotation(name: str, info: FieldInfo) -> Any:  # noqa: ANN401
    if name == "heads":
        return Annotated[Heads, BeforeValidator(_whole_or_per_embedding)]
    # Annotated[...] only takes a literal list of metadata in a type checker's eyes.
    annotation: Any = info.annotation
    for constraint in info.metadata:
        annotation = Annotated[annotation, constraint]
    return annotation


def _factors() -> dict[str, Factor]:
    found: dict[str, Factor] = {}

    def declare(name: str, section: Section, info: FieldInfo, models: Iterable[str]) -> None:
        annotation = _annotation(name, info)
        known = found.get(name)
        if known and (known.section, str(known.annotation)) != (section, str(annotation)):
            message = f"model.config has two fields named {name} that mean different things"
            raise TypeError(message)
        defaults = {**(known.defaults if known else {}), **dict.fromkeys(models, info.default)}
        found[name] = Factor(name, section, defaults, annotation)

    for model, config in MODELS.items():
        for name, info in config.model_fields.items():
            if name not in {"name", "embeddings"}:  # a study declares these with keys of their own
                declare(name, "model", info, [model])
    for name, info in TrainingConfig.model_fields.items():
        readers = [m for m, config in MODELS.items() if name in config.training_factors]
        declare(name, "training", info, readers)
    for name, info in EvaluationConfig.model_fields.items():
        declare(name, "evaluation", info, TIMED_MODELS if name == "target_time" else MODELS)
    return found


FACTORS: dict[str, Factor] = _factors()
"""Every factor by name, in the order of `model.config`: the order of a plan's columns and cells."""

READ: dict[str, tuple[str, ...]] = {
    model: tuple(name for name, factor in FACTORS.items() if model in factor.defaults)
    for model in MODELS
}
"""By model, the factors that some configuration of it reads."""
