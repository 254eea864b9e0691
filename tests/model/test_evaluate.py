import numpy as np
import pytest
import torch

from model.attention import attend
from model.build import build
from model.config import EvaluationConfig, MeantimeConfig
from model.errors import Diverged
from model.evaluate import evaluate
from model.limits import Limits
from model.metrics import recall_at
from model.results import PROTOCOLS


class ByItem:
    """Scores an item by a fixed number, whoever asks; remembers the inputs it was shown."""

    def __init__(self, scores):
        self.scores = torch.tensor([0.0, *scores])
        self.seen = []

    def state(self, batch):
        self.seen.append(batch)
        return torch.zeros(len(batch.items), 1)

    def candidate_scores(self, state, candidates):  # noqa: ARG002
        return self.scores[candidates]

    def all_scores(self, state):
        return self.scores.expand(len(state), -1)


def ranked(model, data, split, **options):
    evaluation = EvaluationConfig(**{k: v for k, v in options.items() if k == "repeats"})
    found = evaluate(
        model,
        data,
        split,
        protocols=options.get("protocols", PROTOCOLS),
        evaluation=evaluation,
        max_len=options.get("max_len", 4),
        limits=Limits(10**9, 10**9, sequences=options.get("batch", 2)),
    )
    return {r.protocol: (r.greater.tolist(), r.equal.tolist()) for r in found}


def test_candidates_above_and_equal_are_counted(prepared_of):
    data = prepared_of([[1, 2, 3, 4]], n_items=8, negatives=[[5, 6, 7, 8]])
    model = ByItem([0, 0, 0, 2, 1, 2, 3, 4])  # the test target, item 4, scores 2
    assert ranked(model, data, "test")["popular-100"] == ([2], [1])


def test_absent_negatives_are_no_candidates(prepared_of):
    data = prepared_of([[1, 2, 3, 4]], n_items=8, negatives=[[5, 6]])
    model = ByItem([0, 0, 0, 0, 0, 0, 0, 0])  # padding scores 0 too
    assert ranked(model, data, "test")["popular-100"] == ([0], [2])


def test_a_constant_scorer_gets_k_of_101_under_popular_100(prepared_of):
    data = prepared_of([[1, 2, 3, 4], [4, 3, 2, 1]], n_items=200)
    (ranks,) = evaluate(
        ByItem([7] * 200),
        data,
        "test",
        protocols=("popular-100",),
        evaluation=EvaluationConfig(),
        max_len=4,
    )
    assert recall_at(10, ranks.greater, equal=ranks.equal) == pytest.approx([10 / 101] * 2)


@pytest.mark.parametrize(
    ("split", "candidates"),
    [
        ("validation", [3, 4, 5, 6]),  # the target 3 and what comes later; 1 and 2 were seen
        ("test", [4, 5, 6]),  # the validation item 3 is part of the input by now
    ],
)
def test_full_ranks_all_items_but_those_before_the_target(prepared_of, split, candidates):
    data = prepared_of([[1, 2, 3, 4]], n_items=6)
    model = ByItem([9, 9, 9, 9, 9, 9])
    assert ranked(model, data, split)["full"] == ([0], [len(candidates) - 1])


def test_full_leaves_out_history_that_the_input_is_too_short_for(prepared_of):
    data = prepared_of([[1, 2, 3, 4, 5]], n_items=6)
    model = ByItem([9, 9, 9, 9, 1, 9])
    assert ranked(model, data, "test", max_len=2)["full"] == ([1], [0])  # item 6 alone


def test_a_repeated_target_stays_a_candidate(prepared_of):
    data = prepared_of([[1, 2, 3, 1]], n_items=6)
    model = ByItem([3, 9, 9, 3, 2, 4])
    assert ranked(model, data, "test")["full"] == ([1], [1])  # item 6 above, item 4 equal


def test_repeats_allowed_keeps_items_seen_before(prepared_of):
    data = prepared_of([[1, 2, 3, 4]], n_items=6)
    model = ByItem([9, 9, 9, 1, 0, 0])
    assert ranked(model, data, "test", repeats="allowed")["full"] == ([3], [0])
    assert ranked(model, data, "test", repeats="excluded")["full"] == ([0], [0])


def test_batch_size_and_order_of_negatives_do_not_matter(prepared_of):
    rng = np.random.default_rng(0)
    sequences = [rng.permutation(30)[:6] + 1 for _ in range(7)]
    data = prepared_of(sequences, n_items=30)
    turned = prepared_of(
        sequences,
        n_items=30,
        negatives=[row[row > 0][::-1] for row in data.negatives["popular-100"]],
    )
    model = ByItem(rng.integers(0, 5, size=30).astype(float))
    expected = ranked(model, data, "test", batch=7)
    assert ranked(model, data, "test", batch=1) == expected
    assert ranked(model, turned, "test", batch=3) == expected


def test_both_protocols_come_from_one_pass(prepared_of):
    data = prepared_of([[1, 2, 3]] * 5, n_items=6)
    model = ByItem([1, 2, 3, 4, 5, 6])
    ranked(model, data, "test", batch=2)
    assert [len(batch.items) for batch in model.seen] == [2, 2, 1]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("item", [3, 5], ids=["target", "candidate"])
def test_a_score_that_is_no_number_is_a_failure(prepared_of, protocol, bad, item):
    data = prepared_of([[1, 2, 3]], n_items=6)
    scores = [1.0] * 6
    scores[item - 1] = bad
    with pytest.raises(Diverged, match=protocol):
        ranked(ByItem(scores), data, "test", protocols=(protocol,))


def test_users_of_similar_length_go_together_and_come_back_in_order(prepared_of):
    lengths = [3, 9, 4, 9, 3, 5]
    data = prepared_of([range(1, n + 1) for n in lengths], n_items=12)
    model = ByItem(range(12))
    found = ranked(model, data, "test", max_len=8, batch=2)
    assert [tuple(batch.items.shape) for batch in model.seen] == [(2, 8), (2, 5), (2, 3)]
    assert found["full"][0] == [12 - n for n in lengths]  # every later item scores more


@pytest.mark.parametrize("limits", [Limits(1, 10**9, 99), Limits(200, 10**9, 99), None])
def test_ranks_of_a_network_do_not_depend_on_how_many_users_go_at_once(prepared_of, limits):
    rng = np.random.default_rng(0)
    data = prepared_of([rng.integers(1, 41, 3 + n % 9) for n in range(50)], n_items=40)
    config = MeantimeConfig(embeddings=("day", "pos", "sin", "log"), hidden=16, max_len=8)
    model = build(config, data, seed=0)
    expected, found = (
        evaluate(
            model,
            data,
            "test",
            protocols=PROTOCOLS,
            evaluation=EvaluationConfig(),
            max_len=8,
            limits=given,
        )
        for given in (Limits(10**9, 10**9, 99), limits)
    )
    for one, other in zip(expected, found, strict=True):
        assert one.greater.tolist() == other.greater.tolist()
        assert one.equal.tolist() == other.equal.tolist()


def test_fused_attention_is_the_attention_of_training():
    generator = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 2, 7, 5, generator=generator)
    relative = torch.randn(2, 7, 7, generator=generator)
    unseen = torch.zeros(2, 1, 7).masked_fill_(
        torch.arange(7) < torch.tensor([[[3]], [[0]]]), torch.finfo(torch.float32).min
    )
    for each in (None, relative):
        for hidden in (None, unseen):
            given = {"relative": each, "unseen": hidden, "rate": 0.2, "dropout": None}
            expected = attend(query, key, value, **given)
            with torch.inference_mode():
                fused = attend(query, key, value, **given)
            torch.testing.assert_close(fused, expected, rtol=1e-5, atol=1e-6)
