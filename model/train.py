"""Training of one trial: the validation split alone decides when to stop and which epoch counts.

The test split is read once, at the best epoch. Weights, order, masks and dropout each have their
own generator, named from the seed: the same configuration gives the same ranks, bit for bit, on one
machine with the same number of threads.
"""

import math
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from model.build import build
from model.config import TrialConfig
from model.data.batches import TrainingBatches
from model.data.prepare import PreparedData
from model.errors import Diverged
from model.evaluate import evaluate
from model.meantime import Meantime
from model.metrics import summarise
from model.randomness import numpy_generator, torch_generator
from model.results import PROTOCOLS, SELECTED_BY, EpochReport, MetricValue, TrialResult

_LONGEST_GRADIENT = 5.0


def train(
    config: TrialConfig,
    data: PreparedData,
    *,
    report: Callable[[EpochReport], None],
    device: str = "cpu",
    threads: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> TrialResult:
    """Train one trial, report every epoch, and evaluate it at its best epoch.

    Args:
        config: everything that decides the numbers.
        data: what `config.dataset` was prepared into.
        report: told every epoch's training loss and validation metrics; may raise, to stop.
        device: `cpu` or a CUDA device.
        threads: CPU threads that torch may use in this thread.
        clock: seconds, for durations only.

    Raises:
        Diverged: a loss or a score is NaN or infinite.
    """
    torch.set_num_threads(threads)
    started = clock()
    training, max_len, seed = config.training, config.model.max_len, config.seed
    model = build(config.model, n_items=data.n_items, n_days=data.n_days, seed=seed).to(device)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=training.lr, weight_decay=training.weight_decay, fused=True
    )
    batches = TrainingBatches(
        data,
        training,
        max_len=max_len,
        order_rng=numpy_generator(seed, "order"),
        mask_rng=numpy_generator(seed, "masks"),
    )
    dropout = torch_generator(seed, "dropout", device=device)
    best_score, best_epoch, best_state, epoch = -math.inf, 0, _copied(model), 0
    while epoch < training.epochs and epoch - best_epoch < training.patience:
        epoch += 1
        epoch_started = clock()
        loss = fit_epoch(model, batches, optimizer=optimizer, dropout=dropout, device=device)
        (ranks,) = evaluate(
            model,
            data,
            "validation",
            protocols=("popular-100",),
            evaluation=config.evaluation,
            max_len=max_len,
            batch=training.batch,
            device=device,
        )
        metrics = summarise(ranks)
        (score,) = (m.value for m in metrics if m.metric == SELECTED_BY)
        if score > best_score:
            best_score, best_epoch, best_state = score, epoch, _copied(model)
        loss_value = MetricValue("train", "none", "loss", loss)
        report(EpochReport(epoch, clock() - epoch_started, (loss_value, *metrics)))

    model.load_state_dict(best_state)
    ranks_at_best = [
        evaluate(
            model,
            data,
            split,
            protocols=PROTOCOLS,
            evaluation=config.evaluation,
            max_len=max_len,
            batch=training.batch,
            device=device,
        )
        for split in ("validation", "test")
    ]
    every = (*ranks_at_best[0], *ranks_at_best[1])
    return TrialResult(
        best_epoch=best_epoch,
        epochs=epoch,
        stopped_by="patience" if epoch - best_epoch >= training.patience else "epochs",
        metrics=tuple(value for ranks in every for value in summarise(ranks)),
        ranks=every,
        n_parameters=sum(p.numel() for p in model.parameters()),
        seconds=clock() - started,
    )


def fit_epoch(
    model: Meantime,
    batches: TrainingBatches,
    *,
    optimizer: torch.optim.Optimizer,
    dropout: torch.Generator,
    device: str,
) -> float:
    """Make one pass over the windows and return the mean loss per chosen position."""
    total, chosen = 0.0, 0
    for batch in batches:
        optimizer.zero_grad()
        loss = model.loss(batch.to(device), dropout)
        value = loss.item()
        if not math.isfinite(value):
            raise Diverged(f"the training loss must be finite, got {value}; lower lr")
        torch.autograd.backward(loss)
        model.freeze_padding()
        nn.utils.clip_grad_norm_(model.parameters(), _LONGEST_GRADIENT)
        optimizer.step()
        n = int((batch.labels > 0).sum())
        total, chosen = total + value * n, chosen + n
    return total / chosen if chosen else math.nan


def _copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}
