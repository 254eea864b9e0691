"""`--set KEY=VALUE` names one trial, by the rules of the studies file."""

from pathlib import Path

import pytest

from model.errors import RequestError
from study.definition import StudyFile, load_studies
from study.plan import plan, single_trial


@pytest.fixture
def file(tmp_path: Path) -> StudyFile:
    path = tmp_path / "s.yaml"
    path.write_text(
        "datasets: {toy: {defaults: {max_len: 8}}, ml-100k: }\n"
        "defaults: {heads: 6, dropout: 0.4}\n"
        "studies:\n"
        "  one: {question: q, datasets: toy, embeddings: [[day, log]], seeds: [3],\n"
        "        grid: {lr: 1e-5}}\n",
        encoding="utf-8",
    )
    return load_studies(path)


def refusal(file, *settings):
    with pytest.raises(RequestError) as refused:
        single_trial(file, settings)
    return str(refused.value)


def test_settings_and_a_study_that_says_the_same_name_the_same_trial(file):
    trial = single_trial(file, ["dataset=toy", "embeddings=log+day", "lr=1E-05", "seed=3"])
    assert [trial.id] == list(plan(file.studies["one"], file).trials)
    assert (trial.label, trial.seed) == ("Day+Log", 3)
    assert (trial.factors["max_len"], trial.factors["dropout"], trial.factors["heads"]) == (
        8,
        0.4,
        6,
    )


@pytest.mark.parametrize(
    ("text", "label"),
    [("none", "none"), ("None", "none"), ("Day+Pos", "Day+Pos"), ("[pos, day]", "Day+Pos")],
)
def test_a_subset_is_written_as_its_label_or_a_list(file, text, label):
    assert single_trial(file, ["dataset=toy", f"embeddings={text}"]).label == label


def test_heads_may_be_per_embedding(file):
    settings = ["dataset=toy", "embeddings=day+log", "heads=per-embedding"]
    assert single_trial(file, settings).factors["heads"] == 2


def test_every_wrong_setting_is_said_at_once(file):
    message = refusal(
        file, "dataset=tyo", "hiden=8", "lr=fast", "embeddings=dya", "seed=-1", "heads=[1, 2]", "q"
    )
    lines = message.splitlines()
    assert len(lines) == 7
    assert "--set dataset: a data set must be declared in" in message
    assert "got 'tyo'; did you mean toy? known: toy, ml-100k" in message
    assert "--set hiden: a key must be dataset, model, embeddings, seed or a factor" in message
    assert "did you mean hidden?" in message
    assert "--set lr: must be a number, got 'fast'; write it in digits" in message
    assert "--set embeddings: must be one of day, pos, con, sin, exp, log, got 'dya'" in message
    assert "--set seed: must be at least 0, got -1; raise it" in message
    assert "--set heads: must be one value, got [1, 2]; write heads=VALUE" in message
    assert "--set q: must be KEY=VALUE, got no '='; write q=VALUE" in message


def test_a_dataset_must_be_named(file):
    assert refusal(file) == (
        "--set dataset: must be given; add --set dataset=NAME, declared: toy, ml-100k"
    )


def test_a_key_is_given_once_and_with_a_value(file):
    assert "--set lr: must be given once" in refusal(file, "dataset=toy", "lr=1", "lr=2")
    assert "--set lr: must be one value, got nothing" in refusal(file, "dataset=toy", "lr=")


def test_a_network_that_cannot_be_built_says_the_rule_and_legal_values(file):
    assert refusal(file, "dataset=toy", "embeddings=day+pos+log", "heads=2") == (
        "each embedding owns one head: 3 embeddings need at least 3 heads, got heads=2; "
        "use heads >= 3 or per-embedding"
    )


def test_another_model_takes_its_own_defaults_and_no_embeddings(file):
    trial = single_trial(file, ["dataset=toy", "model=sasrec", "heads=2", "loss=softmax"])
    assert (trial.model, trial.embeddings, trial.title) == ("sasrec", None, "sasrec")
    assert (trial.factors["max_len"], trial.factors["loss"]) == (8, "softmax")
    assert "--set embeddings: belongs to meantime" in refusal(
        file, "dataset=toy", "model=sasrec", "embeddings=day"
    )
    assert refusal(file, "dataset=toy", "model=bert4rec", "heads=2", "loss=softmax") == (
        "--set loss: none of the study's models (bert4rec) reads it; remove it, it belongs to "
        "tisasrec, sasrec, cta, time_lstm"
    )
    assert "--set model: must be one of meantime, bert4rec" in refusal(
        file, "dataset=toy", "model=sasrek"
    )
