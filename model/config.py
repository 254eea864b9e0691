"""What one trial is made of: frozen, validated values; no torch here, so that planning is fast.

Field names are unique over the sections: a study's factors and `meantime train --set` name a field
without its section. `study.trial` removes what a model does not read before it hashes.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Embedding = Literal["day", "pos", "con", "sin", "exp", "log"]
EMBEDDINGS: tuple[Embedding, ...] = ("day", "pos", "con", "sin", "exp", "log")
"""The six temporal embeddings in the order used in ids, labels and tables."""

ABSOLUTE_EMBEDDINGS: tuple[Embedding, ...] = ("day", "pos", "con")
RELATIVE_EMBEDDINGS: tuple[Embedding, ...] = ("sin", "exp", "log")
TIMED_EMBEDDINGS: tuple[Embedding, ...] = ("day", "sin", "exp", "log")
"""Embeddings that see the target's time; Pos and Con do not."""

Rate = Annotated[float, Field(ge=0, lt=1)]

MOST = 2**31 - 1
"""The largest count that a database column and a tensor's size hold alike."""
Precision = Literal["float32", "bfloat16"]


def infeasible(embeddings: tuple[str, ...], *, hidden: int, heads: int) -> str | None:
    """Return why this network cannot be built, with legal values as advice, or None if it can.

    `heads` is the resolved number of heads; 0 stands for `per-embedding` of the empty subset.
    """
    if tuple(name for name in EMBEDDINGS if name in embeddings) != tuple(embeddings):
        known = ", ".join(EMBEDDINGS)
        return (
            f"embeddings must be distinct and in the order {known}, got {', '.join(embeddings)}; "
            "reorder them"
        )
    if heads == 0:
        return (
            "heads: per-embedding needs at least one embedding, got none; "
            "give an integer number of heads"
        )
    if len(embeddings) > heads:
        return (
            f"each embedding owns one head: {len(embeddings)} embeddings need at least "
            f"{len(embeddings)} heads, got heads={heads}; "
            f"use heads >= {len(embeddings)} or per-embedding"
        )
    if hidden < heads:
        return (
            f"hidden must be at least the number of heads, got hidden={hidden} and heads={heads}; "
            f"raise hidden to {heads} or more, or lower heads"
        )
    if "sin" in embeddings and hidden % 2:
        return (
            f"sin pairs sines with cosines and needs an even hidden size, got hidden={hidden}; "
            f"use {hidden + 1}"
        )
    return None


class Section(BaseModel):
    """A frozen group of fields; unknown keys and values of another type are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SyntheticConfig(Section):
    """A seeded data set whose useful embedding is known (see `model.data.synthetic`)."""

    recipe: Literal["order"]
    users: int = Field(default=400, ge=1, le=MOST)
    items: int = Field(default=60, ge=8, le=MOST)
    events: int = Field(default=16, ge=5, le=MOST)
    seed: int = Field(default=0, ge=0)


class DatasetConfig(Section):
    """A data set's name and how its interactions are prepared (MODEL, "Data preparation").

    `core` filters items, then users, with fewer than `min_interactions`, once or until stable.
    """

    name: str
    core: Literal["once", "iterate"] = "once"
    min_interactions: int = Field(default=5, ge=3, le=MOST)
    min_rating: float | None = None
    synthetic: SyntheticConfig | None = None


class MeantimeConfig(Section):
    """The network: `heads` is the resolved number n, each head `hidden // heads` wide.

    Each embedding owns one head in canonical order; the other heads attend by content alone.
    `tau` is the time unit in seconds, `frequency_base` the f of the relative embeddings.
    """

    name: Literal["meantime"] = "meantime"
    embeddings: tuple[Embedding, ...] = ("day", "pos", "sin", "log")
    hidden: int = Field(default=64, ge=1, le=MOST)
    heads: int = Field(default=4, ge=1, le=MOST)
    layers: int = Field(default=2, ge=1, le=MOST)
    max_len: int = Field(default=50, ge=2, le=MOST)
    dropout: Rate = 0.2
    relative_dropout: Literal["entrywise", "feature"] = "entrywise"
    tau: float = Field(default=1.0, gt=0)
    frequency_base: float = Field(default=10000.0, gt=1)

    @model_validator(mode="after")
    def _legal(self) -> Self:
        reason = infeasible(self.embeddings, hidden=self.hidden, heads=self.heads)
        if reason is not None:
            raise ValueError(reason)
        return self


class TrainingConfig(Section):
    """How the network is fitted; `patience` counts evaluations without a better NDCG@10.

    `precision: bfloat16` multiplies matrices in bfloat16 while weights, optimizer and evaluation
    stay in float32.
    """

    train_window: int = Field(default=100, ge=1, le=MOST)
    mask_probability: Annotated[float, Field(gt=0, le=1)] = 0.2
    batch: int = Field(default=256, ge=1, le=MOST)
    lr: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    epochs: int = Field(default=200, ge=1, le=MOST)
    patience: int = Field(default=20, ge=1, le=MOST)
    precision: Precision = "float32"


class EvaluationConfig(Section):
    """What the target's position may know, and whether `full` keeps items seen before."""

    target_time: Literal["actual", "last"] = "actual"
    repeats: Literal["excluded", "allowed"] = "excluded"


class TrialConfig(Section):
    """Everything that decides the numbers of one trial, its seed included."""

    dataset: DatasetConfig
    model: MeantimeConfig = MeantimeConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    seed: int = Field(default=0, ge=0)
