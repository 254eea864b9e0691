"""The evaluator's own test passes for ours and catches each fault that it is there for."""

import time
from dataclasses import replace

import numpy as np
import pytest

from model.errors import Diverged, RequestError
from model.evaluate import evaluate
from model.selftest import check_evaluator


def optimistic(*args, **options):
    """Ties are broken for the target: constant scores look perfect."""
    return tuple(replace(r, equal=np.zeros_like(r.equal)) for r in evaluate(*args, **options))


def pessimistic(*args, **options):
    return tuple(
        replace(r, greater=r.greater + r.equal, equal=np.zeros_like(r.equal))
        for r in evaluate(*args, **options)
    )


def first_fifty(model, data, split, **options):
    """Half of the negatives are forgotten."""
    some = {"popular-100": data.negatives["popular-100"].copy()}
    some["popular-100"][:, 50:] = 0
    return evaluate(model, replace(data, negatives=some), split, **options)


def by_place(model, data, split, **options):
    """The first candidate always loses."""
    found = evaluate(model, data, split, **options)
    first = data.negatives["popular-100"][:, 0] % 2
    return tuple(
        replace(r, greater=np.maximum(r.greater - (r.greater > 0) * first, 0).astype(np.int32))
        for r in found
    )


def by_number_at_once(model, data, split, *, limits=None, **options):
    found = evaluate(model, data, split, limits=limits, **options)
    if limits is None:
        return found
    return tuple(replace(r, greater=r.greater + (r.greater > 0).astype(np.int32)) for r in found)


def forgiving(*args, **options):
    """NaN ranks last."""
    try:
        return evaluate(*args, **options)
    except Diverged:
        return ()


FAULTS = [
    (optimistic, "each negative must be a candidate, once"),
    (pessimistic, "equal scores must rank nobody above the target"),
    (first_fifty, "each negative must be a candidate, once"),
    (by_place, "the order of candidates must not matter"),
    (by_number_at_once, "the number of users ranked at once must not matter"),
    (forgiving, "a score that is NaN must be refused, not ranked"),
]


def test_our_evaluator_passes_within_a_second_or_two():
    check_evaluator()
    started = time.process_time()
    check_evaluator()
    assert time.process_time() - started < 1


@pytest.mark.parametrize(("broken", "rule"), FAULTS)
def test_a_broken_evaluator_is_refused_with_the_rule_that_it_breaks(broken, rule):
    with pytest.raises(RequestError, match=f"failed its own test: {rule}; nothing was trained"):
        check_evaluator(broken)
