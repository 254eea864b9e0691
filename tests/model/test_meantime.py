import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

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
    model = Meantime(config, n_items=N_ITEMS, n_days=N_DAYS, seed=seed)
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


YEARS = 365 * 86_400


@st.composite
def networks_and_batches(draw):
    """Any subset, number of heads and lengths; gaps of 0, 1 s to 20 years, in any mixture."""
    embeddings = tuple(e for e in ALL if draw(st.booleans(), label=e))
    heads = draw(st.integers(max(1, len(embeddings)), 7), label="heads")
    length = draw(st.integers(1, 7), label="length")
    lengths = draw(st.lists(st.integers(1, length), min_size=1, max_size=3), label="lengths")
    gap = st.one_of(
        st.just(0), st.integers(1, 100), st.integers(100, 10**6), st.integers(10**6, 20 * YEARS)
    )
    gaps = st.lists(gap, min_size=length, max_size=length)
    times = torch.tensor([draw(gaps, label="gaps") for _ in lengths]).cumsum(1)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99), label="seed"))
    shape = (len(lengths), length)
    absent = torch.arange(length) < length - torch.tensor(lengths)[:, None]
    items = torch.randint(1, N_ITEMS + 2, shape, generator=generator).masked_fill(absent, 0)
    labels = torch.randint(1, N_ITEMS + 1, shape, generator=generator)
    chosen = (torch.rand(shape, generator=generator) < 0.4) | (torch.arange(length) == length - 1)
    batch = TrainingBatch(items, times, times // 86_400 % N_DAYS, labels * (chosen & ~absent))
    return config_of(embeddings, heads=heads, hidden=14), batch


@settings(max_examples=25, deadline=None, derandomize=True)
@given(networks_and_batches())
def test_any_mixture_at_any_times_is_the_oracle_s(drawn):
    config, batch = drawn
    model = network_of(config, spread=0.3)
    weights = {n: p.detach().double() for n, p in model.named_parameters()}
    for name in list(weights):
        if name.partition(".attention.")[2].startswith(("key", "absolute_key", "relative_key")):
            bias = name.removesuffix("weight") + "bias"
            weights[bias] = torch.zeros(len(weights[name]), dtype=torch.float64)
    oracle = Reference(
        weights,
        list(config.embeddings),
        hidden_size=config.hidden,
        heads=config.heads,
        layers=config.layers,
        max_len=config.max_len,
    )
    expected = oracle.hidden(batch.items, batch.times, batch.days)
    real = batch.items > 0
    found = model.hidden(batch).double()
    torch.testing.assert_close(found[real], expected[real], rtol=0, atol=1e-4)
    logits = model.all_scores(model.head.state(expected[batch.labels > 0].float()))
    loss = torch.nn.functional.cross_entropy(logits, batch.labels[batch.labels > 0])
    assert model.loss(batch).item() == pytest.approx(loss.item(), abs=1e-4)


@pytest.mark.parametrize("embedding", ["day", "sin", "log"])
def test_in_bfloat16_the_loss_and_its_gradients_are_near(embedding):
    model, batch = network_of(config_of((embedding,), dropout=0.2), spread=0.2), training_batch()
    losses, gradients = [], []
    for reduced in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=reduced):
            loss = model.loss(batch, torch.Generator().manual_seed(0))
        loss.backward()
        losses.append(loss.item())
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.numel()]))
    assert losses[1] == pytest.approx(losses[0], rel=0.03)
    assert torch.cosine_similarity(*gradients, dim=0) > 0.98


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
                n = max(tensor.numel(), tensor.untyped_storage().nbytes() // tensor.itemsize)
                self.numel = max(self.numel, n)
        return made


@pytest.mark.parametrize("relative_dropout", ["entrywise", "feature"])
def test_no_tensor_is_as_large_as_batch_time_time_hidden(relative_dropout):
    n_rows, length, hidden = 2, 320, 64
    config = config_of(
        ALL,
        heads=8,
        hidden=hidden,
        max_len=length,
        dropout=0.2,
        relative_dropout=relative_dropout,
    )
    model, batch = network_of(config), training_batch(n_rows, length)
    batch = TrainingBatch(batch.items, batch.times, batch.days % N_DAYS, batch.labels)
    with Largest() as largest:
        model.loss(batch, torch.Generator().manual_seed(0)).backward()
    # The scores of one head are the largest there is: no tensor even holds those of all heads.
    assert largest.numel == n_rows * length * length


def test_building_leaves_global_generators_alone():
    before = torch.get_rng_state()
    network_of(config_of(ALL, heads=6))
    assert torch.equal(torch.get_rng_state(), before)
