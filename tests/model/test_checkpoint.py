import dataclasses

import numpy as np
import pytest
import torch

from model.checkpoint import load, save
from model.config import DatasetConfig, MeantimeConfig, TrainingConfig, TrialConfig
from model.errors import RequestError
from model.train import Fit, train


def config_of(seed=0, **training):
    return TrialConfig(
        dataset=DatasetConfig(name="small"),
        model=MeantimeConfig(embeddings=("pos", "log"), hidden=16, heads=2, max_len=6),
        training=TrainingConfig(**{"batch": 8, "epochs": 6, "lr": 0.003} | training),
        seed=seed,
    )


@pytest.fixture(scope="module")
def walks(prepared_of):
    return prepared_of(
        [[(n + k) % 20 + 1 for k in range(4 + n % 6)] for n in range(30)], n_items=20
    )


def interrupted_after(epoch, told):
    def report(found):
        told.append(found)
        if found.epoch == epoch:
            raise KeyboardInterrupt

    return report


def trained(config, data, path=None):
    told = []
    return train(config, data, report=told.append, checkpoint=path), told


def numbers(result, told):
    counts = [(r.split, r.protocol, r.greater.tolist(), r.equal.tolist()) for r in result.ranks]
    curve = [(report.epoch, report.metrics) for report in told]
    return counts, curve, result.metrics, result.best_epoch, result.epochs, result.stopped_by


@pytest.mark.parametrize("epochs", [(1,), (3,), (6,), (2, 3, 5)], ids=str)
def test_an_interrupted_training_ends_like_one_that_was_not(walks, tmp_path, epochs):
    expected = numbers(*trained(config_of(), walks))
    for epoch in epochs:
        with pytest.raises(KeyboardInterrupt):
            train(
                config_of(),
                walks,
                report=interrupted_after(epoch, []),
                checkpoint=tmp_path / "trial",
            )
    assert numbers(*trained(config_of(), walks, tmp_path / "trial")) == expected


def test_patience_counts_on_over_an_interruption(walks, tmp_path):
    config = config_of(epochs=50, patience=3, lr=1e-12)  # the first epoch stays the best
    with pytest.raises(KeyboardInterrupt):
        train(config, walks, report=interrupted_after(3, []), checkpoint=tmp_path / "trial")
    result, _ = trained(config, walks, tmp_path / "trial")
    assert (result.best_epoch, result.epochs, result.stopped_by) == (1, 4, "patience")


def test_epochs_before_the_interruption_are_told_again_and_not_trained_again(walks, tmp_path):
    before = []
    with pytest.raises(KeyboardInterrupt):
        train(
            config_of(),
            walks,
            report=interrupted_after(4, before),
            checkpoint=tmp_path / "trial",
        )
    _, told = trained(config_of(), walks, tmp_path / "trial")
    assert [r.epoch for r in told] == [1, 2, 3, 4, 5, 6]
    assert told[:4] == before  # their seconds too


def test_the_time_before_the_interruption_counts(walks, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(
            config_of(epochs=2),
            walks,
            report=interrupted_after(1, []),
            checkpoint=tmp_path / "trial",
            clock=iter([100.0, 101.0, 111.0]).__next__,  # begin, the epoch's start, its end
        )
    result = train(
        config_of(epochs=2),
        walks,
        report=lambda _: None,
        checkpoint=tmp_path / "trial",
        clock=iter([500.0, 500.0, 507.0, 509.0]).__next__,
    )
    assert result.seconds == (111 - 100) + (509 - 500)


def test_a_worse_epoch_leaves_the_best_state_as_it_was(walks):
    fit = Fit(config_of(), walks, device="cpu")
    fit.next_epoch()
    fit._best_score = 2.0  # no epoch can be better
    best = {name: value.clone() for name, value in fit.state()["best"].items()}
    fit.next_epoch()
    state = fit.state()
    assert (state["epoch"], state["best_epoch"]) == (2, 1)
    assert all(torch.equal(state["best"][name], value) for name, value in best.items())
    assert any(not torch.equal(state["model"][name], value) for name, value in best.items())


def test_however_long_it_trains_there_is_one_file_of_one_size(walks, tmp_path):
    sizes = []

    def look(_):
        [file] = tmp_path.iterdir()
        sizes.append(file.stat().st_size)

    train(config_of(), walks, report=look, checkpoint=tmp_path / "trial")
    assert len(sizes) == 6
    assert max(sizes) < 1.1 * min(sizes)  # a few numbers more for each report


@pytest.mark.parametrize(
    "damaged",
    [
        lambda whole: whole[:0],
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:999] + bytes([whole[999] ^ 1]) + whole[1000:],
        lambda whole: b"not a checkpoint" + whole,
    ],
    ids=["empty", "cut", "one bit", "text"],
)
def test_a_damaged_checkpoint_is_not_used_and_the_result_is_the_same(walks, tmp_path, damaged):
    path = tmp_path / "trial"
    expected = numbers(*trained(config_of(epochs=2), walks, path))
    path.write_bytes(damaged(path.read_bytes()))
    assert load(path, identity="any", device="cpu") is None
    assert numbers(*trained(config_of(epochs=2), walks, path)) == expected


def test_a_checkpoint_of_another_configuration_is_refused_and_kept(walks, tmp_path):
    path = tmp_path / "trial"
    trained(config_of(epochs=1), walks, path)
    before = path.read_bytes()
    with pytest.raises(RequestError, match=r"another trial's in .*trial; name another file"):
        trained(config_of(epochs=1, seed=1), walks, path)
    assert path.read_bytes() == before


def test_a_checkpoint_of_other_data_is_refused(walks, tmp_path):
    trained(config_of(epochs=1), walks, tmp_path / "trial")
    other = dataclasses.replace(walks, fingerprint="1" * 64)
    with pytest.raises(RequestError, match="another trial's"):
        trained(config_of(epochs=1), other, tmp_path / "trial")


def test_what_another_kind_of_device_left_is_not_used(tmp_path):
    save(tmp_path / "trial", {"epoch": 3}, identity="same", device="cuda")
    assert load(tmp_path / "trial", identity="same", device="cpu") is None
    assert load(tmp_path / "trial", identity="same", device="cuda")["epoch"] == 3


def test_no_checkpoint_is_no_state(tmp_path):
    assert load(tmp_path / "none", identity="any", device="cpu") is None


def test_a_write_that_is_cut_off_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    path = tmp_path / "trial"
    save(path, {"epoch": 1}, identity="same", device="cpu")

    def crash(_):
        raise OSError("the machine is gone")

    monkeypatch.setattr("os.fsync", crash)
    with pytest.raises(OSError, match="gone"):
        save(path, {"epoch": 2}, identity="same", device="cpu")
    assert load(path, identity="same", device="cpu")["epoch"] == 1


def test_generators_continue_where_they_were(tmp_path):
    rng = np.random.default_rng(3)
    rng.random(5)
    save(tmp_path / "trial", {"order": rng.bit_generator.state}, identity="same", device="cpu")
    again = np.random.default_rng(0)
    again.bit_generator.state = load(tmp_path / "trial", identity="same", device="cpu")["order"]
    assert again.random() == rng.random()
