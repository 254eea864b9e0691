from itertools import combinations

import numpy as np
import pytest

from analysis.per_user import Arm
from analysis.planted import planted_ruling, rulings
from model.config import EMBEDDINGS
from model.errors import RequestError
from study.space import label

N_USERS, N_SEEDS = 2_000, 3


def arms_with(gains, *, ways=("alone", "left out"), noise=0.1, seeds=N_SEEDS, substitutes=False):
    """Make arms whose mean is .4 plus what their embeddings give; Exp and Log once where so."""
    rng = np.random.default_rng(0)
    subsets = [(), *((name,) for name in EMBEDDINGS)]
    if "left out" in ways:
        subsets += [EMBEDDINGS, *combinations(EMBEDDINGS, 5), ("day", "pos", "con", "sin")]
    found = []
    for subset in subsets:
        mean = 0.4 + sum(gains.get(name, 0) for name in subset)
        if substitutes and {"exp", "log"} <= set(subset):
            mean -= gains["exp"]
        values = mean + noise * rng.standard_normal((seeds, N_USERS))
        values += 0.003 * rng.standard_normal((seeds, 1))
        found.append(Arm("d", label(subset), (), tuple(range(seeds)), values, seeds))
    return found


def ruled(arms):
    return {verdict.embedding: verdict.ruling for verdict in rulings(arms)}


ALL_NOTHING = dict.fromkeys(EMBEDDINGS, "nothing")


@pytest.mark.parametrize("ways", [("alone",), ("alone", "left out")])
@pytest.mark.parametrize("planted", ["day", "pos", "sin", "log"])
def test_the_one_that_helps_is_found_and_the_others_give_nothing(planted, ways):
    found = rulings(arms_with({planted: 0.2}, ways=ways))
    assert {v.embedding: v.ruling for v in found} == {**ALL_NOTHING, planted: "found"}
    assert all(planted_ruling(verdict, planted) for verdict in found)
    assert not all(planted_ruling(verdict, None) for verdict in found)
    assert [len(v.ways) for v in found] == [len(ways)] * 6
    (own,) = (v for v in found if v.embedding == planted)
    assert own.alone.mean == pytest.approx(0.2, abs=0.01)


def test_where_nothing_helps_every_upper_bound_is_below_two_hundredths():
    found = rulings(arms_with({}))
    assert {v.embedding: v.ruling for v in found} == ALL_NOTHING
    assert all(planted_ruling(verdict, None) for verdict in found)
    assert not all(planted_ruling(verdict, "pos") for verdict in found)


def test_a_gain_of_less_than_five_hundredths_is_not_found():
    assert ruled(arms_with({"pos": 0.04}))["pos"] == "undecided"


def test_what_helps_alone_but_can_be_left_out_is_not_found():
    arms = arms_with({"day": 0.2})
    (whole,) = (a.values for a in arms if a.subset == label(EMBEDDINGS))
    without = label(e for e in EMBEDDINGS if e != "day")
    arms = [a._replace(values=whole) if a.subset == without else a for a in arms]
    assert ruled(arms)["day"] == "undecided"


def test_a_second_helper_of_more_than_half_the_first_is_not_nothing():
    found = ruled(arms_with({"log": 0.2, "con": 0.12}))
    assert (found["log"], found["con"]) == ("found", "found")  # a control that contributes
    assert not all(planted_ruling(v, "log") for v in rulings(arms_with({"log": 0.2, "con": 0.12})))


def test_substitutes_are_judged_as_one_group():
    found = {v.embedding: v for v in rulings(arms_with({"exp": 0.2, "log": 0.2}, substitutes=True))}
    assert [found[name].ruling for name in ("exp", "log")] == ["found", "found"]
    assert found["exp"].as_group
    assert not found["sin"].as_group
    assert found["log"].left_out.mean == pytest.approx(0.2, abs=0.01)  # of both
    assert all(planted_ruling(verdict, "log") for verdict in found.values())
    assert not planted_ruling(found["exp"], "sin")


def test_noise_leaves_verdicts_undecided():
    found = ruled(arms_with({"pos": 0.2}, noise=8.0))
    assert set(found.values()) == {"undecided"}


def test_one_seed_supports_no_finding():
    assert "found" not in ruled(arms_with({"pos": 0.2}, seeds=1)).values()


def test_missing_and_double_arms_are_refused():
    arms = arms_with({})
    with pytest.raises(RequestError, match=r"need each of none, Day, .*, Log once on d, got"):
        rulings(arms[1:])
    with pytest.raises(RequestError, match="with one value for every factor"):
        rulings([*arms, arms[0]._replace(point=(("hidden", "8"),))])
