"""Training of one trial: the validation split alone decides when to stop and which epoch counts.

The test split is read once, at the best epoch. Weights, order, masks and dropout each have their
own generator, named from the seed: the same configuration gives the same ranks, bit for bit, on one
machine with the same number of threads.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from model.build import build, training_batches
from model.checkpoint import State, identity, load, save
from model.config import Precision, TrialConfig
from model.data.batches import TrainingBatch
from model.data.prepare import PreparedData
from model.data.split import HeldOut
from model.errors import Diverged
from model.evaluate import evaluate
from model.limits import LIMITS
from model.metrics import summarise
from model.network import Network, Sampled
from model.parts import parts
from model.randomness import numpy_generator, torch_generator
from model.results import (
    SELECTED_BY,
    EpochReport,
    MetricValue,
    Protocol,
    Ranks,
    TrialResult,
    reported,
)

_LONGEST_GRADIENT = 5.0


def train(
    config: TrialConfig,
    data: PreparedData,
    *,
    report: Callable[[EpochReport], None],
    device: str = "cpu",
    threads: int = 1,
    clock: Callable[[], float] = time.perf_counter,
    checkpoint: Path | None = None,
    checkpoint_share: float | None = None,
) -> TrialResult:
    """Train one trial, report every epoch, and evaluate it at its best epoch.

    Args:
        config: everything that decides the numbers.
        data: what `config.dataset` was prepared into.
        report: told every epoch's training loss and validation metrics; may raise, to stop. Where
            a training continues, it is told again of the epochs before.
        device: `cpu` or a CUDA device.
        threads: CPU threads that torch may use in this thread.
        clock: seconds, for durations only.
        checkpoint: a file that is written after every epoch, and continued from if it is there;
            with the same threads the result is that of a training without interruption, bit for
            bit. It is left to the caller to delete.
        checkpoint_share: None writes after every epoch; a number leaves out epochs that end so
            early that writing would take more than this share of the time since the last one.

    Raises:
        Diverged: a loss or a score is NaN or infinite.
        RequestError: the checkpoint is another trial's.
    """
    torch.set_num_threads(threads)
    if not config.model.training_factors:
        return _counted(config, data, report=report, device=device, clock=clock)
    training, kind = config.training, torch.device(device).type
    fit = Fit(config, data, device=device)
    own = identity(config, data.fingerprint)
    found = load(checkpoint, identity=own, device=kind) if checkpoint else None
    if found is not None:
        fit.restore(found)
    started = clock() - fit.seconds
    saved_at, save_seconds = -math.inf, 0.0
    for past in fit.reports:
        report(past)
    while fit.epoch < training.epochs and fit.epoch - fit.best_epoch < training.patience:
        epoch_started = clock()
        metrics = fit.next_epoch()
        ended = clock()
        fit.reports.append(EpochReport(fit.epoch, ended - epoch_started, metrics))
        fit.seconds = ended - started
        if checkpoint is None:
            pass
        elif checkpoint_share is None:
            save(checkpoint, fit.state(), identity=own, device=kind)
        elif save_seconds <= checkpoint_share * (ended - saved_at):
            save(checkpoint, fit.state(), identity=own, device=kind)
            saved_at = clock()
            save_seconds = saved_at - ended
        report(fit.reports[-1])

    fit.model.load_state_dict(fit.best)
    ranks = tuple(
        counts
        for split in ("validation", "test")
        for counts in fit.ranks(split, protocols=reported(config.evaluation.protocol))
    )
    return TrialResult(
        best_epoch=fit.best_epoch,
        epochs=fit.epoch,
        stopped_by="patience" if fit.epoch - fit.best_epoch >= training.patience else "epochs",
        metrics=tuple(value for counts in ranks for value in summarise(counts)),
        ranks=ranks,
        n_parameters=sum(p.numel() for p in fit.model.parameters()),
        seconds=clock() - started,
        protocol=config.evaluation.protocol,
    )


class Fit:
    """A training between two epochs: whatever an epoch changes, as attributes.

    `restore` with what `state` gave continues as if nothing had happened.

    Attributes:
        epoch: epochs trained.
        best_epoch: the one with the best validation score so far, the first of equals.
        best: its weights.
        reports: of the epochs trained.
        seconds: spent in them.
    """

    def __init__(self, config: TrialConfig, data: PreparedData, *, device: str) -> None:
        self._config, self._data, self._device = config, data, device
        training, seed = config.training, config.seed
        built = build(config.model, data, seed=seed)
        assert isinstance(built, Network | Sampled)
        self.model: Network | Sampled = built.to(device)
        self._optimizer = torch.optim.Adam(
            self.model.parameters(), lr=training.lr, weight_decay=training.weight_decay, fused=True
        )
        self._order = numpy_generator(seed, "order")
        self._draws = numpy_generator(seed, "masks")
        self._dropout = torch_generator(seed, "dropout")
        self._batches = training_batches(
            config.model,
            data,
            training=training,
            seed=seed,
            order_rng=self._order,
            draw_rng=self._draws,
        )
        self.epoch, self.best_epoch, self._best_score = 0, 0, -math.inf
        self.best = _copied(self.model)
        self.reports: list[EpochReport] = []
        self.seconds = 0.0

    def next_epoch(self) -> tuple[MetricValue, ...]:
        """Train one more epoch, validate it, and return its training loss and metrics."""
        loss = self._fit(self._batches)
        self.epoch += 1
        protocol = self._config.evaluation.protocol
        (ranks,) = self.ranks("validation", protocols=(protocol,))
        metrics = summarise(ranks)
        (score,) = (m.value for m in metrics if m.metric == SELECTED_BY)
        if score > self._best_score:
            self._best_score, self.best_epoch, self.best = score, self.epoch, _copied(self.model)
        return (MetricValue("train", "none", "loss", loss), *metrics)

    def rehearse(self) -> None:
        """Make one step, for what it takes; a training does not go on from here."""
        self._fit(islice(self._batches, 1))

    def _fit(self, batches: Iterable[TrainingBatch]) -> float:
        """Make one pass over the batches, or draw everything once; return the training loss."""
        if isinstance(self.model, Sampled):
            return self.model.sweep(self._draws)
        return fit_epoch(
            self.model,
            batches,
            optimizer=self._optimizer,
            dropout=self._dropout,
            precision=self._config.training.precision,
        )

    def ranks(self, split: HeldOut, *, protocols: Sequence[Protocol]) -> tuple[Ranks, ...]:
        """Rank every user's target with the present weights."""
        return evaluate(
            self.model,
            self._data,
            split,
            protocols=protocols,
            evaluation=self._config.evaluation,
            max_len=self._config.model.span,
            device=self._device,
        )

    def state(self) -> State:
        """Return everything that the next epoch depends on."""
        return {
            "epoch": self.epoch,
            "best_epoch": self.best_epoch,
            "best_score": self._best_score,
            "seconds": self.seconds,
            "reports": [_plain(report) for report in self.reports],
            "model": self.model.state_dict(),
            "best": self.best,
            "optimizer": self._optimizer.state_dict(),
            "order": self._order.bit_generator.state,
            "draws": self._draws.bit_generator.state,
            "dropout": self._dropout.get_state(),
        }

    def restore(self, state: State) -> None:
        """Go back to where this state was taken, of the same configuration and data."""
        self.epoch, self.best_epoch = state["epoch"], state["best_epoch"]
        self._best_score, self.seconds = state["best_score"], state["seconds"]
        self.reports = [_report(plain) for plain in state["reports"]]
        self.model.load_state_dict(state["best"])
        self.best = _copied(self.model)
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._order.bit_generator.state = state["order"]
        self._draws.bit_generator.state = state["draws"]
        self._dropout.set_state(state["dropout"])


def _counted(
    config: TrialConfig,
    data: PreparedData,
    *,
    report: Callable[[EpochReport], None],
    device: str,
    clock: Callable[[], float],
) -> TrialResult:
    """Evaluate a model that is counted, not trained: one epoch without a loss."""
    started = clock()
    model = build(config.model, data, seed=config.seed)

    def ranks(split: HeldOut, *, protocols: Sequence[Protocol]) -> tuple[Ranks, ...]:
        return evaluate(
            model,
            data,
            split,
            protocols=protocols,
            evaluation=config.evaluation,
            max_len=config.model.span,
            device=device,
        )

    protocols = reported(config.evaluation.protocol)
    validation = ranks("validation", protocols=protocols)
    seen = tuple(v for counts in validation[:1] for v in summarise(counts))
    report(EpochReport(1, clock() - started, seen))
    everything = (*validation, *ranks("test", protocols=protocols))
    return TrialResult(
        best_epoch=1,
        epochs=1,
        stopped_by="epochs",
        metrics=tuple(value for counts in everything for value in summarise(counts)),
        ranks=everything,
        n_parameters=0,
        seconds=clock() - started,
        protocol=config.evaluation.protocol,
    )


def fit_epoch(
    model: Network,
    batches: Iterable[TrainingBatch],
    *,
    optimizer: torch.optim.Optimizer,
    dropout: torch.Generator | None,
    precision: Precision = "float32",
) -> float:
    """Make one pass over the windows and return the mean loss per chosen position.

    The loss is read once, at the end: reading it after each step would make a device wait.
    """
    total = torch.zeros((), dtype=torch.float64, device=model.item_embedding.device)
    chosen = 0
    for batch in batches:
        optimizer.zero_grad()
        loss = gradient(model, batch, dropout, precision=precision)
        model.freeze_padding()
        nn.utils.clip_grad_norm_(model.parameters(), _LONGEST_GRADIENT)
        optimizer.step()
        n = int(batch.labels.count_nonzero())
        total += loss * n
        chosen += n
    mean = float(total) / chosen if chosen else math.nan
    if chosen and not math.isfinite(mean):
        raise Diverged(f"the training loss must be finite, got {mean}; lower lr")
    return mean


def gradient(
    model: Network,
    batch: TrainingBatch,
    dropout: torch.Generator | None,
    *,
    precision: Precision = "float32",
) -> Float[Tensor, ""]:
    """Add the gradient of the batch's mean loss to the parameters' and return that loss.

    It is taken in parts, so that what a part needs stays near the processor; a part counts by its
    share of the chosen positions, of which the batch must have one. Each part's masks come from a
    generator of its own, seeded by `dropout`: they depend on no other part. Batch and `dropout` lie
    on the CPU, the model anywhere.
    """
    device = model.item_embedding.device
    total = torch.zeros((), device=device)
    n_chosen = int(batch.labels.count_nonzero())
    for part, n in parts(batch, limits=LIMITS[device.type], shared=model.tells_windows_apart):
        own = None if dropout is None else _own_generator(dropout, device=device)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            loss = model.loss(part.to(device), own) * (n / n_chosen)
        torch.autograd.backward(loss)
        total += loss.detach()
    return total


def _own_generator(generator: torch.Generator, *, device: torch.device) -> torch.Generator:
    seed = torch.randint(2**63 - 1, (), generator=generator)
    return torch.Generator(device).manual_seed(int(seed))


def _copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def _plain(report: EpochReport) -> list[Any]:
    metrics = [[m.split, m.protocol, m.metric, m.value] for m in report.metrics]
    return [report.epoch, report.seconds, metrics]


def _report(plain: list[Any]) -> EpochReport:
    epoch, seconds, metrics = plain
    return EpochReport(epoch, seconds, tuple(MetricValue(*m) for m in metrics))
