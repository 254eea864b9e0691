import dataclasses
import hashlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from model.build import build
from model.config import (
    DatasetConfig,
    EvaluationConfig,
    MeantimeConfig,
    SyntheticConfig,
    TrainingConfig,
    TrialConfig,
)
from model.data.batches import TrainingBatches
from model.data.prepare import load_prepared
from model.errors import Diverged
from model.limits import LIMITS, Limits
from model.metrics import summarise
from model.parts import parts
from model.randomness import numpy_generator, torch_generator
from model.results import PROTOCOLS
from model.train import Fit, fit_epoch, gradient, train


def config_of(embeddings=("pos",), seed=0, **training):
    return TrialConfig(
        dataset=DatasetConfig(name="small"),
        model=MeantimeConfig(embeddings=embeddings, hidden=16, heads=2, max_len=8, dropout=0.1),
        training=TrainingConfig(**{"batch": 8, "epochs": 2, "lr": 0.01} | training),
        seed=seed,
    )


@pytest.fixture(scope="module")
def cycles(prepared_of):
    """Everyone walks the same circle of 30 items: the next item is known."""
    walks = [[(start + n) % 30 + 1 for n in range(9)] for start in range(60)]
    return prepared_of(walks, n_items=30)


def trained(config, data):
    reports = []
    return train(config, data, report=reports.append), reports


def value(metrics, split, metric, protocol="popular-100"):
    wanted = (split, protocol, metric)
    (found,) = (m.value for m in metrics if (m.split, m.protocol, m.metric) == wanted)
    return found


def counts(result):
    return [(r.split, r.protocol, r.greater.tolist(), r.equal.tolist()) for r in result.ranks]


def test_a_simple_rule_is_learned(cycles):
    config = config_of(epochs=40, patience=40, lr=0.003, mask_probability=0.3)
    wide = config.model.model_copy(update={"hidden": 64, "dropout": 0.0})
    result, reports = trained(config.model_copy(update={"model": wide}), cycles)
    assert value(result.metrics, "test", "recall@5") > 0.9  # chance: 5 / 22
    assert value(result.metrics, "test", "recall@5", "full") > 0.9
    losses = [value(r.metrics, "train", "loss", "none") for r in reports]
    assert losses[0] == pytest.approx(np.log(31), abs=0.3)  # rows 0..30, nothing known yet
    assert losses[-1] < losses[0] - 0.4


def test_the_same_trial_gives_the_same_ranks_bit_for_bit(cycles):
    config = config_of(("day", "log"), epochs=3)
    (first, first_reports), (second, second_reports) = (trained(config, cycles) for _ in range(2))
    assert counts(first) == counts(second)
    assert [r.metrics for r in first_reports] == [r.metrics for r in second_reports]


def test_another_seed_gives_another_training(cycles):
    losses = [
        value(trained(config_of(seed=seed), cycles)[1][0].metrics, "train", "loss", "none")
        for seed in (0, 1)
    ]
    assert losses[0] != losses[1]


def test_global_generators_are_left_alone_and_do_not_matter(cycles):
    expected = counts(trained(config_of(), cycles)[0])
    torch.manual_seed(99)
    before = torch.get_rng_state()
    assert counts(trained(config_of(), cycles)[0]) == expected
    assert torch.equal(torch.get_rng_state(), before)


def test_a_poisoned_test_split_changes_nothing_but_test_ranks(cycles):
    items, times, days = cycles.items.copy(), cycles.timestamps.copy(), cycles.days.copy()
    tested = cycles.offsets[1:] - 1
    items[tested] = 1
    times[tested] += 10**6
    days[tested] = 0
    poisoned = dataclasses.replace(cycles, items=items, timestamps=times, days=days)
    clean, clean_reports = trained(config_of(epochs=6), cycles)
    other, other_reports = trained(config_of(epochs=6), poisoned)
    assert [r.metrics for r in clean_reports] == [r.metrics for r in other_reports]
    assert clean.best_epoch == other.best_epoch
    assert counts(clean)[:2] == counts(other)[:2]  # validation
    assert counts(clean)[2:] != counts(other)[2:]  # test


def test_every_epoch_reports_its_loss_and_validation_alone(cycles):
    result, reports = trained(config_of(epochs=3), cycles)
    assert [r.epoch for r in reports] == [1, 2, 3]
    for report in reports:
        names = [(m.split, m.protocol, m.metric) for m in report.metrics]
        assert names == [
            ("train", "none", "loss"),
            *(
                ("validation", "popular-100", metric)
                for metric in ("recall@5", "recall@10", "ndcg@5", "ndcg@10", "mrr")
            ),
        ]
    assert (result.epochs, result.stopped_by) == (3, "epochs")


def test_the_result_is_read_at_the_best_validation_epoch(cycles):
    result, reports = trained(config_of(epochs=12), cycles)
    by_epoch = [value(r.metrics, "validation", "ndcg@10") for r in reports]
    assert result.best_epoch == 1 + int(np.argmax(by_epoch))  # the first of equals
    assert value(result.metrics, "validation", "ndcg@10") == max(by_epoch)


def test_both_splits_and_protocols_are_kept_per_user(cycles):
    result, _ = trained(config_of(epochs=1), cycles)
    assert [(r.split, r.protocol) for r in result.ranks] == [
        ("validation", "popular-100"),
        ("validation", "full"),
        ("test", "popular-100"),
        ("test", "full"),
    ]
    for ranks in result.ranks:
        assert ranks.greater.shape == ranks.equal.shape == (60,)
        assert ranks.greater.dtype == ranks.equal.dtype == np.int32
    assert result.metrics == tuple(m for ranks in result.ranks for m in summarise(ranks))


def test_training_stops_after_patience_evaluations_without_a_better_one(cycles):
    # A step too small to change a rank: the first epoch stays the best.
    result, reports = trained(config_of(epochs=50, patience=3, lr=1e-12), cycles)
    assert (result.best_epoch, result.epochs, result.stopped_by) == (1, 4, "patience")
    assert len(reports) == 4


def test_a_loss_that_is_no_number_is_a_failure(cycles):
    with pytest.raises(Diverged, match="must be finite"):
        trained(config_of(epochs=30, lr=1e30), cycles)


def test_what_report_raises_ends_the_training(cycles):
    def stop(report):
        raise KeyboardInterrupt(f"epoch {report.epoch}")

    with pytest.raises(KeyboardInterrupt, match="epoch 1"):
        train(config_of(), cycles, report=stop)


def test_seconds_come_from_the_given_clock(cycles):
    ticks = iter(range(100))
    reports = []
    result = train(config_of(), cycles, report=reports.append, clock=lambda: next(ticks))
    assert [r.seconds for r in reports] == [1, 1]
    assert result.seconds == 5  # start, two readings in each of two epochs, end


def test_parameters_are_counted(cycles):
    result, _ = trained(config_of(("con",), epochs=1), cycles)
    model = build(config_of(("con",)).model, cycles, seed=0)
    assert result.n_parameters == sum(p.numel() for p in model.parameters())


def test_the_padding_row_stays_zero(cycles):
    config = config_of(weight_decay=0.1)
    model = build(config.model, cycles, seed=0)
    before = model.item_embedding.detach().clone()
    batches = TrainingBatches(
        cycles,
        config.training,
        max_len=8,
        order_rng=numpy_generator(0, "order"),
        mask_rng=numpy_generator(0, "masks"),
    )
    fit_epoch(
        model,
        batches,
        optimizer=torch.optim.Adam(model.parameters(), weight_decay=0.1),
        dropout=torch_generator(0, "dropout"),
    )
    after = model.item_embedding.detach()
    assert after[0].eq(0).all()
    assert after[1:].ne(before[1:]).any(dim=1).all()


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("train_window", 2),
        ("mask_probability", 0.5),
        ("batch", 5),
        ("lr", 0.02),
        ("weight_decay", 0.1),
        ("precision", "bfloat16"),
    ],
)
def test_every_training_field_changes_the_training(cycles, field, other):
    def losses(config):
        reports = trained(config, cycles)[1]
        return [value(r.metrics, "train", "loss", "none") for r in reports]

    config = config_of()
    short = config.model.model_copy(update={"max_len": 3})  # several windows per user
    config = config.model_copy(update={"model": short})
    changed = config.training.model_copy(update={field: other})
    assert losses(config) != losses(config.model_copy(update={"training": changed}))


@pytest.mark.parametrize("protocol", ["popular-100", "uniform-100", "full"])
def test_the_declared_protocol_validates_and_selects_and_is_reported_beside_full(cycles, protocol):
    evaluation = EvaluationConfig(protocol=protocol, repeats="allowed")
    config = config_of(("pos",)).model_copy(update={"evaluation": evaluation})
    epochs = []
    result = train(config, cycles, report=epochs.append)
    shown = {m.protocol for epoch in epochs for m in epoch.metrics if m.split == "validation"}
    assert shown == {protocol}
    assert result.protocol == protocol
    assert {m.protocol for m in result.metrics} == {r.protocol for r in result.ranks}
    assert {m.protocol for m in result.metrics} == {protocol, "full"}
    curve = [value(e.metrics, "validation", "ndcg@10", protocol) for e in epochs]
    assert result.best_epoch == 1 + int(np.argmax(curve))


@pytest.mark.parametrize(("field", "other"), [("target_time", "last"), ("repeats", "allowed")])
def test_every_evaluation_field_changes_the_ranks(cycles, field, other):
    config = config_of(("day", "log"))
    changed = config.evaluation.model_copy(update={field: other})
    found = []
    for each in (config, config.model_copy(update={"evaluation": changed})):
        fit = Fit(each, cycles, device="cpu")
        with torch.no_grad():
            for weight in fit.model.parameters():
                weight.mul_(20)  # as if trained: attention and times matter
        found.append([r.greater.tolist() for r in fit.ranks("test", protocols=PROTOCOLS)])
    assert found[0] != found[1]


def model_and_batch(data, *, dropout=0.0, batch=60, embeddings=("day", "pos", "sin", "log")):
    config = MeantimeConfig(embeddings=embeddings, hidden=16, heads=4, max_len=8, dropout=dropout)
    model = build(config, data, seed=0)
    batches = TrainingBatches(
        data,
        TrainingConfig(batch=batch, mask_probability=0.3),
        max_len=8,
        order_rng=numpy_generator(0, "order"),
        mask_rng=numpy_generator(0, "masks"),
    )
    return model, next(iter(batches))


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters()}


@pytest.fixture(scope="module")
def uneven(prepared_of):
    """Sequences of 3 to 12 items: training prefixes of 1 to 10."""
    rng = np.random.default_rng(5)
    return prepared_of([rng.integers(1, 31, 3 + n % 10) for n in range(60)], n_items=30)


@pytest.mark.parametrize(
    ("limits", "n_parts"),
    [(Limits(200, 10**9, 99), 13), (Limits(10**9, 10**9, 3), 13), (LIMITS["cpu"], 1)],
)
def test_a_gradient_in_parts_is_the_gradient_of_the_batch_s_mean_loss(
    uneven, monkeypatch, limits, n_parts
):
    model, batch = model_and_batch(uneven)
    loss = model.loss(batch)
    loss.backward()
    expected = gradients(model)
    monkeypatch.setitem(LIMITS, "cpu", limits)
    # 60 windows of 312 events fill 39 rows of 8, of which three fit a part of 200 scores.
    assert len(list(parts(batch, limits=limits, shared=True))) == n_parts
    model.zero_grad()
    assert gradient(model, batch, None).item() == pytest.approx(loss.item(), abs=1e-6)
    for name, found in gradients(model).items():
        assert torch.allclose(found, expected[name], atol=1e-6), name


def test_a_batch_within_the_limits_is_one_part(cycles):
    _, batch = model_and_batch(cycles)
    [(part, n)] = parts(batch, limits=Limits(10**9, 10**9, 99), shared=False)
    assert part.items.shape == batch.items.shape == (60, 7)
    assert n == (batch.labels > 0).sum()


def test_parts_hold_every_row_with_a_chosen_position_once_cut_to_their_longest(uneven):
    _, batch = model_and_batch(uneven)
    found = list(parts(batch, limits=Limits(200, 10**9, 99), shared=False))
    rows = [tuple(r[r > 0].tolist()) for part, _ in found for r in part.items]
    missing = [tuple(r[r > 0].tolist()) for r in batch.items]
    for row in rows:
        missing.remove(row)
    for part, n in found:
        lengths = (part.items > 0).sum(1)
        assert lengths.max() == part.items.shape[1] <= 2 * lengths.min()
        assert len(part.items) * part.items.shape[1] ** 2 <= 200
        assert n == (part.labels > 0).sum() > 0
    assert sum(n for _, n in found) == (batch.labels > 0).sum()
    assert len(rows) + len(missing) == 60


def test_a_step_is_made_once_a_batch_however_many_parts_it_has(uneven, monkeypatch):
    monkeypatch.setitem(LIMITS, "cpu", Limits(100, 10**9, 99))
    model, batch = model_and_batch(uneven)
    optimizer = torch.optim.Adam(model.parameters())
    fit_epoch(model, [batch, batch], optimizer=optimizer, dropout=torch_generator(0, "dropout"))
    assert {int(state["step"]) for state in optimizer.state.values()} == {2}


def test_an_epoch_s_loss_is_the_mean_over_its_chosen_positions(uneven):
    model, batch = model_and_batch(uneven)
    _, other = model_and_batch(uneven, batch=7)
    counts = [int((b.labels > 0).sum()) for b in (batch, other)]
    losses = [model.loss(b).item() for b in (batch, other)]
    still = torch.optim.SGD(model.parameters(), lr=0.0)
    found = fit_epoch(model, [batch, other], optimizer=still, dropout=None)
    assert found == pytest.approx(np.average(losses, weights=counts), abs=1e-6)


def test_bfloat16_keeps_weights_and_gradients_in_float32_and_moves_them_little(uneven):
    model, batch = model_and_batch(uneven)
    gradient(model, batch, None)
    exact = gradients(model)
    model.zero_grad()
    gradient(model, batch, None, precision="bfloat16")
    rough = gradients(model)
    assert {p.dtype for p in model.parameters()} == {g.dtype for g in rough.values()}
    assert {g.dtype for g in rough.values()} == {torch.float32}
    error = max(float((rough[name] - g).abs().max()) for name, g in exact.items())
    largest = max(float(g.abs().max()) for g in exact.values())
    assert 0 < error < 0.02 * largest


FRESH = """
    import hashlib
    import sys
    from pathlib import Path

    from model.config import TrialConfig
    from model.data.prepare import load_prepared
    from model.train import train

    config = TrialConfig.model_validate_json(sys.stdin.read())
    data = load_prepared(config.dataset, Path(sys.argv[1]))
    result = train(config, data, report=lambda report: None)
    print(hashlib.sha256(b"".join(r.greater.tobytes() for r in result.ranks)).hexdigest())
"""


def test_a_fresh_process_gives_the_same_ranks_as_a_reused_one(tmp_path):
    recipe = SyntheticConfig(recipe="planted-order", users=60, items=20, events=10)
    config = config_of(("day", "sin")).model_copy(
        update={"dataset": DatasetConfig(name="fresh", synthetic=recipe)}
    )
    program = [sys.executable, "-c", textwrap.dedent(FRESH), tmp_path]
    found = [
        subprocess.run(
            program, input=config.model_dump_json(), capture_output=True, check=True, text=True
        ).stdout
        for _ in range(2)
    ]
    data = load_prepared(config.dataset, tmp_path)
    train(config_of(("log",)), data, report=lambda _: None)  # this process is not fresh
    here = train(config, data, report=lambda _: None)
    digest = hashlib.sha256(b"".join(r.greater.tobytes() for r in here.ranks)).hexdigest()
    assert [text.strip() for text in found] == [digest] * 2
