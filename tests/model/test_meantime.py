import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from model.build import build
from model.config import MeantimeConfig
from model.data.batches import Batch, TrainingBatch
from model.meantime import Meantime, head_owners
from tests.reference_meantime import Reference

N_ITEMS, N_DAYS = 12, 40
ALL = ("day", "pos", "con", "sin", "exp", "log")


def config_of(embeddings, **fields):
    given = {"hidden": 12, "heads": 4, "max_len": 8, "dropout": 0.0, **fields}
    return MeantimeConfig(embeddings=embeddings, **given)


def network_of(config, seed=0, *, spread=None):
    """A new network; with `spread` its parameters are all redrawn, large enough to matter."""
    model = build(config, n_items=N_ITEMS, n_days=N_DAYS, seed=seed)
    if spread is not None:
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
    return model


def training_batch(n_rows=3, length=6, *, padded=2, seed=0):
    """Sequences of which all but the first start with padding; chosen positions everywhere."""
    generator = torch.Generator().manual_seed(seed)
    items = torch.randint(1, N_ITEMS + 2, (n_rows, length), generator=generator)
    items[1:, :padded] = 0
    gaps = torch.randint(0, 400_000, (n_rows, length), generator=generator)
    gaps[:, length // 2] = 0  # two events at the same second
    times = 1_000_000_000 + gaps.cumsum(1)
    labels = torch.randint(1, N_ITEMS + 1, (n_rows, length), generator=generator)
    chosen = torch.rand(n_rows, length, generator=generator) < 0.4
    chosen[0, -1] = True
    days = (times - times.min()) // 86_400
    return TrainingBatch(items, times, days, labels * (chosen & (items > 0)))


MIXTURES = [
    config_of((), heads=3),
    config_of(("pos",), heads=4),
    config_of(("con", "log"), heads=2, tau=3600.0),
    config_of(("day", "sin"), heads=3, layers=3, frequency_base=500.0),
    config_of(ALL, heads=6, hidden=20),  # 20 // 6 = 3: two channels do not exist
    config_of(ALL, heads=7, hidden=14, layers=1),
]


@pytest.mark.parametrize("config", MIXTURES, ids=lambda c: f"{'+'.join(c.embeddings)}-{c.heads}")
def test_outputs_and_gradients_are_the_oracle_s(config):
    model = network_of(config, spread=0.3).double()
    batch = training_batch()
    weights = {n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}
    # The oracle has the biases on the key's side; whatever they are, they change nothing.
    generator = torch.Generator().manual_seed(2)
    idle = {
        name.removesuffix("weight") + "bias": torch.randn(
            len(weight), generator=generator, dtype=torch.float64
        )
        for name, weight in weights.items()
        if name.partition(".attention.")[2].startswith(("key", "absolute_key", "relative_key"))
    }
    oracle = Reference(
        weights | idle,
        list(config.embeddings),
        hidden_size=config.hidden,
        heads=config.heads,
        layers=config.layers,
        max_len=config.max_len,
        tau=config.tau,
        frequency_base=config.frequency_base,
    )
    seen = (batch.items, batch.times, batch.days)
    real = batch.items > 0
    expected = oracle.hidden(*seen)
    torch.testing.assert_close(model.hidden(batch)[real], expected[real], rtol=0, atol=1e-5)
    in_32 = network_of(config, spread=0.3).hidden(batch).double()
    torch.testing.assert_close(in_32[real], expected[real], rtol=0, atol=1e-4)

    expected_loss, loss = oracle.loss(*seen, batch.labels), model.loss(batch)
    assert loss.item() == pytest.approx(expected_loss.item(), abs=1e-6)
    loss.backward()
    expected_loss.backward()
    for name, parameter in model.named_parameters():
        if parameter.numel():
            expected = weights[name].grad
            error = (parameter.grad - expected).abs().max()
            assert error <= 1e-4 * expected.abs().max() + 1e-8, name


def test_the_last_block_at_scored_positions_equals_the_whole_one():
    model, batch = network_of(config_of(ALL, heads=7, hidden=14), spread=0.3), training_batch()
    hidden = model.hidden(batch)
    chosen = batch.labels > 0
    logits = model.all_scores(model.head.state(hidden[chosen]))
    expected = torch.nn.functional.cross_entropy(logits, batch.labels[chosen])
    assert model.loss(batch).item() == pytest.approx(expected.item(), abs=1e-6)
    state = model.head.state(hidden[:, -1])
    torch.testing.assert_close(model.state(batch), state, rtol=1e-5, atol=1e-5)


def test_candidates_score_as_among_all_items():
    model, batch = network_of(config_of(("pos",)), spread=0.3), training_batch()
    state, candidates = model.state(batch), torch.tensor([[1, 5], [12, 12], [3, 0]])
    every = model.all_scores(state)
    assert every.shape == (3, N_ITEMS + 1)  # rows 0..I: [MASK] is no class
    found = model.candidate_scores(state, candidates)
    torch.testing.assert_close(found, every.gather(1, candidates), rtol=1e-5, atol=1e-5)


def test_a_longer_padding_changes_no_output():
    model, batch = network_of(config_of(ALL, heads=7, hidden=14), spread=0.3), training_batch()
    padded = Batch(
        items=torch.nn.functional.pad(batch.items, (2, 0)),
        times=torch.nn.functional.pad(batch.times, (2, 0)),
        days=torch.nn.functional.pad(batch.days, (2, 0)),
    )
    real = batch.items > 0
    cut, whole = model.hidden(batch), model.hidden(padded)[:, 2:]
    torch.testing.assert_close(whole[real], cut[real], rtol=1e-4, atol=1e-4)


def test_parts_that_subsets_share_start_equal():
    one = network_of(config_of(("pos",))).state_dict()
    more = network_of(config_of(("day", "pos", "log"))).state_dict()
    for name in ("item_embedding", "embedding.pos", "head.linear.weight"):
        assert torch.equal(one[name], more[name]), name
    for block in ("block.0", "block.1"):
        expand = f"{block}.feed_forward.expand.weight"
        assert torch.equal(one[expand], more[expand])
        for kind in ("absolute_query", "absolute_key"):
            name = f"{block}.attention.{kind}.pos.weight"
            assert torch.equal(one[name], more[name]), name
        for kind in ("query", "key", "value"):  # heads: pos, 3 content; day, pos, log, 1 content
            first, second = (s[f"{block}.attention.{kind}.weight"] for s in (one, more))
            assert torch.equal(first[0:3], second[3:6]), "pos"
            assert torch.equal(first[3:6], second[9:12]), "content.0"
        first, second = (s[f"{block}.attention.output.weight"] for s in (one, more))
        assert torch.equal(first[:, 0:3], second[:, 3:6])
    assert not torch.equal(one["block.0.attention.key.weight"], one["block.1.attention.key.weight"])


def test_another_seed_draws_other_weights():
    first, second = (network_of(config_of(("log",)), seed).state_dict() for seed in (0, 1))
    drawn = {n for n, v in first.items() if not torch.equal(v, second[n])}
    assert {n for n in first if "norm" not in n and not n.endswith(".bias")} == (
        drawn | {"head.item_bias"}
    )


def test_the_initial_spread_is_002():
    model = Meantime(
        MeantimeConfig(embeddings=ALL, heads=6, hidden=120), n_items=300, n_days=50, seed=0
    )
    assert model.item_embedding[0].eq(0).all()
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            assert parameter.eq(1).all(), name
        elif name.endswith("bias") and "relative" not in name:
            assert parameter.eq(0).all(), name
        else:
            n = parameter.numel()
            assert parameter.std().item() == pytest.approx(0.02, rel=4 / (2 * n) ** 0.5), name


def test_owners_without_embeddings_attend_by_content():
    assert head_owners(config_of((), heads=2)) == ["content.0", "content.1"]
    assert head_owners(config_of(ALL, heads=7, hidden=14)) == [*ALL, "content.0"]


def test_a_con_head_is_a_content_head_with_another_bias():
    con = network_of(config_of(("con",), heads=3), spread=0.3)
    content = network_of(config_of((), heads=3))
    state = con.state_dict()
    for block in range(2):
        name = f"block.{block}.attention"
        absolute = state[f"{name}.absolute_query.con.weight"] @ state["embedding.con"][0]
        shift = absolute + state[f"{name}.absolute_query.con.bias"]
        own, rest = state[f"{name}.query.bias"].split([4, 8])  # 12 // 3 heads
        state[f"{name}.query.bias"] = torch.cat([own + shift, rest])
    content.load_state_dict({n: v for n, v in state.items() if "con" not in n.split(".")})
    batch = training_batch()
    expected = con.hidden(batch)
    torch.testing.assert_close(content.hidden(batch), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("field", "value"),
    [("tau", 60.0), ("frequency_base", 100.0), ("layers", 1), ("heads", 5), ("hidden", 24)],
)
def test_every_field_reaches_the_network(field, value):
    batch = training_batch()
    first = network_of(config_of(("sin", "exp", "log")), spread=0.3)
    second = network_of(config_of(("sin", "exp", "log"), **{field: value}), spread=0.3)
    assert first.loss(batch).item() != second.loss(batch).item()


@pytest.mark.parametrize("embedding", ["day", "pos", "con", "sin", "exp", "log"])
def test_dropout_is_drawn_from_its_generator_alone(embedding):
    model = network_of(config_of((embedding,), dropout=0.3), spread=0.3)
    batch, before = training_batch(), torch.get_rng_state()
    same = [model.loss(batch, torch.Generator().manual_seed(4)).item() for _ in range(2)]
    other = model.loss(batch, torch.Generator().manual_seed(5)).item()
    assert same[0] == same[1] != other
    assert model.loss(batch).item() == model.loss(batch).item() != same[0]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("embedding", ["sin", "exp", "log"])
def test_entrywise_dropout_spreads_scores_as_masks_on_each_feature_do(embedding):
    rate, draws = 0.2, 4000
    config = config_of((embedding,), heads=1, dropout=rate)
    model, batch = network_of(config, spread=0.3), training_batch(n_rows=1, padded=0)
    relation = model.context(batch, None).relations[embedding]
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(1, 6, config.hidden, generator=generator)
    weight = torch.randn(config.hidden, config.hidden, generator=generator)
    attention = model.block[0].attention
    noisy = torch.stack(
        [
            attention.relative_scores(query, weight, relation=relation, dropout=generator)
            for _ in range(draws)
        ]
    )[:, 0]
    # r_ij in full: the score of each unit vector u.
    eye = torch.eye(config.hidden)
    r = torch.stack(
        [relation.scores(eye[f].expand(1, 6, -1), eye)[0] for f in range(config.hidden)], -1
    )
    u = (query @ weight)[0]
    masks = (torch.rand(draws, *r.shape, generator=generator) >= rate) / (1 - rate)
    masked = torch.einsum("if,nijf->nij", u, masks * r)
    for statistic in (
        lambda scores: scores,
        lambda scores: scores[:, :, 1:] - scores[:, :, :1],  # what a softmax sees
    ):
        ours, theirs = statistic(noisy), statistic(masked)
        error = 5 * theirs.std(0) / draws**0.5 + 1e-3
        assert ((ours.mean(0) - theirs.mean(0)).abs() <= 2 * error).all()
        assert ours.std(0).mean().item() == pytest.approx(theirs.std(0).mean().item(), rel=0.03)


def test_feature_dropout_is_common_to_all_keys():
    config = config_of(("log",), heads=1, dropout=0.5, relative_dropout="feature")
    model, batch = network_of(config, spread=0.3), training_batch(n_rows=1, padded=0)
    relation = model.context(batch, None).relations["log"]
    query, weight = torch.ones(1, 6, 12), torch.eye(12)
    generator = torch.Generator().manual_seed(0)
    scores = model.block[0].attention.relative_scores(
        query, weight, relation=relation, dropout=generator
    )
    # Positions 2 and 3 share a second: their features are equal, and so is what is dropped.
    torch.testing.assert_close(scores[:, :, 2], scores[:, :, 3])
    assert not torch.allclose(scores, relation.scores(query, weight))


def test_the_padding_row_takes_no_step():
    model, batch = network_of(config_of(("pos",))), training_batch()
    model.loss(batch).backward()
    assert model.item_embedding.grad[0].abs().max() > 0  # padding is a class of the head
    model.freeze_padding()
    assert model.item_embedding.grad[0].abs().max() == 0
    assert model.item_embedding.grad[1:].abs().max() > 0


class Largest(TorchDispatchMode):
    """Remembers the most entries of any tensor made while it is active."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, torch.Tensor):
                self.numel = max(self.numel, tensor.untyped_storage().nbytes() // 4)
        return made


def test_no_tensor_is_as_large_as_batch_time_time_hidden():
    length, hidden = 128, 64
    config = config_of(ALL, heads=8, hidden=hidden, max_len=length, dropout=0.2)
    model, batch = network_of(config), training_batch(2, length)
    batch = TrainingBatch(batch.items, batch.times, batch.days % N_DAYS, batch.labels)
    with Largest() as largest:
        model.loss(batch, torch.Generator().manual_seed(0)).backward()
    assert 2 * length * length <= largest.numel < 2 * length * length * hidden / 4


def test_building_leaves_global_generators_alone():
    before = torch.get_rng_state()
    network_of(config_of(ALL, heads=6))
    assert torch.equal(torch.get_rng_state(), before)
