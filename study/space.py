"""The factors a study can sweep, derived from `model.config`, and the subsets of embeddings.

A factor is a field of a trial's model, training or evaluation section; names are unique over the
sections, so that YAML, tables and `--set` name a factor without its section. Pure and torch-free.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator

from model.config import (
    EMBEDDINGS,
    Embedding,
    EvaluationConfig,
    MeantimeConfig,
    TrainingConfig,
)
from study.mistakes import broken

Value = int | float | str
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
        default: its value where neither the study nor the file says anything.
        annotation: the type that pydantic checks a declared value against.
    """

    name: str
    section: Section
    default: Value
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


def resolve_heads(heads: Heads, embeddings: Subset) -> int:
    """Return the number of heads; 0 for `per-embedding` of the empty subset, which is infeasible.

    >>> resolve_heads("per-embedding", ("day", "pos"))
    2
    >>> resolve_heads(6, ("day", "pos"))
    6
    """
    return len(embeddings) if heads == PER_EMBEDDING else int(heads)


def _whole_or_per_embedding(value: object) -> object:
    if value == PER_EMBEDDING:
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise broken(
            "must be a whole number of at least 1, or per-embedding",
            "write for example [6, per-embedding]",
        )
    return value


def _factors() -> Iterator[Factor]:
    sections: tuple[tuple[Section, type[BaseModel]], ...] = (
        ("model", MeantimeConfig),
        ("training", TrainingConfig),
        ("evaluation", EvaluationConfig),
    )
    for section, config in sections:
        for name, info in config.model_fields.items():
            if name in {"name", "embeddings"}:  # a study declares these with keys of their own
                continue
            # Annotated[...] only takes a literal list of metadata in a type checker's eyes.
            annotation: Any = info.annotation
            for constraint in info.metadata:
                annotation = Annotated[annotation, constraint]
            if name == "heads":
                annotation = Annotated[Heads, BeforeValidator(_whole_or_per_embedding)]
            yield Factor(name=name, section=section, default=info.default, annotation=annotation)


def _by_name(factors: Iterable[Factor]) -> dict[str, Factor]:
    named: dict[str, Factor] = {}
    for factor in factors:
        if factor.name in named:
            message = f"two sections of model.config have a field named {factor.name}"
            raise TypeError(message)
        named[factor.name] = factor
    return named


FACTORS: dict[str, Factor] = _by_name(_factors())
"""Every factor by name, in the order of `model.config`: the order of a plan's columns and cells."""
