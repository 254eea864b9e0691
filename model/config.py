"""What one trial is made of: frozen, validated values; no torch here, so that planning is fast.

Field names are unique over the sections: a study's factors and `meantime train --set` name a field
without its section. `study.trial` removes what a model does not read before it hashes.
"""

from typing import Annotated, ClassVar, Literal, Self, get_args

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


def uneven(*, hidden: int, heads: int) -> str | None:
    """Return why `hidden` channels cannot be shared evenly by `heads`, with advice, or None.

    `heads` is 0 where `per-embedding` was declared for a model that has no embeddings.
    """
    if heads == 0:
        return (
            "heads: per-embedding counts temporal embeddings, which only meantime has; "
            "give an integer number of heads"
        )
    if hidden % heads:
        legal = ", ".join(str(n) for n in range(1, hidden + 1) if hidden % n == 0)
        return (
            f"hidden must be a multiple of the number of heads, got hidden={hidden} and "
            f"heads={heads}; use heads of {legal}"
        )
    return None


class Section(BaseModel):
    """A frozen group of fields; unknown keys and values of another type are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


Recipe = Literal[
    "planted-day", "planted-period", "planted-recency", "planted-order", "planted-none"
]


class SyntheticConfig(Section):
    """A seeded data set whose useful embedding is known (see `model.data.synthetic`)."""

    recipe: Recipe
    users: int = Field(default=600, ge=1, le=MOST)
    items: int = Field(default=40, ge=4, le=MOST)
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


_FITTED = frozenset({"batch", "lr", "weight_decay", "epochs", "patience", "precision"})
_WINDOWS = _FITTED | {"train_window"}
_CLOZE = _WINDOWS | {"mask_probability"}


class MeantimeConfig(Section):
    """The network: `heads` is the resolved number n, each head `hidden // heads` wide.

    Each embedding owns one head in canonical order; the other heads attend by content alone.
    `tau` is the time unit in seconds, `frequency_base` the f of the relative embeddings.
    """

    training_factors: ClassVar[frozenset[str]] = _CLOZE
    """Fields of `TrainingConfig` that the model reads."""

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

    @property
    def span(self) -> int:
        """Columns of an evaluation batch, the target's place included: here `[MASK]`."""
        return self.max_len

    @model_validator(mode="after")
    def _legal(self) -> Self:
        reason = infeasible(self.embeddings, hidden=self.hidden, heads=self.heads)
        if reason is not None:
            raise ValueError(reason)
        return self


class _EvenHeads(Section):
    hidden: int = Field(default=64, ge=1, le=MOST)
    heads: int = Field(default=2, ge=1, le=MOST)
    layers: int = Field(default=2, ge=1, le=MOST)
    max_len: int = Field(default=50, ge=2, le=MOST)
    dropout: Rate = 0.2

    @model_validator(mode="after")
    def _legal(self) -> Self:
        reason = uneven(hidden=self.hidden, heads=self.heads)
        if reason is not None:
            raise ValueError(reason)
        return self


class Bert4recConfig(_EvenHeads):
    """BERT4Rec, see `model.bert4rec`."""

    training_factors: ClassVar[frozenset[str]] = _CLOZE

    name: Literal["bert4rec"] = "bert4rec"

    @property
    def span(self) -> int:
        """Columns of an evaluation batch, the target's place included: here `[MASK]`."""
        return self.max_len


class SasrecConfig(_EvenHeads):
    """SASRec, see `model.sasrec`.

    `loss: binary` tells the next item from `negatives` others at each position; `softmax` from all
    items at once.
    """

    training_factors: ClassVar[frozenset[str]] = _WINDOWS

    name: Literal["sasrec"] = "sasrec"
    loss: Literal["binary", "softmax"] = "binary"
    negatives: int = Field(default=1, ge=1, le=1000)

    @property
    def span(self) -> int:
        """Columns of an evaluation batch, the target's place included."""
        return self.max_len + 1


class TisasrecConfig(_EvenHeads):
    """TiSASRec, see `model.tisasrec`; `max_interval` is the longest interval that it tells apart.

    Intervals are counted in the user's smallest gap; `loss` and `negatives` are SASRec's.
    """

    training_factors: ClassVar[frozenset[str]] = _WINDOWS

    name: Literal["tisasrec"] = "tisasrec"
    loss: Literal["binary", "softmax"] = "binary"
    negatives: int = Field(default=1, ge=1, le=1000)
    max_interval: int = Field(default=2048, ge=1, le=MOST)

    @property
    def span(self) -> int:
        """Columns of an evaluation batch, the target's place included."""
        return self.max_len + 1


class MarankConfig(Section):
    """MARank, see `model.marank`; `history` is how many of the newest items it reads."""

    training_factors: ClassVar[frozenset[str]] = _FITTED

    name: Literal["marank"] = "marank"
    hidden: int = Field(default=64, ge=1, le=MOST)
    layers: int = Field(default=2, ge=1, le=MOST)
    dropout: Rate = 0.2
    history: int = Field(default=6, ge=1, le=MOST)

    @property
    def span(self) -> int:
        """Columns of an evaluation batch, the target's place included."""
        return self.history + 1


class CtaConfig(_EvenHeads):
    """CTA, see `model.cta`; `loss` and `negatives` are SASRec's."""

    training_factors: ClassVar[frozenset[str]] = _WINDOWS

    name: Literal["cta"] = "cta"
    loss: Literal["binary", "softmax"] = "binary"
    negatives: int = Field(default=1, ge=1, le=1000)

    @property
    def span(self) -> int:
        """Columns of an evaluation batch, the target's place included."""
        return self.max_len + 1


class TimeLstmConfig(Section):
    """Time-LSTM, see `model.time_lstm`, in one of its three variants; `loss` is SASRec's."""

    training_factors: ClassVar[frozenset[str]] = _WINDOWS

    name: Literal["time_lstm"] = "time_lstm"
    hidden: int = Field(default=64, ge=1, le=MOST)
    max_len: int = Field(default=50, ge=2, le=MOST)
    dropout: Rate = 0.2
    variant: int = Field(default=3, ge=1, le=3)
    loss: Literal["binary", "softmax"] = "binary"
    negatives: int = Field(default=1, ge=1, le=1000)

    @property
    def span(self) -> int:
        """Columns of an evaluation batch, the target's place included."""
        return self.max_len + 1


class TransformerConfig(_EvenHeads):
    """The encoder-decoder Transformer, see `model.transformer`."""

    training_factors: ClassVar[frozenset[str]] = _FITTED

    name: Literal["transformer"] = "transformer"

    @property
    def asked(self) -> int:
        """How many of the newest events the decoder reads, and predicts what follows them."""
        return (self.max_len + 1) // 2

    @property
    def span(self) -> int:
        """Columns of an evaluation batch, the target's place included."""
        return self.max_len + 1


class TimesvdConfig(Section):
    """TimeSVD++ for implicit feedback, see `model.timesvd`.

    Biases of users and items have `bins` equal stretches of time; each event is told from
    `negatives` items. `batch` counts users.
    """

    training_factors: ClassVar[frozenset[str]] = _FITTED

    name: Literal["timesvd"] = "timesvd"
    hidden: int = Field(default=64, ge=1, le=MOST)
    bins: int = Field(default=30, ge=1, le=MOST)
    negatives: int = Field(default=1, ge=1, le=1000)

    @property
    def span(self) -> int:
        """Columns of an evaluation batch, the target's place included: all that a user has."""
        return MOST


class BptfConfig(Section):
    """BPTF for implicit feedback, see `model.bptf`.

    A cell of the tensor of users, items and `bins` equal stretches of time is an event, or counts
    `zero_weight` of one as its absence. The newest `samples` sweeps are averaged; an epoch is one.
    """

    training_factors: ClassVar[frozenset[str]] = frozenset({"epochs", "patience"})

    name: Literal["bptf"] = "bptf"
    hidden: int = Field(default=64, ge=1, le=MOST)
    bins: int = Field(default=30, ge=1, le=MOST)
    zero_weight: float = Field(default=0.2, gt=0, le=1)
    samples: int = Field(default=20, ge=1, le=MOST)

    @property
    def span(self) -> int:
        """Columns of an evaluation batch: the target's place and, unread, the event before it."""
        return 2


class ItemKnnConfig(Section):
    """Item-based nearest neighbours, see `model.item_knn`.

    `neighbours` of each item count; `decay` is the rate per day at which an event's weight falls,
    0 for none.
    """

    training_factors: ClassVar[frozenset[str]] = frozenset()

    name: Literal["item_knn"] = "item_knn"
    max_len: int = Field(default=50, ge=2, le=MOST)
    neighbours: int = Field(default=100, ge=1, le=MOST)
    decay: float = Field(default=0.0, ge=0)

    @property
    def span(self) -> int:
        """Columns of an evaluation batch, the target's place included."""
        return self.max_len + 1


class PopularityConfig(Section):
    """Popularity: every user gets the most popular items, see `model.popularity`."""

    training_factors: ClassVar[frozenset[str]] = frozenset()

    name: Literal["popularity"] = "popularity"

    @property
    def span(self) -> int:
        """Columns of an evaluation batch, the target's place included."""
        return 2


ModelConfig = (
    MeantimeConfig
    | Bert4recConfig
    | TisasrecConfig
    | SasrecConfig
    | MarankConfig
    | CtaConfig
    | TimeLstmConfig
    | TransformerConfig
    | TimesvdConfig
    | BptfConfig
    | ItemKnnConfig
    | PopularityConfig
)
"""One of the models, told apart by `name`."""

MODELS: dict[str, type[ModelConfig]] = {
    config.model_fields["name"].default: config for config in get_args(ModelConfig)
}
"""Every model's configuration by name: the order of lists, plans and tables."""

TIMED_MODELS = ("meantime", "cta", "time_lstm", "timesvd", "bptf")
"""Models that can see the target's time; the others only look back."""


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
    """What the target's position may know, and which candidates it is ranked among.

    Every epoch is validated under `protocol` and the best one is chosen by it; results are read
    under it and under `full`. `repeats: allowed` lets `full` keep items that the user had before.
    """

    target_time: Literal["actual", "last"] = "actual"
    protocol: Literal["popular-100", "uniform-100", "full"] = "popular-100"
    repeats: Literal["excluded", "allowed"] = "excluded"


class TrialConfig(Section):
    """Everything that decides the numbers of one trial, its seed included."""

    dataset: DatasetConfig
    model: ModelConfig = Field(default=MeantimeConfig(), discriminator="name")
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    seed: int = Field(default=0, ge=0)
