"""What every model promises, whatever it is: one class of tests, run for each of them."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from model.build import build
from model.config import (
    MODELS,
    TIMED_MODELS,
    Bert4recConfig,
    BptfConfig,
    CtaConfig,
    DatasetConfig,
    EvaluationConfig,
    ItemKnnConfig,
    MarankConfig,
    MeantimeConfig,
    PopularityConfig,
    SasrecConfig,
    TimeLstmConfig,
    TimesvdConfig,
    TisasrecConfig,
    TrainingConfig,
    TransformerConfig,
    TrialConfig,
)
from model.data.batches import evaluation_batch
from model.errors import Diverged
from model.evaluate import evaluate
from model.metrics import summarise
from model.network import Network, Sampled
from model.next_item import without_target
from model.randomness import numpy_generator
from model.sizes import DataSize, n_parameters, training_bytes
from model.train import Fit, fit_epoch, train

SMALL = {"hidden": 16, "dropout": 0.1}
EVEN = {**SMALL, "heads": 2, "layers": 2, "max_len": 12}

CONFIGS = {
    "meantime": MeantimeConfig(embeddings=("day", "pos", "log"), **{**EVEN, "heads": 3}),
    "bert4rec": Bert4recConfig(**EVEN),
    "tisasrec": TisasrecConfig(**EVEN, max_interval=8),
    "sasrec": SasrecConfig(**EVEN),
    "sasrec-softmax": SasrecConfig(**EVEN, loss="softmax"),
    "sasrec-many": SasrecConfig(**EVEN, negatives=8),
    "marank": MarankConfig(**SMALL),
    "cta": CtaConfig(**EVEN),
    "time_lstm-1": TimeLstmConfig(**SMALL, max_len=12, variant=1),
    "time_lstm-2": TimeLstmConfig(**SMALL, max_len=12, variant=2, loss="softmax"),
    "time_lstm-3": TimeLstmConfig(**SMALL, max_len=12, variant=3),
    "transformer": TransformerConfig(**EVEN),
    "timesvd": TimesvdConfig(hidden=16, bins=4),
    "bptf": BptfConfig(hidden=8, bins=4, zero_weight=1.0, samples=20),
    "item_knn": ItemKnnConfig(max_len=12, neighbours=20, decay=0.1),
    "popularity": PopularityConfig(),
}
TRAINED = [name for name, config in CONFIGS.items() if config.training_factors]
BY_GRADIENT = [name for name in TRAINED if name != "bptf"]
LOOKING_BACK = [name for name, config in CONFIGS.items() if config.name not in TIMED_MODELS]
LOOKING_AHEAD = ["cta", "time_lstm-1", "time_lstm-2", "time_lstm-3"]
"""Causal, but told when the next event comes."""
CAUSAL = ["sasrec", "sasrec-softmax", "sasrec-many", "tisasrec"]

EPOCHS = {"marank": 20, "bptf": 20, "meantime": 300, "bert4rec": 200}
"""Until eight users are known by heart: a cloze shows few positions at a time."""

N_ITEMS, N_EVENTS = 40, 14


def built(name, data):
    """Build a model; one whose factors are drawn has drawn them twice, or it would know nothing."""
    model = build(CONFIGS[name], data, seed=3)
    if isinstance(model, Sampled):
        for _ in range(2):
            model.sweep(numpy_generator(3, "sweeps"))
    return model


@pytest.fixture(scope="module")
def eight(prepared_of):
    """Eight users with histories of their own, in which no item comes twice."""
    rng = np.random.default_rng(5)
    walks = [rng.permutation(N_ITEMS)[: N_EVENTS - u % 3] + 1 for u in range(8)]
    data = prepared_of([walk.tolist() for walk in walks], n_items=N_ITEMS)
    gaps = rng.integers(0, 5, size=len(data.items)) * 40_000
    times = np.concatenate([np.cumsum(g) for g in np.split(gaps, data.offsets[1:-1])])
    days = (times // 86_400).astype(np.int32)
    return replace(data, timestamps=times, days=days, n_days=int(days.max()) + 1)


def trial(name, *, seed=0, **training):
    chosen = {"batch": 8, "epochs": 4, "lr": 0.01} | training
    return TrialConfig(
        dataset=DatasetConfig(name="small"),
        model=CONFIGS[name],
        training=TrainingConfig(**chosen),
        seed=seed,
    )


def ignore(report):
    del report


def counts(result):
    return [(r.split, r.protocol, r.greater.tolist(), r.equal.tolist()) for r in result.ranks]


def shown(name, data, *, users=None):
    users = np.arange(data.n_users) if users is None else users
    span = CONFIGS[name].span
    return evaluation_batch(data, "test", users, max_len=span, target_time="actual")


def with_old_padding(batch, columns):
    """Return the batch with more padding before every sequence."""

    def wider(name, tensor):
        first = tensor[:, :1].expand(-1, columns)
        return torch.cat([torch.zeros_like(first) if name == "items" else first, tensor], dim=1)

    return replace(batch, **{f.name: wider(f.name, getattr(batch, f.name)) for f in fields(batch)})


def test_every_model_is_under_the_contract():
    assert {config.name for config in CONFIGS.values()} == set(MODELS)
    assert (len(TRAINED), len(BY_GRADIENT)) == (14, 13)


class TestEveryModel:
    @pytest.fixture(params=CONFIGS)
    def name(self, request):
        return request.param

    @pytest.fixture
    def model(self, name, eight):
        return built(name, eight)

    def test_it_has_a_complete_result_for_a_seed_again_and_again(self, name, eight):
        reports = []
        first = train(trial(name), eight, report=reports.append)
        again = train(trial(name), eight, report=ignore)
        assert counts(first) == counts(again)
        assert [(r.split, r.protocol) for r in first.ranks] == [
            ("validation", "popular-100"),
            ("validation", "full"),
            ("test", "popular-100"),
            ("test", "full"),
        ]
        assert [report.epoch for report in reports] == list(range(1, first.epochs + 1))
        assert 1 <= first.best_epoch <= first.epochs
        found = {m.metric for m in reports[0].metrics if m.split == "validation"}
        assert "ndcg@10" in found

    def test_scores_do_not_depend_on_who_else_is_scored(self, name, model, eight):
        together = model.all_scores(model.state(shown(name, eight)))
        for user in (0, 5):
            alone = model.all_scores(model.state(shown(name, eight, users=np.array([user]))))
            torch.testing.assert_close(alone[0], together[user], rtol=1e-5, atol=1e-6)

    def test_scores_do_not_depend_on_padding(self, name, model, eight):
        batch = shown(name, eight, users=np.array([0, 1]))
        short = replace(batch, **{f.name: getattr(batch, f.name)[:, -3:] for f in fields(batch)})
        if CONFIGS[name].span < 6:
            return  # nothing that it reads can be padded
        plain = model.all_scores(model.state(short))
        padded = model.all_scores(model.state(with_old_padding(short, 3)))
        torch.testing.assert_close(padded[:, 1:], plain[:, 1:], rtol=1e-5, atol=1e-6)

    def test_candidates_have_the_scores_of_all_items_in_any_order(self, name, model, eight):
        state = model.state(shown(name, eight))
        candidates = torch.stack([torch.randperm(N_ITEMS) + 1 for _ in range(8)])
        expected = model.all_scores(state).gather(1, candidates)
        found = model.candidate_scores(state, candidates)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)

    def test_scores_are_finite_and_of_every_item(self, name, model, eight):
        scores = model.all_scores(model.state(shown(name, eight)))
        assert scores.shape == (8, N_ITEMS + 1)
        assert scores.isfinite().all()

    def test_its_size_is_known_to_the_planner(self, name, model, eight):
        size = DataSize(eight.n_users, eight.n_items, eight.n_days, len(eight.items))
        counted = 0
        if isinstance(model, Network | Sampled):
            counted = sum(p.numel() for p in model.parameters())
        assert n_parameters(CONFIGS[name], size) == counted
        few, many = (
            training_bytes(CONFIGS[name], TrainingConfig(batch=64), data=replace(size, n_items=n))
            for n in (100, 10_000)
        )
        assert 4 * counted < few
        assert few < many or name == "popularity"


class TestTrainedModels:
    @pytest.fixture(params=TRAINED)
    def name(self, request):
        return request.param

    @pytest.mark.slow
    def test_it_learns_the_next_items_of_eight_users_by_heart(self, name, eight):
        exact = CONFIGS[name]
        if "dropout" in type(exact).model_fields:
            exact = exact.model_copy(update={"dropout": 0.0})
        config = trial(name, mask_probability=0.5).model_copy(update={"model": exact})
        fit = Fit(config, eight, device="cpu")
        for _ in range(EPOCHS.get(name, 150)):
            if isinstance(fit.model, Sampled):
                fit.model.sweep(fit._draws)
            else:
                fit_epoch(fit.model, fit._batches, optimizer=fit._optimizer, dropout=None)
        # Without its two newest events a user's target at test is one that was trained on.
        kept = np.arange(len(eight.items)) < np.repeat(
            eight.offsets[1:] - 2, np.diff(eight.offsets)
        )
        cut = replace(
            eight,
            offsets=eight.offsets - 2 * np.arange(9),
            **{field: getattr(eight, field)[kept] for field in ("items", "timestamps", "days")},
        )
        (ranks,) = evaluate(
            fit.model,
            cut,
            "test",
            protocols=("full",),
            evaluation=EvaluationConfig(),
            max_len=CONFIGS[name].span,
        )
        (ndcg,) = (m.value for m in summarise(ranks) if m.metric == "ndcg@10")
        # At random: 0.15. A mean over draws around a prior does not know eight users by heart.
        assert ndcg > (0.6 if name == "bptf" else 0.8)

    def test_another_seed_is_another_training(self, name, eight):
        first, other = (train(trial(name, seed=s), eight, report=ignore) for s in (0, 1))
        assert counts(first) != counts(other)

    def test_an_interrupted_training_ends_like_one_without_interruption(
        self, name, eight, tmp_path
    ):
        class Interrupted(Exception):
            pass

        def stop(report):
            if report.epoch == 2:
                raise Interrupted

        path = tmp_path / "checkpoint"
        with pytest.raises(Interrupted):
            train(trial(name), eight, report=stop, checkpoint=path)
        seen = []
        resumed = train(trial(name), eight, report=seen.append, checkpoint=path)
        whole_reports = []
        whole = train(trial(name), eight, report=whole_reports.append)
        assert counts(resumed) == counts(whole)
        assert [r.metrics for r in seen] == [r.metrics for r in whole_reports]
        assert len(seen) == 4

    def test_the_padding_row_is_zero_and_stays_zero(self, name, eight):
        fit = Fit(trial(name), eight, device="cpu")
        fit.next_epoch()
        assert not fit.model.item_embedding[0].any()


class TestModelsFittedByGradient:
    @pytest.fixture(params=BY_GRADIENT)
    def name(self, request):
        return request.param

    def test_numbers_that_explode_end_the_trial_in_words(self, name, eight):
        with pytest.raises(Diverged, match="must be finite"):
            train(trial(name, lr=1e38, epochs=3), eight, report=ignore)

    def test_parts_of_a_batch_add_up_to_its_gradient(self, name, eight, monkeypatch):
        from model import train
        from model.limits import LIMITS

        fit = Fit(trial(name), eight, device="cpu")
        (batch,) = list(fit._batches)[:1]
        whole = train.gradient(fit.model, batch, None)
        expected = [p.grad.clone() for p in fit.model.parameters() if p.grad is not None]
        few = replace(LIMITS["cpu"], sequences=2)
        monkeypatch.setitem(train.LIMITS, "cpu", few)
        fit.model.zero_grad()
        cut = train.gradient(fit.model, batch, None)
        torch.testing.assert_close(cut, whole)
        found = [p.grad for p in fit.model.parameters() if p.grad is not None]
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_factors_that_are_no_numbers_end_the_trial_in_words(eight):
    fit = Fit(trial("bptf"), eight, device="cpu")
    fit.next_epoch()
    fit.model.user_embedding[3, 0] = torch.nan
    with pytest.raises(Diverged, match="must be finite"):
        fit.next_epoch()


@pytest.mark.parametrize("name", CAUSAL)
def test_a_later_event_never_changes_what_was_said_before(name, eight):
    model = build(CONFIGS[name], eight, seed=3)
    batch = without_target(shown(name, eight))
    before = model.hidden(batch)
    for changed in (5, 9):
        items, times = batch.items.clone(), batch.times.clone()
        items[:, changed:] = items[:, changed:] % N_ITEMS + 1
        times[:, changed:] += 123_456
        after = model.hidden(replace(batch, items=items, times=times))
        moved = (after - before).abs().amax(dim=2) * (batch.items > 0)
        assert moved[:, :changed].max() < 1e-6
        assert moved[:, changed].max() > 1e-3


def test_the_decoder_sees_no_later_event_and_the_encoder_every_older_one(eight):
    model = build(CONFIGS["transformer"], eight, seed=3)
    batch = without_target(shown("transformer", eight))
    n_newer = CONFIGS["transformer"].asked
    assert n_newer == 6

    def moved(column):
        items = batch.items.clone()
        items[:, column] = items[:, column] % N_ITEMS + 1
        return (model.hidden(replace(batch, items=items)) - model.hidden(batch)).abs().amax((0, 2))

    for place in range(6):
        change = moved(6 + place)
        assert not change[:place].any()
        assert change[place] > 1e-3
    assert (moved(2) > 1e-5).all()
    alone = replace(batch, **{f.name: getattr(batch, f.name)[:, -6:] for f in fields(batch)})
    nothing_older = replace(batch, items=batch.items.clone())
    nothing_older.items[:, :6] = 0
    torch.testing.assert_close(model.hidden(nothing_older), model.hidden(alone))


@pytest.mark.parametrize("name", LOOKING_AHEAD)
def test_of_later_events_only_the_time_of_the_next_is_read(name, eight):
    model = build(CONFIGS[name], eight, seed=3)
    batch = without_target(shown(name, eight))
    times = torch.cat([batch.times[:, 1:], batch.times[:, -1:] + 9_000], dim=1)

    def hidden(items, next_times):
        seen = replace(batch, items=items)
        given = next_times if name == "cta" else next_times - batch.times
        return model.hidden(seen, given)

    before = hidden(batch.items, times)
    for changed in (5, 9):
        items, later = batch.items.clone(), times.clone()
        items[:, changed:] = items[:, changed:] % N_ITEMS + 1
        later[:, changed:] += 5_000_000
        moved = (hidden(items, later) - before).abs().amax(dim=2) * (batch.items > 0)
        assert moved[:, :changed].max() < 1e-6
        assert moved[:, changed].max() > 1e-4


@pytest.mark.parametrize("name", ["meantime", *LOOKING_AHEAD, "timesvd", "bptf"])
def test_the_time_of_the_target_is_read(name, eight):
    model = built(name, eight)
    batch = shown(name, eight)
    times = batch.times.clone()
    times[:, -1] += 10_000_000
    if name in {"timesvd", "bptf"}:
        times[:, -1] = eight.timestamps.min()  # what comes after the last bin belongs to it
    assert not torch.equal(model.state(batch), model.state(replace(batch, times=times)))


@pytest.mark.parametrize("name", LOOKING_BACK)
def test_the_time_of_the_target_is_not_read(name, eight):
    model = build(CONFIGS[name], eight, seed=3)
    batch = shown(name, eight)
    times, days = batch.times.clone(), batch.days.clone()
    times[:, -1] += 10_000_000
    days[:, -1] += 1
    first, other = model.state(batch), model.state(replace(batch, times=times, days=days))
    assert torch.equal(first, other)


def test_the_time_of_known_events_is_read_where_it_should_be(eight):
    for name, reads in [("tisasrec", True), ("item_knn", True), ("sasrec", False)]:
        model = build(CONFIGS[name], eight, seed=3)
        batch = shown(name, eight)
        times = batch.times.clone()
        times[:, :5] -= 1_000_000
        changes = not torch.equal(model.state(batch), model.state(replace(batch, times=times)))
        assert changes == reads
