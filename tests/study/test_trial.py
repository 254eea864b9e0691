"""Equal trainings have equal ids, different ones different ids, and an id gives its trial back."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.config import (
    MODELS,
    DatasetConfig,
    EvaluationConfig,
    MeantimeConfig,
    SyntheticConfig,
    TrainingConfig,
    TrialConfig,
)
from study.space import FACTORS, READ, all_subsets
from study.trial import NUMERICS, SCHEME, arm, effective, trial_id, unread

DATASET = DatasetConfig(name="ml-100k")
DEFAULTS = {name: FACTORS[name].defaults["meantime"] for name in READ["meantime"]} | {"heads": 6}
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
    "protocol": "full",
    "repeats": "allowed",
}
"""For every factor of MEANTIME a legal value that is not its default."""

OTHER_MODELS = {
    "loss": "softmax",
    "negatives": 5,
    "max_interval": 64,
    "variant": 1,
    "history": 4,
    "neighbours": 20,
    "decay": 0.1,
    "heads": 4,
    "bins": 8,
    "zero_weight": 0.5,
    "samples": 5,
}
"""The same for factors that only other models read, and for a number of heads that divides h."""


def id_of(embeddings=FULL, *, seed=0, dataset=DATASET, **factors):
    return made(embeddings, seed=seed, dataset=dataset, **factors).id


def made(embeddings=FULL, *, seed=0, dataset=DATASET, **factors):
    return arm(dataset, "meantime", embeddings=embeddings, factors=DEFAULTS | factors).trial(seed)


def of_model(model, *, seed=0, **factors):
    values = {name: FACTORS[name].defaults[model] for name in READ[model]} | factors
    embeddings = FULL[:2] if model == "meantime" else None
    return arm(DATASET, model, embeddings=embeddings, factors=values).trial(seed)


def test_an_id_is_pinned_so_that_stored_results_stay_findable():
    # Changing this expectation orphans every stored result: raise SCHEME or NUMERICS on purpose.
    assert (SCHEME, NUMERICS) == (1, 3)
    assert id_of(("day", "pos"), heads=4, lr=1e-5) == "8bbdd62dc030d2ac"


def test_an_id_is_the_hash_of_canonical_json_whichever_way_it_is_made():
    trial = made(("day", "log"), seed=7)
    assert trial.id == trial_id(trial.effective)
    assert trial_id(json.loads(json.dumps(trial.effective))) == trial.id
    assert len(trial.id) == 16
    assert int(trial.id, 16) >= 0


@pytest.mark.parametrize("name", READ["meantime"])
def test_every_factor_that_is_read_changes_the_id(name):
    assert set(OTHER) == set(READ["meantime"])
    assert OTHER[name] != DEFAULTS[name]
    assert id_of(**{name: OTHER[name]}) != id_of()


def test_seed_subset_dataset_and_preparation_change_the_id():
    other_data = [
        DatasetConfig(name="ml-1m"),
        DatasetConfig(name="ml-100k", core="iterate"),
        DatasetConfig(name="ml-100k", min_interactions=6),
        DatasetConfig(name="ml-100k", min_rating=4.0),
        DatasetConfig(name="ml-100k", synthetic=SyntheticConfig(recipe="planted-order")),
        DatasetConfig(name="ml-100k", synthetic=SyntheticConfig(recipe="planted-order", seed=1)),
    ]
    ids = [id_of(), id_of(seed=1), id_of(("day",)), id_of(())]
    ids += [id_of(dataset=dataset) for dataset in other_data]
    assert len(set(ids)) == 4 + 6


@pytest.mark.parametrize("version", ["scheme", "numerics"])
def test_the_versions_of_scheme_and_numerics_are_part_of_the_id(version):
    trial = made()
    now = trial.effective[version]
    assert now == {"scheme": SCHEME, "numerics": NUMERICS}[version]
    assert trial_id({**trial.effective, version: now + 1}) != trial.id


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
    known = unread("meantime", embeddings, factors={**DEFAULTS, **given})
    assert known & set(READ["meantime"]) == idle
    base = id_of(embeddings, **given)
    unchanged = {
        name
        for name in READ["meantime"]
        if name not in ("dropout", "epochs")
        and id_of(embeddings, **{**given, name: OTHER[name]}) == base
    }
    assert unchanged == idle


def test_an_unread_patience_lets_every_epoch_be_trained():
    trial = made(epochs=50, patience=60)
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
    trial = made(subset, seed=seed, **{name: OTHER[name] for name in changed})
    config = trial.config()
    assert effective(config) == trial.effective
    assert (config.model.embeddings, config.seed) == (subset, seed)
    for name, value in trial.factors.items():
        if value is not None:
            assert getattr(getattr(config, FACTORS[name].section), name) == value


def test_a_trial_says_what_it_is():
    trial = made(("day", "pos"), seed=3, heads="per-embedding")
    assert (trial.dataset, trial.model, trial.label, trial.seed) == (
        "ml-100k",
        "meantime",
        "Day+Pos",
        3,
    )
    assert trial.embeddings == ("day", "pos")
    assert trial.factors["heads"] == 2
    assert trial.factors["tau"] is None
    assert list(trial.factors) == list(FACTORS)


def test_a_synthetic_dataset_survives_the_way_back():
    synthetic = DatasetConfig(
        name="toy", synthetic=SyntheticConfig(recipe="planted-order", users=9)
    )
    assert made(("pos",), dataset=synthetic).config().dataset == synthetic


def test_the_default_network_is_a_legal_trial():
    assert effective(TrialConfig(dataset=DATASET))["model"]["heads"] == MeantimeConfig().heads


def test_every_model_has_trials_of_its_own():
    trials = {model: of_model(model) for model in MODELS}
    assert len({trial.id for trial in trials.values()}) == len(MODELS) == 12
    for model, trial in trials.items():
        config = trial.config()
        assert (trial.model, config.model.name) == (model, model)
        assert isinstance(config.model, MODELS[model])
        assert effective(config) == trial.effective
        assert (trial.embeddings is None) == (model != "meantime")
    assert (trials["sasrec"].label, trials["sasrec"].title) == ("", "sasrec")
    assert trials["meantime"].title == "Day+Pos"


@pytest.mark.parametrize(
    ("model", "name"), [(m, n) for m in MODELS if m != "meantime" for n in READ[m]]
)
def test_every_factor_that_another_model_reads_changes_its_id(model, name):
    other = {**OTHER, **OTHER_MODELS}[name]
    assert of_model(model, **{name: other}).id != of_model(model).id


def test_what_a_model_does_not_read_is_no_part_of_it():
    assert set(of_model("popularity").effective["training"]) == set()
    assert of_model("popularity").factors == {
        name: {"protocol": "popular-100", "repeats": "excluded"}.get(name) for name in FACTORS
    }
    sasrec = of_model("sasrec").effective
    assert "embeddings" not in sasrec["model"]
    assert "mask_probability" not in sasrec["training"]
    assert (
        of_model("sasrec", loss="softmax", negatives=9).id == of_model("sasrec", loss="softmax").id
    )


def test_a_seed_is_part_of_the_id_even_where_nothing_is_drawn():
    # So that every seed of a study has its floor: comparisons are paired by seed.
    assert of_model("popularity", seed=0).id != of_model("popularity", seed=1).id
