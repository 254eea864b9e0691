import itertools

import numpy as np
import pytest
from scipy import stats

from analysis.error_distribution import TwoPartError
from analysis.power import POWER, reach, separated_by_chance, t_needed, t_needed_sentence
from analysis.statistics import Components


def found(*, mean, seeds, seed_part, user_part, users=900):
    error = TwoPartError(seed_part, seeds - 1.0, user_part, users - 1.0)
    return Components(mean, seeds, users, 0.0, 0.0, 0.0, error)


def test_three_seeds_and_62_comparisons_need_t_of_35():
    assert t_needed(seeds=3, family=62) == pytest.approx(stats.t.isf(0.05 / 62 / 2, 2))
    assert "|t| of about 35" in t_needed_sentence(seeds=3, family=62)
    assert "Holm over 1 comparison needs |t| of about 4.3" in t_needed_sentence(seeds=3, family=1)
    assert "no comparison is called significant" in t_needed_sentence(seeds=1, family=62)
    everything = found(mean=1.0, seeds=3, seed_part=0.04, user_part=0.0)
    assert reach(everything, family=62).t_needed == pytest.approx(35.2, rel=0.01)


def test_users_that_make_up_the_error_need_only_the_normal_t():
    users = found(mean=1.0, seeds=3, seed_part=0.0, user_part=0.04, users=10_000)
    assert reach(users, family=62).t_needed == pytest.approx(
        stats.norm.isf(0.05 / 62 / 2), rel=0.01
    )


@pytest.mark.parametrize("seeds", [2, 3, 4])
def test_separation_by_chance_is_counted(seeds):
    orders = list(itertools.combinations(range(2 * seeds), seeds))
    assert sum(min(order) >= seeds for order in orders) == 1
    assert separated_by_chance(seeds) == len(orders) == {2: 6, 3: 20, 4: 70}[seeds]


def test_a_difference_of_the_detectable_size_is_decided_in_four_of_five_studies():
    seeds, part = 6, 0.5
    size = reach(found(mean=0.0, seeds=seeds, seed_part=part, user_part=0.5), family=1).detectable
    generator = np.random.default_rng(0)
    users = generator.normal(0, np.sqrt(0.5), 4000)
    drawn = generator.normal(0, np.sqrt(part * seeds), (4000, seeds))
    from analysis.error_distribution import two_sided

    error = TwoPartError(drawn.var(axis=1, ddof=1) / seeds, seeds - 1.0, 0.5, 899.0)
    p = two_sided(size + users + drawn.mean(axis=1), error)
    assert (p < 0.05).mean() == pytest.approx(POWER, abs=0.06)


def test_seeds_to_settle_grow_as_the_difference_shrinks_until_the_users_forbid_it():
    def needed(mean):
        return reach(
            found(mean=mean, seeds=3, seed_part=0.02, user_part=0.001), family=10
        ).seeds_to_settle

    assert needed(2.0) < needed(0.5) < needed(0.2)
    # The users alone leave a standard error of .03: no number of seeds decides .01.
    assert needed(0.01) is None


def test_a_settled_comparison_needs_no_more_seeds_than_it_has():
    clear = found(mean=0.5, seeds=5, seed_part=0.0004, user_part=0.0004)
    assert reach(clear, family=1).seeds_to_settle <= 5
