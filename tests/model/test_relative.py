import math

import pytest
import torch

from model.relative import (
    LONGEST_GAP_SECONDS,
    GapRelation,
    Gaps,
    SinRelation,
    knot_features,
    sin_frequencies,
)

HIDDEN, BASE = 16, 10000.0
YEARS = 365 * 86_400
SECONDS = torch.tensor(
    [
        [0, 0, 1, 2, 10, 60, 61, 3600, 86_400, YEARS],
        [5, 5, 5, 8, 9, 100, 101, 9999, YEARS, 20 * YEARS],
    ]
)


def moments(tau):
    return (SECONDS - SECONDS[:, -1:]).double() / tau


def relation(kind, tau, dtype=torch.float32):
    if kind == "sin":
        return SinRelation.of(moments(tau), sin_frequencies(HIDDEN, BASE), dtype=dtype)
    features = knot_features(kind, HIDDEN, base=BASE, tau=tau).to(dtype)
    return GapRelation(features, Gaps.of(moments(tau), tau, dtype=dtype))


def in_full(kind, tau):
    """r_ij as the paper writes it, (batch, time, time, hidden)."""
    d = (SECONDS[:, :, None] - SECONDS[:, None, :]).double()[..., None] / tau
    k = torch.arange(HIDDEN).double()
    if kind == "sin":
        phases = d * BASE ** (-2 * k[: HIDDEN // 2] / HIDDEN)
        return torch.cat([phases.sin(), phases.cos()], -1)
    products = d.abs() * BASE ** (-k / HIDDEN)
    return torch.exp(-products) if kind == "exp" else torch.log1p(products)


def draws():
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, 10, 4, generator=generator, dtype=torch.float64)
    return query, torch.randn(4, HIDDEN, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("tau", [1.0, 0.5, 86_400.0])
@pytest.mark.parametrize(("kind", "per_unit_of_u"), [("sin", 1e-6), ("exp", 5e-5), ("log", 5e-6)])
def test_scores_are_those_of_the_full_tensor(kind, per_unit_of_u, tau):
    query, weight = draws()
    u = query @ weight
    expected = torch.einsum("bih,bijh->bij", u, in_full(kind, tau))
    error = (relation(kind, tau, torch.float64).scores(query, weight) - expected).abs()
    assert (error <= per_unit_of_u * u.abs().sum(-1, keepdim=True)).all()
    in_32 = relation(kind, tau).scores(query.float(), weight.float()).double()
    assert ((in_32 - expected).abs() <= 1e-5 * u.abs().sum(-1, keepdim=True)).all()


@pytest.mark.parametrize("tau", [1.0, 0.5, 86_400.0])
@pytest.mark.parametrize(("kind", "most"), [("exp", 6e-5), ("log", 5e-6)])
def test_the_table_is_as_near_at_every_gap_and_feature(kind, most, tau):
    hidden = 64
    x = torch.expm1(torch.linspace(0, math.log1p(LONGEST_GAP_SECONDS / tau), 5001).double())
    pairs = torch.stack([torch.zeros_like(x), x], -1)  # sequences of two events, x apart
    features = knot_features(kind, hidden, base=BASE, tau=tau)
    found = GapRelation(features, Gaps.of(pairs, tau, dtype=torch.float64))
    for k in range(hidden):
        u = torch.zeros(len(x), 2, hidden, dtype=torch.float64)
        u[:, :, k] = 1
        products = x * BASE ** (-k / hidden)
        expected = torch.exp(-products) if kind == "exp" else torch.log1p(products)
        scores = found.scores(u, torch.eye(hidden).double())[:, 0, 1]
        assert (scores - expected).abs().max() <= most, k


@pytest.mark.parametrize("tau", [1.0, 86_400.0])
@pytest.mark.parametrize(("kind", "share"), [("sin", 1e-6), ("exp", 0.02), ("log", 0.02)])
def test_spreads_are_those_of_the_full_tensor(kind, share, tau):
    query, weight = draws()
    u = query @ weight
    expected = torch.einsum("bih,bijh->bij", u.square(), in_full(kind, tau).square()).sqrt()
    found = relation(kind, tau, torch.float64).spread(query, weight)
    largest = expected.amax(-1, keepdim=True)
    assert ((found - expected).abs() <= share * largest).all()


@pytest.mark.parametrize("kind", ["sin", "exp", "log"])
def test_gradients_of_scores_and_spreads_are_those_of_the_full_tensor(kind):
    r = in_full(kind, 1.0)
    for ours, full, share in [
        ("scores", lambda u: torch.einsum("bih,bijh->bij", u, r), 1e-4),
        ("spread", lambda u: torch.einsum("bih,bijh->bij", u**2, r**2).add(1e-12).sqrt(), 0.03),
    ]:
        query, weight = (x.requires_grad_() for x in draws())
        toward = torch.rand(2, 10, 10, generator=torch.Generator().manual_seed(3)).double()
        made = getattr(relation(kind, 1.0, torch.float64), ours)(query, weight)
        found = torch.autograd.grad((made * toward).sum(), (query, weight))
        expected = torch.autograd.grad((full(query @ weight) * toward).sum(), (query, weight))
        for mine, theirs in zip(found, expected, strict=True):
            assert (mine - theirs).abs().max() <= share * theirs.abs().max(), ours


@pytest.mark.parametrize("kind", ["sin", "exp", "log"])
def test_rows_are_the_queries_at_these_places(kind):
    query, weight = (x.float() for x in draws())
    columns = torch.tensor([[1, 9, 0], [3, 3, 8]])
    whole = relation(kind, 1.0)
    chosen = torch.stack([query[b, columns[b]] for b in range(2)])
    some = whole.rows(columns + torch.tensor([[0], [10]]))
    for found, full in [
        (some.scores(chosen, weight), whole.scores(query, weight)),
        (some.spread(chosen, weight), whole.spread(query, weight)),
    ]:
        expected = torch.stack([full[b, columns[b]] for b in range(2)])
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_gap_past_the_last_knot_counts_as_the_longest():
    far = torch.tensor([[0.0, LONGEST_GAP_SECONDS, 10 * LONGEST_GAP_SECONDS]]).double()
    features = knot_features("log", HIDDEN, base=BASE, tau=1.0)
    gaps = GapRelation(features, Gaps.of(far, 1.0, dtype=torch.float64))
    scores = gaps.scores(
        torch.eye(3, HIDDEN, dtype=torch.float64)[None], torch.eye(HIDDEN).double()
    )
    assert scores[0, 0, 1:].tolist() == pytest.approx([math.log1p(LONGEST_GAP_SECONDS)] * 2)
