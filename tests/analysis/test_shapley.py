import itertools
import math

import numpy as np
import pytest

from analysis.coalitions import interaction_weights, main_effect_weights, shapley_weights, subsets
from analysis.families import pooled
from analysis.per_user import Arm
from analysis.resampling import resample
from analysis.shapley import attribution, game, resampled
from analysis.statistics import TOO_FEW_SEEDS
from model.config import EMBEDDINGS
from model.errors import RequestError
from study.space import label

PAIRS = list(itertools.combinations(EMBEDDINGS, 2))


def studied(worth, *, seeds=3, users=40, noise=0.0, seed=0):
    """64 arms: `worth` of a subset for everyone, plus noise of users, seeds and the rest."""
    generator = np.random.default_rng(seed)
    user = generator.normal(0, 0.1, users)
    return [
        Arm(
            "ml-100k",
            label(members),
            (),
            tuple(range(seeds)),
            worth(members)
            + user
            + noise * generator.normal(0, 0.3, (seeds, 1))
            + noise * generator.normal(0, 1, (seeds, users)),
            seeds,
        )
        for members in subsets(EMBEDDINGS)
    ]


def uneven(members):
    """A game without structure: every subset has a worth of its own."""
    code = sum(1 << EMBEDDINGS.index(name) for name in members)
    return math.sin(3.0 * code) + 0.1 * code


def by_permutations(worth, player):
    """The definition: the mean gain over all 720 orders, in plain loops."""
    total = 0.0
    for order in itertools.permutations(EMBEDDINGS):
        before = frozenset(order[: order.index(player)])
        total += worth(before | {player}) - worth(before)
    return total / 720


def values(found, kind):
    return {one.members: one.value for one in found.of(kind)}


def test_shapley_values_are_the_mean_over_all_720_orders():
    found = attribution(game(studied(uneven)))
    shapley = values(found, "shapley")
    assert len(shapley) == 6
    for player in EMBEDDINGS:
        assert shapley[player,] == pytest.approx(by_permutations(uneven, player))


def test_shapley_values_add_up_to_the_gain_of_the_full_set():
    found = attribution(game(studied(uneven, noise=0.2)))
    assert sum(values(found, "shapley").values()) == pytest.approx(found.total)
    full, none = frozenset(EMBEDDINGS), frozenset()
    exact = attribution(game(studied(uneven)))
    assert exact.total == pytest.approx(uneven(full) - uneven(none))


def test_two_embeddings_that_do_the_same_get_the_same():
    def worth(members):
        return 0.2 * len(members & {"sin", "exp"}) ** 0.5 + 0.1 * ("pos" in members)

    shapley = values(attribution(game(studied(worth))), "shapley")
    assert shapley["sin",] == pytest.approx(shapley["exp",])
    assert shapley["pos",] == pytest.approx(0.1)


def test_an_embedding_that_adds_nothing_gets_nothing_and_cons_interval_says_so():
    def worth(members):
        return 0.3 * ("pos" in members) + 0.2 * len(members & {"day", "log"}) ** 2

    found = attribution(game(studied(worth, noise=0.01)))
    con = next(one for one in found.of("shapley") if one.members == ("con",))
    assert con.comparison.interval.low < 0 < con.comparison.interval.high
    assert "covers 0" in found.null_player
    assert con.adjusted > 0.05
    exact = attribution(game(studied(worth)))
    assert values(exact, "shapley")["con",] == pytest.approx(0)


def test_main_effects_average_over_all_subsets_of_the_others():
    found = values(attribution(game(studied(uneven))), "main effect")
    for player in EMBEDDINGS:
        others = [name for name in EMBEDDINGS if name != player]
        gains = [uneven(one | {player}) - uneven(one) for one in subsets(others)]
        assert len(gains) == 32
        assert found[player,] == pytest.approx(sum(gains) / 32)


def test_leave_one_out_and_add_one_in_are_single_differences():
    found = attribution(game(studied(uneven)))
    full = frozenset(EMBEDDINGS)
    for player in EMBEDDINGS:
        lost = uneven(full) - uneven(full - {player})
        gained = uneven(frozenset({player})) - uneven(frozenset())
        assert values(found, "leave one out")[player,] == pytest.approx(lost)
        assert values(found, "add one in")[player,] == pytest.approx(gained)


def test_two_that_only_work_together_interact_and_others_do_not():
    found = attribution(game(studied(lambda members: 0.5 * ({"day", "pos"} <= members))))
    interactions = values(found, "interaction")
    assert len(interactions) == 15
    assert interactions["day", "pos"] == pytest.approx(0.5)
    assert all(
        value == pytest.approx(0) for pair, value in interactions.items() if pair != ("day", "pos")
    )


def test_an_interaction_is_the_mean_second_difference_over_orders_of_five():
    # Grabisch and Roubens: the pair enters as one player among the other four.
    def second_difference(others, i, j):
        return (
            uneven(others | {i, j}) - uneven(others | {i}) - uneven(others | {j}) + uneven(others)
        )

    found = values(attribution(game(studied(uneven))), "interaction")
    for i, j in (("day", "log"), ("pos", "con")):
        rest = [name for name in EMBEDDINGS if name not in (i, j)]
        orders = list(itertools.permutations([*rest, "pair"]))
        assert len(orders) == 120
        mean = sum(
            second_difference(frozenset(order[: order.index("pair")]), i, j) for order in orders
        )
        assert found[i, j] == pytest.approx(mean / 120)


@pytest.mark.parametrize("weights", [shapley_weights, main_effect_weights])
def test_weights_add_up_to_zero_and_gains_to_one(weights):
    for player in EMBEDDINGS:
        found = weights(player, EMBEDDINGS)
        assert len(found) == 64
        assert sum(found.values()) == pytest.approx(0)
        assert sum(w for members, w in found.items() if player in members) == pytest.approx(1)
    assert all(len(interaction_weights(pair, EMBEDDINGS)) == 64 for pair in PAIRS)


def test_one_resample_serves_all_coalitions_so_that_draws_stay_efficient():
    played = game(studied(uneven, noise=0.5, seeds=6))
    drawn = resample(np.random.default_rng(1), seeds=6, users=40, repeats=25)
    full, none = frozenset(EMBEDDINGS), frozenset()
    totals = resampled(played, {full: 1.0, none: -1.0}, drawn)
    shapley = sum(
        resampled(played, shapley_weights(player, EMBEDDINGS), drawn) for player in EMBEDDINGS
    )
    assert shapley == pytest.approx(totals)
    assert totals.std() > 0


def test_missing_subsets_leave_values_unidentified_and_say_which():
    arms = [
        arm if arm.subset != "Day+Log" else arm._replace(seeds=(), values=np.zeros((0, 0)))
        for arm in studied(uneven)
    ]
    found = attribution(game(arms))
    assert found.missing == ("Day+Log",)
    for one in (*found.of("shapley"), *found.of("main effect"), *found.of("interaction")):
        assert math.isnan(one.value)
        assert math.isnan(one.adjusted)
        assert one.reason == (
            "not identified: needs 64 subsets, of which 1 have no complete trial (Day+Log)"
        )
    assert all(one.reason == "" for one in found.of("leave one out"))
    assert all(one.reason == "" for one in found.of("add one in"))


def test_one_seed_gives_values_and_no_claim():
    found = attribution(game(studied(uneven, seeds=1, noise=0.1)))
    for one in found.of("shapley"):
        assert one.reason == TOO_FEW_SEEDS
        assert math.isnan(one.adjusted)
        assert one.comparison.interval.varies == "users"


def test_pooling_over_64_arms_gives_two_seeds_63_degrees_of_freedom():
    arms = studied(uneven, seeds=2, noise=0.1)
    pool = pooled(arms)
    found = attribution(game(arms), pool=pool)
    assert pool.df == 63
    for one in found.of("shapley"):
        assert one.comparison.components.error.seed_df == 63
        squares = sum(w**2 for w in shapley_weights(one.members[0], EMBEDDINGS).values())
        assert one.comparison.components.error.seed_part == pytest.approx(
            squares * pool.variance / 2
        )
    assert "63 degrees of freedom" in found.pooling


def test_subsets_are_taken_at_one_point_and_on_shared_seeds():
    arms = studied(uneven)
    with pytest.raises(RequestError, match="got Day at several"):
        game([*arms, arms[1]])
    fewer = [arms[0]._replace(seeds=(1, 2), values=arms[0].values[1:]), *arms[1:]]
    assert game(fewer).seeds == (1, 2)
    with pytest.raises(RequestError, match="complete seed in common"):
        game([])
