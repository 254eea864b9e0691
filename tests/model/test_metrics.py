from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.metrics import mrr, ndcg_at, recall_at, summarise
from model.results import Ranks


def counts(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def test_without_ties_the_metrics_are_the_textbook_ones():
    greater, equal = counts(0, 2, 9, 10), counts(0, 0, 0, 0)  # ranks 1, 3, 10, 11
    assert recall_at(10, greater, equal=equal).tolist() == [1, 1, 1, 0]
    assert recall_at(5, greater, equal=equal).tolist() == [1, 1, 0, 0]
    expected = [1, 1 / log2(4), 1 / log2(11), 0]
    assert ndcg_at(10, greater, equal=equal) == pytest.approx(expected, abs=1e-15)
    assert mrr(greater, equal) == pytest.approx([1, 1 / 3, 1 / 10, 1 / 11], abs=1e-15)


def test_a_constant_scorer_gets_k_of_c_candidates():
    greater, equal = counts(0), counts(100)  # 101 candidates, all equal
    assert recall_at(10, greater, equal=equal) == pytest.approx(10 / 101)
    gains = sum(1 / log2(rank + 1) for rank in range(1, 11))
    assert ndcg_at(10, greater, equal=equal) == pytest.approx(gains / 101)
    assert round(gains / 101, 4) == 0.0450
    assert mrr(greater, equal) == pytest.approx(sum(1 / r for r in range(1, 102)) / 101)


def test_a_tie_across_the_cut_counts_in_part():
    greater, equal = counts(8), counts(3)  # rank 9, 10, 11 or 12, each 1 in 4
    assert recall_at(10, greater, equal=equal) == pytest.approx(2 / 4)
    assert ndcg_at(10, greater, equal=equal) == pytest.approx((1 / log2(10) + 1 / log2(11)) / 4)
    assert mrr(greater, equal) == pytest.approx((1 / 9 + 1 / 10 + 1 / 11 + 1 / 12) / 4)


@given(st.integers(0, 150), st.integers(0, 150), st.integers(1, 30))
def test_metrics_are_means_over_the_tied_ranks(greater: int, equal: int, k: int):
    ranks = range(greater + 1, greater + equal + 2)
    g, e = counts(greater), counts(equal)
    hits = [rank <= k for rank in ranks]
    gains = [(rank <= k) / log2(rank + 1) for rank in ranks]
    assert recall_at(k, g, equal=e) == pytest.approx(np.mean(hits), abs=1e-12)
    assert ndcg_at(k, g, equal=e) == pytest.approx(np.mean(gains), abs=1e-12)
    assert mrr(g, e) == pytest.approx(np.mean([1 / rank for rank in ranks]), abs=1e-12)


@given(st.integers(0, 100), st.integers(0, 100))
def test_recall_grows_with_k(greater: int, equal: int):
    values = [recall_at(k, counts(greater), equal=counts(equal))[0] for k in range(1, 205)]
    assert values == sorted(values)
    assert values[-1] == 1


def test_a_summary_is_the_mean_over_users():
    ranks = Ranks("test", "full", greater=counts(0, 6), equal=counts(0, 0))  # ranks 1 and 7
    found = {(m.split, m.protocol, m.metric): m.value for m in summarise(ranks)}
    assert found == pytest.approx(
        {
            ("test", "full", "recall@5"): 1 / 2,
            ("test", "full", "recall@10"): 1,
            ("test", "full", "ndcg@5"): 1 / 2,
            ("test", "full", "ndcg@10"): (1 + 1 / log2(8)) / 2,
            ("test", "full", "mrr"): (1 + 1 / 7) / 2,
        }
    )
