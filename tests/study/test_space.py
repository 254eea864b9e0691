"""The factors follow `model.config`, and subsets have one order and one name."""

from math import comb

import pytest

from model.config import EMBEDDINGS, MODELS, EvaluationConfig, TrainingConfig, TrialConfig
from study.space import (
    FACTORS,
    READ,
    all_subsets,
    as_heads,
    canonical,
    label,
    resolve_heads,
)


def test_every_field_of_a_trial_that_a_study_can_vary_is_a_factor():
    fields = {name for config in MODELS.values() for name in config.model_fields}
    fields |= {*TrainingConfig.model_fields, *EvaluationConfig.model_fields}
    assert set(FACTORS) == fields - {"name", "embeddings"}
    assert len(FACTORS) == 29


def test_a_factor_knows_its_section_and_by_model_its_default():
    for name, factor in FACTORS.items():
        for model, default in factor.defaults.items():
            section = {"model": MODELS[model]}.get(
                factor.section, TrialConfig.model_fields[factor.section].annotation
            )
            assert section.model_fields[name].default == default
    assert FACTORS["heads"].defaults == {
        "meantime": 4,
        **dict.fromkeys(("bert4rec", "tisasrec", "sasrec", "cta", "transformer"), 2),
    }
    assert (FACTORS["lr"].section, FACTORS["lr"].defaults["sasrec"]) == ("training", 1e-3)


def test_models_read_different_factors():
    assert READ["popularity"] == ("protocol", "repeats")
    assert READ["item_knn"] == ("max_len", "neighbours", "decay", "protocol", "repeats")
    assert READ["bptf"][:4] == ("hidden", "bins", "zero_weight", "samples")
    assert "mask_probability" in READ["bert4rec"]
    assert "mask_probability" not in READ["sasrec"]
    assert "train_window" not in READ["marank"]
    timed = ["meantime", "cta", "time_lstm", "timesvd", "bptf"]
    assert [model for model in MODELS if "target_time" in READ[model]] == timed


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
    [
        (6, ("day",), 6),
        ("per-embedding", ("day", "log"), 2),
        ("per-embedding", (), 0),
        (2, (), 2),
        ("per-embedding", None, 0),
    ],
)
def test_heads_resolve_to_a_number(heads, subset, n):
    assert resolve_heads(as_heads(heads), subset) == n
