"""The oracle and the fast network agree with the golden files, the last word on the arithmetic."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from model.config import MeantimeConfig
from model.data.batches import TrainingBatch
from model.meantime import Meantime
from tests.reference_meantime import Reference

DEFAULT = Path(__file__).parents[3] / "shared" / "golden"
FOLDER = Path(os.environ.get("MEANTIME_GOLDEN", DEFAULT))
FILES = sorted(FOLDER.glob("*.npz"))


@dataclass(frozen=True)
class Golden:
    config: MeantimeConfig
    n_items: int
    n_days: int
    weights: dict[str, Tensor]
    gradients: dict[str, Tensor]
    batch: TrainingBatch
    candidates: Tensor
    hidden: Tensor
    loss: float
    candidate_scores: Tensor

    @property
    def real(self) -> Tensor:
        return self.batch.items > 0


def read(path: Path) -> Golden:
    with np.load(path) as arrays:
        meta = json.loads(str(arrays["meta"]))
        tensors = {name: torch.from_numpy(arrays[name]) for name in arrays.files if name != "meta"}
    return Golden(
        config=MeantimeConfig(
            embeddings=tuple(meta["embeddings"]),
            hidden=meta["hidden"],
            heads=meta["heads"],
            layers=meta["layers"],
            max_len=meta["max_len"],
            dropout=0.0,
            tau=float(meta["time_unit_seconds"]),
            frequency_base=float(meta["frequency_base"]),
        ),
        n_items=meta["items"],
        n_days=meta["days"],
        weights={n[7:]: t for n, t in tensors.items() if n.startswith("weight/")},
        gradients={n[9:]: t for n, t in tensors.items() if n.startswith("gradient/")},
        batch=TrainingBatch(
            items=tensors["input/items"],
            times=tensors["input/timestamps"],
            days=tensors["input/days"],
            labels=tensors["input/labels"],
        ),
        candidates=tensors["input/candidates"],
        hidden=tensors["output/hidden"],
        loss=float(tensors["output/loss"]),
        candidate_scores=tensors["output/candidate_scores"],
    )


def network(golden: Golden) -> Meantime:
    model = Meantime(golden.config, n_items=golden.n_items, n_days=golden.n_days, seed=0)
    model.load_state_dict(
        {name: weight.float() for name, weight in golden.weights.items() if not idle(name)}
    )
    return model


def oracle_of(golden: Golden, weights: dict[str, Tensor]) -> Reference:
    config = golden.config
    return Reference(
        weights,
        list(config.embeddings),
        hidden_size=config.hidden,
        heads=config.heads,
        layers=config.layers,
        max_len=config.max_len,
        tau=config.tau,
        frequency_base=config.frequency_base,
    )


def idle(name: str) -> bool:
    """b_K, b_PK and b_WR, which the network leaves out because they cannot change an output."""
    kind = name.rpartition(".attention.")[2].partition(".")[0]
    return kind in {"key", "absolute_key", "relative_key"} and name.endswith(".bias")


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def golden(request: pytest.FixtureRequest) -> Golden:
    return read(request.param)


@pytest.mark.skipif(
    "MEANTIME_GOLDEN" not in os.environ and not DEFAULT.exists(),
    reason="no golden files beside the checkout; set MEANTIME_GOLDEN to their folder",
)
def test_there_are_golden_files():
    assert FILES, f"{FOLDER} holds no .npz"


def test_the_oracle_agrees_with_golden_outputs(golden: Golden):
    oracle, batch = oracle_of(golden, golden.weights), golden.batch
    seen = (batch.items, batch.times, batch.days)
    close = {"rtol": 0, "atol": 1e-7}
    hidden = oracle.hidden(*seen)
    torch.testing.assert_close(hidden[golden.real], golden.hidden[golden.real], **close)
    assert float(oracle.loss(*seen, batch.labels)) == pytest.approx(golden.loss, abs=1e-7)
    scores = oracle.candidate_scores(*seen, golden.candidates)
    torch.testing.assert_close(scores, golden.candidate_scores, **close)


def test_the_network_agrees_with_golden_outputs(golden: Golden):
    model, batch = network(golden), golden.batch
    hidden = model.hidden(batch).double()
    error = (hidden - golden.hidden)[golden.real].abs().max()
    assert error < 1e-4
    assert model.loss(batch).item() == pytest.approx(golden.loss, abs=1e-4)
    scores = model.candidate_scores(model.state(batch), golden.candidates).double()
    torch.testing.assert_close(scores, golden.candidate_scores, rtol=1e-4, atol=1e-4)
    every = model.all_scores(model.state(batch)).double().gather(1, golden.candidates)
    torch.testing.assert_close(every, golden.candidate_scores, rtol=1e-4, atol=1e-4)


def test_the_oracle_agrees_with_golden_gradients(golden: Golden):
    batch = golden.batch
    weights = {name: w.clone().requires_grad_(w.numel() > 0) for name, w in golden.weights.items()}
    oracle = oracle_of(golden, weights)
    oracle.loss(batch.items, batch.times, batch.days, batch.labels).backward()
    for name, expected in golden.gradients.items():
        found = weights[name].grad
        error = (expected if found is None else found - expected).abs().max()
        assert error <= 1e-3 * expected.abs().max() + 1e-8, name


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["64", "32"])
def test_the_network_agrees_with_golden_gradients(golden: Golden, dtype: torch.dtype):
    model = network(golden).to(dtype)
    model.loss(golden.batch).backward()
    found = {name: p.grad.double() for name, p in model.named_parameters() if p.numel()}
    assert set(found) == {name for name in golden.gradients if not idle(name)}
    for name, expected in golden.gradients.items():
        error = (found.get(name, torch.zeros(())) - expected).abs().max()
        # Without dropout Con's key part is constant over j: its true gradient is zero, and both
        # sides are rounding noise, float32's ten times as large.
        constant = name.endswith("absolute_key.con.weight") and dtype == torch.float32
        assert error <= 1e-3 * expected.abs().max() + (1e-7 if constant else 1e-8), name
