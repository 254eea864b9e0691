"""What a plan will cost: seconds, memory and disk, by counted work and by what has finished.

Model of time: an epoch takes `a * (multiply-adds) + b * (steps of the optimizer)`, with rates of
one thread of an ordinary server. That is good to a factor of `UNCALIBRATED`. As soon as trials have
finished, their times correct it: by the median ratio of measured to predicted seconds an epoch, and
by the share of the epoch budget that was used, both for each data set and model. The error that is
stated then is the spread of those ratios. Pure: results come as values (`Finished`).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean, median
from typing import TYPE_CHECKING

from model.config import BptfConfig, DatasetConfig, ModelConfig, TimesvdConfig, TrialConfig
from model.sizes import DataSize, n_parameters, training_bytes
from study.contenders import Contender
from study.needs import Need
from study.plan import Plan
from study.ranges import Range
from study.trial import Trial

if TYPE_CHECKING:  # it brings pandas, and a plan has no data
    from model.data.prepare import PreparedData

UNCALIBRATED = 3.0
"""Factor within which an estimate without any finished trial is meant to be right."""

_ADDS_PER_SECOND = 2e10  # of one thread; `ml-100k-quick` took 1.7 s an epoch
_SECONDS_PER_STEP = 0.006
_SECONDS_PER_EPOCH = 0.02
_PROCESS_BYTES = 450 * 2**20  # Python with torch and Ray's worker
_CUDA_BYTES = 500 * 2**20  # a CUDA context
_BYTES_PER_EVENT = 16  # items, times and days
_SAMPLED = 12

PUBLISHED = {
    # Counts after filtering. ml-100k, ml-1m, beauty: prepared here from the public files; the
    # others as published with BERT4Rec (CIKM 2019) and MEANTIME, their days from the files' years.
    "ml-100k": DataSize(n_users=943, n_items=1_349, n_days=215, n_events=99_287),
    "ml-1m": DataSize(n_users=6_040, n_items=3_416, n_days=1_040, n_events=999_611),
    "ml-20m": DataSize(n_users=138_493, n_items=18_345, n_days=7_387, n_events=19_984_024),
    "beauty": DataSize(n_users=22_363, n_items=12_101, n_days=4_425, n_events=198_502),
    "games": DataSize(n_users=29_341, n_items=23_464, n_days=5_000, n_events=280_945),
}

"""Sizes for planning where a data set was never prepared, by name."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A trial that has its result, as far as time is concerned."""

    trial: Trial
    epochs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a plan's trials will cost.

    Attributes:
        trials: trials that it covers, searched points included.
        unknown: names of data sets of whose size nothing is known; their trials are left out.
        seconds: of all trials, one after the other.
        shortest: seconds of the shortest trial.
        longest: seconds of the longest.
        at_once: trials that run at the same time.
        memory: bytes of the largest trial, its process included.
        disk: bytes that the results database grows by.
        checkpoint: bytes of the largest checkpoint; one for each trial under way.
        measured: finished trials that corrected the model of time.
        error: factor within which two of three measured trials lie; `UNCALIBRATED` without any.
    """

    trials: int
    unknown: tuple[str, ...]
    seconds: float
    shortest: float
    longest: float
    at_once: int
    memory: int
    disk: int
    checkpoint: int
    measured: int
    error: float

    @property
    def wall_seconds(self) -> float:
        """Until the last trial ends, if all places are always taken."""
        return max(self.longest, self.seconds / self.at_once)


def size_of(data: "PreparedData") -> DataSize:
    """Return the size of a prepared data set."""
    return DataSize(data.n_users, data.n_items, data.n_days, len(data.items))


class Estimator:
    """Predicts trials on data sets of known size.

    Args:
        sizes: prepared counts by data set; where one is missing the published counts are taken.
        finished: trials to learn from.
        threads: of one trial.
        gpu: whether trials train on a GPU.
    """

    def __init__(
        self,
        sizes: Mapping[DatasetConfig, DataSize],
        *,
        finished: Iterable[Finished] = (),
        threads: int = 1,
        gpu: bool = False,
    ) -> None:
        self.sizes, self._threads, self._gpu = dict(sizes), threads, gpu
        self._known: dict[int, tuple[object, TrialConfig]] = {}
        self._needs: dict[int, Need] = {}
        self._kept: dict[int, tuple[int, int]] = {}
        ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
        shares: dict[tuple[str, str], list[float]] = defaultdict(list)
        for done in finished:
            config, size = self._config(done.trial), self.size(done.trial)
            if size is not None and done.epochs and done.seconds > 0:
                key = (done.trial.dataset, done.trial.model)
                one = self._epoch_seconds(config, size)
                ratios[key].append(done.seconds / done.epochs / one)
                shares[key].append(done.epochs / config.training.epochs)
        everything = [ratio for some in ratios.values() for ratio in some]
        self._anywhere = median(everything) if everything else 1.0
        self._ratio = {key: median(some) for key, some in ratios.items()}
        self._share = {key: fmean(some) for key, some in shares.items()}
        self.measured = len(everything)
        logs = [abs(math.log(r / self._ratio[k])) for k, some in ratios.items() for r in some]
        # Two thirds of normal errors lie within one standard deviation, 1.48 median deviations.
        self.error = math.exp(1.48 * median(logs)) if len(logs) > 1 else UNCALIBRATED

    def size(self, trial: Trial) -> DataSize | None:
        """Return the size of a trial's data set, or None if nothing is known of it."""
        dataset = self._config(trial).dataset
        if dataset in self.sizes:
            return self.sizes[dataset]
        recipe = dataset.synthetic
        if recipe is not None:
            return DataSize(recipe.users, recipe.items, 60, recipe.users * recipe.events)
        return PUBLISHED.get(dataset.name)

    def need(self, trial: Trial) -> Need | None:
        """Return a trial's expected peak memory and duration; None on data of unknown size."""
        arm = _arm(trial)
        if arm in self._needs:
            return self._needs[arm]
        config, size = self._config(trial), self.size(trial)
        if size is None:
            return None
        key = (trial.dataset, trial.model)
        ratio = self._ratio.get(key, self._anywhere)
        epochs = config.training.epochs * self._share.get(key, 1.0)
        seconds = epochs * self._epoch_seconds(config, size) * ratio
        device = "cuda" if self._gpu else "cpu"
        trained = training_bytes(config.model, config.training, data=size, device=device)
        around = _CUDA_BYTES if self._gpu else _PROCESS_BYTES + _BYTES_PER_EVENT * size.n_events
        self._needs[arm] = Need(around + trained, seconds, around=around, kind=key)
        return self._needs[arm]

    def kept_bytes(self, trial: Trial) -> tuple[int, int]:
        """Return how much a trial adds to the results database, and the size of its checkpoint."""
        arm = _arm(trial)
        if arm in self._kept:
            return self._kept[arm]
        config, size = self._config(trial), self.size(trial)
        if size is None:
            return 0, 0
        epochs = config.training.epochs * self._share.get((trial.dataset, trial.model), 1.0)
        # Two splits and protocols of compressed counts; 7 numbers an epoch.
        database = 12 * size.n_users + round(7 * 110 * epochs) + 4_000
        self._kept[arm] = database, 16 * n_parameters(config.model, size)
        return self._kept[arm]

    def _config(self, trial: Trial) -> TrialConfig:
        """Return a trial's configuration, made once for all its seeds."""
        key = _arm(trial)
        if key not in self._known:  # the section is kept, so that no other one gets its id
            self._known[key] = (trial.effective["training"], trial.config())
        return self._known[key][1]

    def _epoch_seconds(self, config: TrialConfig, size: DataSize) -> float:
        adds, steps = epoch_work(config, size)
        speed = _ADDS_PER_SECOND * self._threads
        return adds / speed + steps * _SECONDS_PER_STEP + _SECONDS_PER_EPOCH


def _arm(trial: Trial) -> int:
    """Return what trials that differ only by seed share: the very object of a section."""
    return id(trial.effective["training"])


def epoch_work(config: TrialConfig, size: DataSize) -> tuple[float, float]:
    """Return the multiply-adds and the optimizer's steps of an epoch with its validation.

    Counted are the matrix products of blocks, attention and head; a backward pass counts twice.
    """
    model, training = config.model, config.training
    hidden, layers = _hidden_and_layers(model)
    if hidden == 0:
        return float(size.n_events), 0.0
    prefix = max(1.0, size.n_events / size.n_users - 2)
    if isinstance(model, BptfConfig):  # a Gram matrix of each event, a solution of each row
        rows = size.n_users + size.n_items + model.bins
        sampled = 101 * model.samples * hidden * size.n_users
        return 3.0 * size.n_events * hidden**2 + rows * hidden**3 + sampled, 0.0
    if isinstance(model, TimesvdConfig):
        scores = size.n_users * (prefix * (1 + model.negatives) * 3 + 101)
        return scores * hidden, math.ceil(size.n_users / training.batch)
    longest = float(getattr(model, "max_len", 0) or getattr(model, "history", 50))
    length = min(longest, prefix)
    windows = size.n_users * (1 + max(0.0, (prefix - longest) / training.train_window))
    block = 12 * hidden**2 + 4 * length * hidden
    classes = size.n_items if getattr(model, "loss", "softmax") == "softmax" else 2
    scored = training.mask_probability if model.name in {"meantime", "bert4rec"} else 1.0
    trained = 3 * windows * length * (layers * block + scored * classes * hidden)
    validated = size.n_users * (length * layers * block + 101 * hidden)
    return trained + validated, math.ceil(windows / training.batch)


def estimate(plan: Plan, estimator: Estimator, *, at_once: int) -> Estimate:
    """Return what all trials of a plan cost; of a search, what points like its own cost.

    Args:
        plan: as declared.
        estimator: predicts single trials.
        at_once: trials that run at the same time, at least 1.
    """
    seconds: list[float] = []
    memory, disk, checkpoint = 0, 0.0, 0
    unknown: dict[str, None] = {}
    for trials, times in _weighed(plan):
        needs = [estimator.need(trial) for trial in trials]
        known = [need for need in needs if need is not None]
        if len(known) < len(needs):
            unknown[trials[0].dataset] = None
            continue
        kept = [estimator.kept_bytes(trial) for trial in trials]
        mean = fmean(need.seconds for need in known)
        seconds += [mean] * times if len(known) == 1 else [need.seconds for need in known]
        if len(known) > 1:  # a sample: as many as there will be, each of the sample's mean
            seconds += [mean] * (times - len(known))
        memory = max(memory, *(need.bytes for need in known))
        disk += times * fmean(database for database, _ in kept)
        checkpoint = max(checkpoint, *(size for _, size in kept))
    return Estimate(
        trials=len(seconds),
        unknown=tuple(unknown),
        seconds=sum(seconds),
        shortest=min(seconds, default=0.0),
        longest=max(seconds, default=0.0),
        at_once=max(1, at_once),
        memory=memory,
        disk=round(disk),
        checkpoint=checkpoint,
        measured=estimator.measured,
        error=estimator.error,
    )


def _weighed(plan: Plan) -> Iterable[tuple[Sequence[Trial], int]]:
    """Yield trials with how many there are like them: each by itself, or a sample of points."""
    for trial in plan.trials.values():
        yield (trial,), 1
    for contender in plan.contenders:
        for block in (contender.tried, contender.confirmed):
            if block is None:
                continue
            cells = plan.cells[block.first : block.end]
            n_unasked = sum(cell.state == "unasked" for cell in cells)
            if n_unasked:
                full = contender.full if block is contender.confirmed else {}
                points = [{**p, **full} for p in _sample(contender, n_unasked)]
                yield [t for p in points for t in contender.trials(p, block.seeds[:1])], n_unasked


def _sample(contender: Contender, most: int) -> list[dict[str, int | float | str]]:
    """Return points from all over the grid, its largest included, at most as many as wanted."""
    spread = [
        contender.point({n: _at(choice, share) for n, choice in contender.open.items()})
        for share in (1.0, 0.5, 0.0)
    ]
    legal = [point for point in spread if contender.reason(point) is None]
    return (legal or list(islice(contender.different(), _SAMPLED)))[:most]


def _at(choice: tuple[int | float | str, ...] | Range, share: float) -> int | float | str:
    """Return the value at a share of the way through a list or range."""
    if not isinstance(choice, Range):
        return sorted(choice, key=_by_size)[round(share * (len(choice) - 1))]
    if choice.size is not None:
        step = choice.step or 1
        value: int | float = choice.low + round(share * (choice.size - 1)) * step
        return value
    return float(choice.low + share * (choice.high - choice.low))


def _by_size(value: int | float | str) -> tuple[bool, float, str]:
    return isinstance(value, str), 0.0 if isinstance(value, str) else float(value), str(value)


def _hidden_and_layers(model: ModelConfig) -> tuple[int, int]:
    return int(getattr(model, "hidden", 0)), int(getattr(model, "layers", 0))
