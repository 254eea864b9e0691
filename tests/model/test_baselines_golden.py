"""Each baseline and its oracle agree with the golden file of an independent implementation."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from model.bert4rec import Bert4rec
from model.config import Bert4recConfig, MarankConfig, SasrecConfig, TisasrecConfig
from model.data.batches import Batch, TrainingBatch, UserBatch
from model.data.next_items import NextItemBatch
from model.marank import Marank
from model.network import Network
from model.sasrec import Sasrec
from model.tisasrec import Tisasrec, scaled_times
from tests.model.test_meantime_golden import DEFAULT, FOLDER
from tests.reference_baselines import Bert, Causal, Mara

FILES = sorted((FOLDER / "baselines").glob("*.npz"))
NAMES = ("bert4rec", "marank", "sasrec", "tisasrec")


@dataclass(frozen=True)
class Golden:
    meta: dict[str, object]
    weights: dict[str, Tensor]
    gradients: dict[str, Tensor]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]

    @property
    def name(self) -> str:
        return str(self.meta["model"])

    def seen(self, key: str) -> list:
        return self.inputs[key].tolist()


def read(path) -> Golden:
    with np.load(path) as arrays:
        meta = json.loads(str(arrays["meta"]))
        found = {name: torch.from_numpy(arrays[name]) for name in arrays.files if name != "meta"}

    def group(prefix: str) -> dict[str, Tensor]:
        return {n.removeprefix(prefix): t for n, t in found.items() if n.startswith(prefix)}

    return Golden(meta, group("weight/"), group("gradient/"), group("input/"), group("output/"))


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def golden(request) -> Golden:
    return read(request.param)


def network(golden: Golden) -> Network:
    meta = golden.meta
    shape = {"hidden": meta["hidden"], "dropout": 0.0}
    if golden.name != "marank":
        shape |= {key: meta[key] for key in ("heads", "layers", "max_len")}
    n_items = int(meta["items"])
    match golden.name:
        case "sasrec":
            made = Sasrec(SasrecConfig(**shape), n_items=n_items, seed=0)
        case "tisasrec":
            config = TisasrecConfig(**shape, max_interval=meta["max_interval"])
            made = Tisasrec(config, n_items=n_items, seed=0)
        case "bert4rec":
            made = Bert4rec(Bert4recConfig(**shape), n_items=n_items, seed=0)
        case "marank":
            assert meta["attention_layers"] == meta["residual_layers"] == 2
            config = MarankConfig(**shape, layers=2, history=meta["max_len"])
            made = Marank(config, n_items=n_items, n_users=meta["users"], seed=0)
    made = made.double()
    made.load_state_dict(golden.weights)
    return made


def batch_of(golden: Golden) -> TrainingBatch:
    items = golden.inputs["items"]
    nothing = torch.zeros_like(items)
    times = golden.inputs.get("timestamps", nothing).clone()
    if golden.name == "bert4rec":
        return TrainingBatch(items=items, times=times, days=nothing, labels=golden.inputs["labels"])
    labels, negatives, users = nothing.clone(), nothing.clone(), nothing.clone()
    if golden.name == "marank":
        labels[:, -1], negatives[:, -1] = golden.inputs["positives"], golden.inputs["negatives"]
        users += golden.inputs["users"][:, None] - 1  # row 1 of the file's table is user 0 here
    else:
        labels, negatives = golden.inputs["targets"], golden.inputs["negatives"]
    if golden.name == "tisasrec":  # padding repeats the oldest time
        for row in times:
            row[row == 0] = row[row > 0].min()
    return NextItemBatch(
        items=items,
        times=times,
        days=nothing,
        labels=labels,
        users=users,
        units=units(items, times),
        next_times=times,
        negatives=negatives[..., None],
    )


def units(items: Tensor, times: Tensor) -> Tensor:
    found = []
    for row, when in zip(items, times, strict=True):
        gaps = when[row > 0].diff()
        found.append(int(gaps[gaps > 0].min()) if (gaps > 0).any() else 1)
    return torch.tensor(found)[:, None].expand_as(items)


def with_target(batch: TrainingBatch) -> Batch:
    """Return the evaluation batch that shows what the training batch does."""
    if not isinstance(batch, NextItemBatch):
        return batch

    def wider(x: Tensor) -> Tensor:
        return torch.cat([x, x[:, -1:]], dim=1)

    return UserBatch(
        items=wider(batch.items),
        times=wider(batch.times),
        days=wider(batch.days),
        users=wider(batch.users),
        units=wider(batch.units),
    )


def hidden_of(made: Network, batch: TrainingBatch) -> Tensor:
    if isinstance(made, Marank):
        return made.hidden(batch.users[:, -1], batch.items)
    return made.hidden(batch)


def oracle(golden: Golden, weights: dict[str, Tensor]) -> tuple[list, Tensor, list]:
    """Return hidden states by row, the loss, and the scores of the candidates."""
    meta, items = golden.meta, golden.seen("items")
    if golden.name == "marank":
        mara, users = Mara(weights, layers=2), golden.seen("users")
        hidden = [mara.hidden(u, row) for u, row in zip(users, items, strict=True)]
        loss = mara.loss(users, items, golden.seen("positives"), golden.seen("negatives"))
        scores = [
            [mara.score(u, h, c) for c in row]
            for u, h, row in zip(users, hidden, golden.seen("candidates"), strict=True)
        ]
        return hidden, loss, scores
    shape = {"heads": meta["heads"], "layers": meta["layers"]}
    if golden.name == "bert4rec":
        bert = Bert(weights, **shape)
        hidden = [bert.hidden(row) for row in items]
        loss = bert.loss(items, golden.seen("labels"))
        scores = [
            [bert.score(h[-1], c) for c in row]
            for h, row in zip(hidden, golden.seen("candidates"), strict=True)
        ]
        return hidden, loss, scores
    timed = golden.name == "tisasrec"
    causal = Causal(weights, **shape, max_interval=meta["max_interval"] if timed else None)
    scaled = golden.seen("scaled_times") if timed else None
    hidden = [causal.hidden(row, scaled[n] if timed else None) for n, row in enumerate(items)]
    loss = causal.loss(items, golden.seen("targets"), golden.seen("negatives"), scaled)
    table = weights["item_embedding"]
    scores = [
        [h[-1] @ table[c] for c in row]
        for h, row in zip(hidden, golden.seen("candidates"), strict=True)
    ]
    return hidden, loss, scores


@pytest.mark.skipif(not DEFAULT.exists() and not FOLDER.exists(), reason="no golden files")
def test_there_is_a_golden_file_for_each_baseline():
    assert tuple(path.stem for path in FILES) == NAMES


def test_the_network_agrees_with_golden_outputs(golden: Golden):
    made, batch = network(golden), batch_of(golden)
    close = {"rtol": 0, "atol": 1e-7}
    hidden, expected = hidden_of(made, batch), golden.outputs["hidden"]
    if golden.name != "marank":
        hidden, expected = hidden[batch.items > 0], expected[batch.items > 0]
    torch.testing.assert_close(hidden, expected, **close)
    assert made.loss(batch).item() == pytest.approx(float(golden.outputs["loss"]), abs=1e-7)
    state = made.state(with_target(batch))
    candidates = golden.inputs["candidates"]
    scores = made.candidate_scores(state, candidates)
    torch.testing.assert_close(scores, golden.outputs["candidate_scores"], **close)
    torch.testing.assert_close(made.all_scores(state).gather(1, candidates), scores, **close)


def test_the_network_in_float32_agrees_with_golden_outputs(golden: Golden):
    made, batch = network(golden).float(), batch_of(golden)
    assert made.loss(batch).item() == pytest.approx(float(golden.outputs["loss"]), abs=1e-4)
    scores = made.candidate_scores(made.state(with_target(batch)), golden.inputs["candidates"])
    expected = golden.outputs["candidate_scores"]
    torch.testing.assert_close(scores.double(), expected, rtol=1e-4, atol=1e-4)


def test_the_network_agrees_with_golden_gradients(golden: Golden):
    made = network(golden)
    made.loss(batch_of(golden)).backward()
    assert_agree(golden, {name: p.grad for name, p in made.named_parameters()})


def test_the_oracle_agrees_with_golden_outputs_and_gradients(golden: Golden):
    weights = {name: w.clone().requires_grad_() for name, w in golden.weights.items()}
    hidden, loss, scores = oracle(golden, weights)
    assert loss.item() == pytest.approx(float(golden.outputs["loss"]), abs=1e-7)
    found = torch.stack([torch.stack(row) for row in scores]).detach()
    close = {"rtol": 0, "atol": 1e-7}
    torch.testing.assert_close(found, golden.outputs["candidate_scores"], **close)
    for n, row in enumerate(hidden):
        expected = golden.outputs["hidden"][n]
        real = golden.inputs["items"][n] > 0
        if golden.name == "marank":
            torch.testing.assert_close(row.detach(), expected, **close)
        else:
            torch.testing.assert_close(torch.stack(row).detach()[real], expected[real], **close)
    loss.backward()
    assert_agree(golden, {name: w.grad for name, w in weights.items()})


def test_the_personalised_times_agree_with_golden_inputs(golden: Golden):
    if golden.name == "tisasrec":
        batch = batch_of(golden)
        real = batch.items > 0
        assert torch.equal(scaled_times(batch)[real], golden.inputs["scaled_times"][real])


def assert_agree(golden: Golden, gradients: dict[str, Tensor | None]) -> None:
    assert set(gradients) == set(golden.gradients)
    for name, expected in golden.gradients.items():
        found = gradients[name]
        error = (expected if found is None else found - expected).abs().max()
        assert error <= 1e-3 * expected.abs().max() + 1e-8, name
