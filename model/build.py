"""From a configuration to its model and its training batches: the place that knows all models."""

from collections.abc import Iterable

import numpy as np

from model.bert4rec import Bert4rec
from model.bptf import Bptf
from model.config import (
    Bert4recConfig,
    BptfConfig,
    CtaConfig,
    ItemKnnConfig,
    MarankConfig,
    MeantimeConfig,
    ModelConfig,
    PopularityConfig,
    SasrecConfig,
    TimeLstmConfig,
    TimesvdConfig,
    TisasrecConfig,
    TrainingConfig,
    TransformerConfig,
)
from model.cta import Cta
from model.data.batches import TrainingBatch, TrainingBatches
from model.data.next_items import (
    NextItemBatches,
    every_next_item,
    next_item_windows,
    whole_prefixes,
)
from model.data.prepare import PreparedData
from model.evaluate import Recommender
from model.item_knn import ItemKnn
from model.marank import Marank
from model.meantime import Meantime
from model.popularity import Popularity
from model.randomness import numpy_generator
from model.sasrec import Sasrec
from model.time_lstm import TimeLstm
from model.timesvd import TimeSvd
from model.tisasrec import Tisasrec
from model.transformer import Transformer


def build(  # noqa: PLR0911  one return a model
    config: ModelConfig, data: PreparedData, *, seed: int
) -> Recommender:
    """Return the model with the weights that `seed` gives it; a counting model is done."""
    n_items = data.n_items
    match config:
        case MeantimeConfig():
            return Meantime(config, n_items=n_items, n_days=data.n_days, seed=seed)
        case Bert4recConfig():
            return Bert4rec(config, n_items=n_items, seed=seed)
        case TisasrecConfig():
            return Tisasrec(config, n_items=n_items, seed=seed)
        case SasrecConfig():
            return Sasrec(config, n_items=n_items, seed=seed)
        case MarankConfig():
            return Marank(config, n_items=n_items, n_users=data.n_users, seed=seed)
        case CtaConfig():
            return Cta(config, n_items=n_items, seed=seed)
        case TimeLstmConfig():
            return TimeLstm(config, n_items=n_items, seed=seed)
        case TransformerConfig():
            return Transformer(config, n_items=n_items, seed=seed)
        case TimesvdConfig():
            return TimeSvd(config, data, seed=seed)
        case BptfConfig():
            return Bptf(config, data, seed=seed)
        case ItemKnnConfig():
            return ItemKnn(config, data)
        case PopularityConfig():
            return Popularity(data)


def training_batches(
    config: ModelConfig,
    data: PreparedData,
    *,
    training: TrainingConfig,
    seed: int,
    order_rng: np.random.Generator,
    draw_rng: np.random.Generator,
) -> Iterable[TrainingBatch]:
    """Return what the model is trained on; each iteration is one epoch.

    Args:
        config: a model that is trained.
        data: the data set.
        training: batch size and, where windows are cut, their stride.
        seed: makes what stays the same over epochs: the pools of negatives.
        order_rng: shuffles.
        draw_rng: draws what is new in every epoch: masks or negatives.
    """
    asked: int | None = None
    match config:
        case MeantimeConfig() | Bert4recConfig():
            return TrainingBatches(
                data, training, max_len=config.max_len, order_rng=order_rng, mask_rng=draw_rng
            )
        case SasrecConfig() | TisasrecConfig() | CtaConfig() | TimeLstmConfig():
            stretches = next_item_windows(
                data, max_len=config.max_len, stride=training.train_window
            )
            negatives = config.negatives if config.loss == "binary" else 0
        case MarankConfig():
            stretches, negatives = every_next_item(data, history=config.history), 1
            asked = 1
        case TransformerConfig():
            asked, negatives = config.asked, 0
            stretches = next_item_windows(data, max_len=config.max_len, stride=asked)
        case TimesvdConfig():
            stretches, negatives = whole_prefixes(data), config.negatives
        case BptfConfig():
            return ()  # it reads the data itself
        case _:
            raise TypeError(f"{config.name} is not trained")
    return NextItemBatches(
        data,
        stretches,
        batch=training.batch,
        negatives=negatives,
        asked=asked,
        order_rng=order_rng,
        draw_rng=draw_rng,
        pool_rng=numpy_generator(seed, "negative pools"),
    )
