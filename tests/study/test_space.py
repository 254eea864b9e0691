"""The factors follow `model.config`, and subsets have one order and one name."""

from math import comb

import pytest

from model.config import (
    EMBEDDINGS,
    EvaluationConfig,
    MeantimeConfig,
    TrainingConfig,
    TrialConfig,
)
from study.space import (
    FACTORS,
    all_subsets,
    as_heads,
    canonical,
    label,
    resolve_heads,
)


def test_every_field_of_a_trial_that_a_study_can_vary_is_a_factor():
    fields = {*MeantimeConfig.model_fields, *TrainingConfig.model_fields}
    fields |= set(EvaluationConfig.model_fields)
    assert set(FACTORS) == fields - {"name", "embeddings"}
    assert len(FACTORS) == 18


def test_a_factor_knows_its_section_and_default():
    for name, factor in FACTORS.items():
        section = TrialConfig.model_fields[factor.section].annotation
        assert section.model_fields[name].default == factor.default
    assert (FACTORS["lr"].section, FACTORS["lr"].default) == ("training", 1e-3)


def test_there_are_63_subsets_small_before_large_and_all_different():
    subsets = all_subsets()
    assert len(subsets) == sum(comb(6, k) for k in range(1, 7)) == 63
    assert len(set(subsets)) == 63
    assert [len(subset) for subset in subsets] == sorted(len(subset) for subset in subsets)
    assert subsets[0] == ("day",)
    assert subsets[-1] == EMBEDDINGS
    assert all(canonical(subset) == subset for subset in subsets)


def test_labels_are_in_canonical_order_and_unique():
    assert label(["log", "sin", "pos", "day"]) == "Day+Pos+Sin+Log"
    assert label([]) == "none"
    assert len({label(subset) for subset in ((), *all_subsets())}) == 64


@pytest.mark.parametrize(
    ("heads", "subset", "n"),
    [(6, ("day",), 6), ("per-embedding", ("day", "log"), 2), ("per-embedding", (), 0), (2, (), 2)],
)
def test_heads_resolve_to_a_number(heads, subset, n):
    assert resolve_heads(as_heads(heads), subset) == n
