"""How large a model becomes, from its configuration alone: no torch, for planning.

Parameters are counted exactly. Memory is an estimate of what training adds to a process, from the
tensors that live at the same time; the process and its libraries are not in it.
"""

from dataclasses import dataclass

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
from model.limits import LIMITS

_FLOAT, _INT = 4, 8
_STATES = 6  # weights, gradients, two moments of Adam, the best weights and their copy
_POOL = 1_000
_SWEPT = 512 * 6  # rows drawn at once, and how often their precision is in memory


@dataclass(frozen=True, slots=True)
class DataSize:
    """What of a data set decides a model's size."""

    n_users: int
    n_items: int
    n_days: int
    n_events: int


def n_parameters(  # noqa: PLR0911  one return a model
    config: ModelConfig, data: DataSize
) -> int:
    """Return the trainable numbers of a model on such data."""
    match config:
        case MeantimeConfig():
            return _meantime(config, data)
        case Bert4recConfig():
            h = config.hidden
            block = 4 * _linear(h, h) + _linear(h, 4 * h) + _linear(4 * h, h) + 2 * _norm(h)
            head = _linear(h, h) + _norm(h) + data.n_items + 1
            tables = (data.n_items + 2 + config.max_len) * h
            return tables + _norm(h) + config.layers * block + head
        case SasrecConfig() | TisasrecConfig():
            h = config.hidden
            block = 5 * _linear(h, h) + 2 * _norm(h)
            rows = data.n_items + 2 + config.max_len
            if isinstance(config, TisasrecConfig):
                rows += config.max_len + 2 * (config.max_interval + 1)
            return rows * h + config.layers * block + _norm(h)
        case MarankConfig():
            h, levels = config.hidden, config.layers
            attention = 2 * _linear(h, h) + _linear(h, 1)
            tables = (data.n_users + 1 + 2 * (data.n_items + 1)) * h
            merge = _linear(h, h) + _linear(h, 1)
            return tables + levels * 3 * _linear(h, h) + (1 + levels) * attention + merge
        case CtaConfig():
            h = config.hidden
            block = 5 * _linear(h, h) + 2 * _norm(h)
            context = _linear(h, 3 * h) + 3 * h * h + _linear(h, 4)
            tables = (data.n_items + 2 + config.max_len) * h
            return tables + config.layers * block + context + 4 * _linear(h, h) + 7 + _norm(h)
        case TimeLstmConfig():
            h, gates = config.hidden, 4 if config.variant < 3 else 3
            timed = 1 if config.variant == 1 else 2
            cell = _linear(h, gates * h) + gates * h * h + (gates - 1) * h
            clock = _linear(h, timed * h) + timed * h + h
            return (data.n_items + 2) * h + cell + clock
        case TransformerConfig():
            h = config.hidden
            attention, inner = 4 * _linear(h, h), _linear(h, 4 * h) + _linear(4 * h, h)
            layers = 3 * attention + 2 * inner + 5 * _norm(h)
            tables = (data.n_items + 2) * h + data.n_items + 1
            return tables + config.layers * layers + 2 * _norm(h)
        case TimesvdConfig():
            rows, h, bins = data.n_items + 1, config.hidden, config.bins
            return 1 + data.n_users * (2 * h + 2 + bins) + rows * (2 * h + 1 + bins)
        case BptfConfig():
            return (data.n_users + data.n_items + 1 + config.bins) * config.hidden
        case ItemKnnConfig() | PopularityConfig():
            return 0


def training_bytes(  # noqa: PLR0911, PLR0912  one case a model
    config: ModelConfig, training: TrainingConfig, *, data: DataSize, device: str = "cpu"
) -> int:
    """Return about how much memory training and evaluating adds on a kind of device, in bytes."""
    limits = LIMITS[device]
    logits = min(limits.logits, data.n_users * (data.n_items + 1))  # of users ranked at once
    found = _STATES * _FLOAT * n_parameters(config, data) + logits * (_FLOAT + 1)
    match config:
        case PopularityConfig():
            return found
        case ItemKnnConfig():
            pairs = data.n_items * min(config.neighbours, data.n_items)
            return found + pairs * (_INT + _FLOAT) + logits * _INT
        case MarankConfig():
            rows = training.batch * config.history
            levels = 6 * (1 + config.layers)
            return found + rows * config.hidden * levels * _FLOAT + data.n_events * 3 * _INT
        case TimesvdConfig():
            # A part has one long user, or short ones of about as many squared events together.
            positions = max(data.n_events // data.n_users, int(limits.scores**0.5))
            rows = positions * config.hidden * (10 + 2 * config.negatives)
            found += data.n_users * min(_POOL, data.n_items) * _FLOAT
            return found + rows * _FLOAT + data.n_events * 4 * _INT
        case BptfConfig():
            kept = 3 * config.samples * _FLOAT * n_parameters(config, data)
            doubles = 2 * _FLOAT * (_SWEPT * config.hidden**2 + data.n_events * 2 * config.hidden)
            return found + kept + doubles + data.n_events * 6 * _INT
        case TimeLstmConfig():
            steps = training.batch * config.max_len
            found += data.n_users * min(_POOL, data.n_items) * _FLOAT
            return found + steps * config.hidden * 24 * _FLOAT + _STATES * data.n_events * _FLOAT
    length = config.max_len
    sequences = max(1, min(training.batch, limits.scores // length**2))
    positions = sequences * length
    scores = positions * length
    heads, hidden = config.heads, config.hidden
    match config:
        case MeantimeConfig():
            of_block = heads * scores * 4 + positions * hidden * 24
        case Bert4recConfig():
            of_block = heads * scores * 2 + positions * hidden * 22
        case SasrecConfig():
            of_block = heads * scores * 2 + positions * hidden * 14
        case TransformerConfig():
            of_block = heads * scores + positions * hidden * 26
        case CtaConfig():
            of_block = heads * scores * 2 + positions * hidden * 14
            found += _FLOAT * (16 * scores + 14 * positions * hidden)
        case TisasrecConfig():
            of_block = heads * scores * 4 + positions * hidden * 14
            found += _INT * 3 * scores + _FLOAT * 3 * positions * (config.max_interval + 1)
    if isinstance(config, SasrecConfig | TisasrecConfig | CtaConfig):
        found += data.n_users * min(_POOL, data.n_items) * _FLOAT
    return found + config.layers * of_block * _FLOAT + _STATES * data.n_events * _FLOAT


def _meantime(config: MeantimeConfig, data: DataSize) -> int:
    h, width = config.hidden, config.hidden // config.heads
    channels = config.heads * width
    rows = {"day": data.n_days, "pos": config.max_len, "con": 1}
    absolute = [name for name in config.embeddings if name in rows]
    n_relative = len(config.embeddings) - len(absolute)
    attention = 2 * _linear(h, channels) + h * channels + _linear(channels, h)
    attention += len(absolute) * (_linear(h, width) + h * width) + n_relative * (h + 1) * width
    block = attention + _linear(h, 4 * h) + _linear(4 * h, h) + 2 * _norm(h)
    tables = (data.n_items + 2 + sum(rows[name] for name in absolute)) * h
    head = _linear(h, h) + _norm(h) + data.n_items + 1
    return tables + config.layers * block + head


def _linear(n_in: int, n_out: int) -> int:
    return (n_in + 1) * n_out


def _norm(hidden: int) -> int:
    return 2 * hidden
