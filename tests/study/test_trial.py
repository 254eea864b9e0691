"""Equal trainings have equal ids, different ones different ids, and an id gives its trial back."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.config import (
    DatasetConfig,
    EvaluationConfig,
    MeantimeConfig,
    SyntheticConfig,
    TrainingConfig,
    TrialConfig,
)
from study.space import FACTORS, all_subsets
from study.trial import NUMERICS, SCHEME, arm, effective, trial_id, unread

DATASET = DatasetConfig(name="ml-100k")
DEFAULTS = {name: factor.default for name, factor in FACTORS.items()} | {"heads": 6}
FULL = ("day", "pos", "con", "sin", "exp", "log")

OTHER = {
    "hidden": 32,
    "heads": 7,
    "layers": 3,
    "max_len": 51,
    "dropout": 0.3,
    "relative_dropout": "feature",
    "tau": 60.0,
    "frequency_base": 100.0,
    "train_window": 50,
    "mask_probability": 0.3,
    "batch": 128,
    "lr": 1e-4,
    "weight_decay": 1e-5,
    "epochs": 10,
    "patience": 5,
    "precision": "bfloat16",
    "target_time": "last",
    "repeats": "allowed",
}
"""For every factor a legal value that is not its default."""


def id_of(embeddings=FULL, *, seed=0, dataset=DATASET, **factors):
    return arm(dataset, embeddings, DEFAULTS | factors).trial(seed).id


def test_an_id_is_pinned_so_that_stored_results_stay_findable():
    # Changing this expectation orphans every stored result: raise SCHEME or NUMERICS on purpose.
    assert (SCHEME, NUMERICS) == (1, 2)
    assert id_of(("day", "pos"), heads=4, lr=1e-5) == "1f930e0cc0443090"


def test_an_id_is_the_hash_of_canonical_json_whichever_way_it_is_made():
    made = arm(DATASET, ("day", "log"), DEFAULTS).trial(7)
    assert made.id == trial_id(made.effective)
    assert trial_id(json.loads(json.dumps(made.effective))) == made.id
    assert len(made.id) == 16
    assert int(made.id, 16) >= 0


@pytest.mark.parametrize("name", FACTORS)
def test_every_factor_that_is_read_changes_the_id(name):
    assert set(OTHER) == set(FACTORS)
    assert OTHER[name] != DEFAULTS[name]
    assert id_of(**{name: OTHER[name]}) != id_of()


def test_seed_subset_dataset_and_preparation_change_the_id():
    other_data = [
        DatasetConfig(name="ml-1m"),
        DatasetConfig(name="ml-100k", core="iterate"),
        DatasetConfig(name="ml-100k", min_interactions=6),
        DatasetConfig(name="ml-100k", min_rating=4.0),
        DatasetConfig(name="ml-100k", synthetic=SyntheticConfig(recipe="order")),
        DatasetConfig(name="ml-100k", synthetic=SyntheticConfig(recipe="order", seed=1)),
    ]
    ids = [id_of(), id_of(seed=1), id_of(("day",)), id_of(())]
    ids += [id_of(dataset=dataset) for dataset in other_data]
    assert len(set(ids)) == 4 + 6


@pytest.mark.parametrize("version", ["scheme", "numerics"])
def test_the_versions_of_scheme_and_numerics_are_part_of_the_id(version):
    made = arm(DATASET, FULL, DEFAULTS).trial(0)
    now = made.effective[version]
    assert now == {"scheme": SCHEME, "numerics": NUMERICS}[version]
    assert trial_id({**made.effective, version: now + 1}) != made.id


@pytest.mark.parametrize(
    ("embeddings", "given", "idle"),
    [
        (("pos", "con"), {}, {"tau", "frequency_base", "relative_dropout", "target_time"}),
        ((), {}, {"tau", "frequency_base", "relative_dropout", "target_time"}),
        (("day",), {}, {"tau", "frequency_base", "relative_dropout"}),
        (("day", "log"), {"dropout": 0.0}, {"relative_dropout"}),
        (FULL, {"epochs": 3, "patience": 3}, {"patience"}),
        (FULL, {"epochs": 4, "patience": 3}, set()),
        (FULL, {}, set()),
    ],
)
def test_options_that_nothing_reads_leave_the_id_alone(embeddings, given, idle):
    assert unread(embeddings, {**DEFAULTS, **given}) == idle
    base = id_of(embeddings, **given)
    unchanged = {
        name
        for name in FACTORS
        if name not in ("dropout", "epochs")
        and id_of(embeddings, **{**given, name: OTHER[name]}) == base
    }
    assert unchanged == idle


def test_an_unread_patience_lets_every_epoch_be_trained():
    trial = arm(DATASET, FULL, {**DEFAULTS, "epochs": 50, "patience": 60}).trial(0)
    assert trial.config().training.patience == 50


@pytest.mark.parametrize(("spelling", "same"), [(0, 0.0), (-0.0, 0.0), (1e-5, 0.00001)])
def test_a_number_has_one_spelling(spelling, same):
    config = {"dataset": DATASET, "evaluation": EvaluationConfig()}
    ids = {
        trial_id(effective(TrialConfig(training=TrainingConfig(weight_decay=value), **config)))
        for value in (spelling, same)
    }
    assert len(ids) == 1


def test_per_embedding_and_the_same_number_of_heads_are_one_trial():
    assert id_of(("day", "log"), heads="per-embedding") == id_of(("day", "log"), heads=2)
    assert id_of(("day", "log"), heads="per-embedding") != id_of(("day", "log"), heads=3)


@settings(max_examples=50, deadline=None)
@given(
    subset=st.sampled_from([(), *all_subsets()]),
    seed=st.integers(0, 2**63 - 1),
    changed=st.sets(st.sampled_from(sorted(set(OTHER) - {"heads"}))),
)
def test_a_configuration_survives_the_way_to_an_effective_one_and_back(subset, seed, changed):
    made = arm(DATASET, subset, DEFAULTS | {name: OTHER[name] for name in changed}).trial(seed)
    config = made.config()
    assert effective(config) == made.effective
    assert (config.model.embeddings, config.seed) == (subset, seed)
    for name, value in made.factors.items():
        if value is not None:
            assert getattr(getattr(config, FACTORS[name].section), name) == value


def test_a_trial_says_what_it_is():
    made = arm(DATASET, ("day", "pos"), DEFAULTS | {"heads": "per-embedding"}).trial(3)
    assert (made.dataset, made.model, made.label, made.seed) == (
        "ml-100k",
        "meantime",
        "Day+Pos",
        3,
    )
    assert made.embeddings == ("day", "pos")
    assert made.factors["heads"] == 2
    assert made.factors["tau"] is None
    assert list(made.factors) == list(FACTORS)


def test_a_synthetic_dataset_survives_the_way_back():
    synthetic = DatasetConfig(name="toy", synthetic=SyntheticConfig(recipe="order", users=9))
    assert arm(synthetic, ("pos",), DEFAULTS).trial(0).config().dataset == synthetic


def test_the_default_network_is_a_legal_trial():
    assert effective(TrialConfig(dataset=DATASET))["model"]["heads"] == MeantimeConfig().heads
