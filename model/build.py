"""From a model's configuration to its network: the one place that knows which models exist."""

from model.config import MeantimeConfig, ModelConfig
from model.errors import RequestError
from model.meantime import Meantime


def build(config: ModelConfig, *, n_items: int, n_days: int, seed: int) -> Meantime:
    """Return the network with the weights that `seed` gives it."""
    match config:
        case MeantimeConfig():
            return Meantime(config, n_items=n_items, n_days=n_days, seed=seed)
        case _:
            raise RequestError(f"a model must be meantime in this version, got {config.name}")
