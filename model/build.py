"""From a model's configuration to its network: the one place that knows which models exist."""

from model.config import MeantimeConfig
from model.meantime import Meantime


def build(config: MeantimeConfig, *, n_items: int, n_days: int, seed: int) -> Meantime:
    """Return the network with the weights that `seed` gives it."""
    match config.name:
        case "meantime":
            return Meantime(config, n_items=n_items, n_days=n_days, seed=seed)
