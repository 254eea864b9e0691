"""A studies file is read whole, or every mistake in it is said at once with line and key."""

from pathlib import Path
from textwrap import dedent

import pytest

from model.config import MODELS, DatasetConfig, SyntheticConfig
from model.errors import RequestError
from study.definition import ModelChoice, Resources, Study, known_keys, load_studies, study_named
from study.space import FACTORS, all_subsets

SHIPPED = Path(__file__).parents[2] / "studies.yaml"

GOOD = """\
datasets:
  ml-100k:
  toy: {synthetic: {recipe: planted-order, users: 50}, defaults: {max_len: 8}}
defaults: {heads: 6, lr: 1e-3}
studies:
  first:
    question: Does it work?
    datasets: [ml-100k, toy]
    embeddings: [[log, day], none]
    grid: {hidden: [16, 32], weight_decay: [0, 1e-5], dropout: 0.1}
    seeds: [0, 1]
    search: grid
    stop_early: null
    resources: {cpus: 2, gpus: 0.25}
  second:
    question: Is less enough?
    datasets: toy
    embeddings: all-subsets
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def message_of(folder: Path, text: str) -> str:
    with pytest.raises(RequestError) as refused:
        load_studies(written(folder, text))
    return str(refused.value).replace(f"{folder}/", "")


def mistakes_of(folder: Path, text: str) -> list[str]:
    """Return the lines of the message without the heading."""
    return [line for line in message_of(folder, text).splitlines() if line.startswith("s.yaml:")]


def test_a_file_is_read_into_frozen_values(tmp_path):
    file = load_studies(written(tmp_path, GOOD))
    assert file.datasets == {
        "ml-100k": DatasetConfig(name="ml-100k"),
        "toy": DatasetConfig(
            name="toy", synthetic=SyntheticConfig(recipe="planted-order", users=50)
        ),
    }
    assert file.dataset_defaults == {"ml-100k": {}, "toy": {"max_len": 8}}
    assert file.defaults == {"heads": 6, "lr": 1e-3}
    assert file.studies["first"] == Study(
        name="first",
        question="Does it work?",
        datasets=("ml-100k", "toy"),
        embeddings=(("day", "log"), "none"),
        grid={"hidden": (16, 32), "dropout": (0.1,), "weight_decay": (0.0, 1e-5)},
        seeds=(0, 1),
        resources=Resources(cpus=2, gpus=0.25),
    )
    assert file.studies["first"].embeddings == (("day", "log"), ())


def test_what_a_study_leaves_out_has_a_default(tmp_path):
    second = load_studies(written(tmp_path, GOOD)).studies["second"]
    assert second.datasets == ("toy",)
    assert second.embeddings == all_subsets()
    assert (second.grid, second.seeds, second.search, second.stop_early) == ({}, (0,), "grid", None)
    assert second.resources == Resources(cpus=1, gpus=0.0)


def test_all_subsets_and_none_has_64(tmp_path):
    text = GOOD.replace("all-subsets", "all-subsets-and-none")
    assert load_studies(written(tmp_path, text)).studies["second"].embeddings == (
        (),
        *all_subsets(),
    )


def test_numbers_become_the_factor_s_own_type(tmp_path):
    grid = load_studies(written(tmp_path, GOOD)).studies["first"].grid
    assert [type(value) for value in grid["weight_decay"]] == [float, float]
    assert [type(value) for value in grid["hidden"]] == [int, int]


def test_a_definition_can_be_kept_as_json(tmp_path):
    first = load_studies(written(tmp_path, GOOD)).studies["first"]
    assert first.model_dump(mode="json") == {
        "name": "first",
        "question": "Does it work?",
        "datasets": ["ml-100k", "toy"],
        "models": {"meantime": {"embeddings": None, "grid": {}}},
        "embeddings": [["day", "log"], []],
        "grid": {"hidden": [16, 32], "dropout": [0.1], "weight_decay": [0.0, 1e-5]},
        "seeds": [0, 1],
        "search": "grid",
        "stop_early": None,
        "confirm": None,
        "screen": {},
        "resources": {"cpus": 2, "gpus": 0.25},
        "retries": {"oom": 1, "diverged": 0, "error": 0, "lost": 3},
        "storage": None,
    }


MISTAKES = [
    # (text replaced in GOOD, its replacement, line, key, rule and value, next step)
    (
        "hidden: [16, 32]",
        "hidden: [16, '32']",
        10,
        "studies.first.grid.hidden[1]",
        "must be a whole number, got '32'",
        "write it without quotes and leading zeros: 32",
    ),
    (
        "[0, 1e-5]",
        "[0, '1e-5']",
        10,
        "studies.first.grid.weight_decay[1]",
        "must be a number, got '1e-5'",
        "write it without quotes and leading zeros: 1e-05",
    ),
    (
        "[16, 32]",
        "[16, 032]",
        10,
        "studies.first.grid.hidden[1]",
        "must be a whole number, got '032'",
        "write it without quotes and leading zeros: 32",
    ),
    (
        "[16, 32]",
        "[16, 3.2e1]",
        10,
        "studies.first.grid.hidden[1]",
        "must be a whole number, got 32.0",
        "write 32",
    ),
    (
        "dropout: 0.1",
        "dropout: true",
        10,
        "studies.first.grid.dropout",
        "must be a number, got true",
        "write it in digits, such as 0.2 or 1e-5",
    ),
    (
        "[16, 32]",
        "[16, true]",
        10,
        "studies.first.grid.hidden[1]",
        "must be a whole number, got true",
        "write it in digits, such as 64",
    ),
    (
        "dropout: 0.1",
        "dropout: 1",
        10,
        "studies.first.grid.dropout",
        "must be less than 1, got 1",
        "lower it",
    ),
    (
        "dropout: 0.1",
        "tau: 0",
        10,
        "studies.first.grid.tau",
        "must be more than 0, got 0",
        "raise it",
    ),
    ("lr: 1e-3", "lr: 1e999", 4, "defaults.lr", "must be a number, got '1e999'", "write it in"),
    (
        "dropout: 0.1",
        "droput: 0.1",
        10,
        "studies.first.grid.droput",
        "unknown key",
        "did you mean dropout?",
    ),
    ("dropout: 0.1", "dropout:", 10, "studies.first.grid.dropout", "must have at least", "add one"),
    (
        "dropout: 0.1",
        "dropout: []",
        10,
        "studies.first.grid.dropout",
        "must have at least one value, got []",
        "add one",
    ),
    (
        "dropout: 0.1",
        "heads: [6, per-embeding]",
        10,
        "studies.first.grid.heads[1]",
        "must be a whole number of at least 1, or per-embedding, got 'per-embeding'",
        "write for example [6, per-embedding]",
    ),
    (
        "heads: 6",
        "heads: 0",
        4,
        "defaults.heads",
        "must be a whole number of at least 1, or per-embedding, got 0",
        "write for example [6, per-embedding]",
    ),
    (
        "lr: 1e-3",
        "lr: [1e-3, 1e-4]",
        4,
        "defaults.lr",
        "must be a number, got [0.001, 0.0001]",
        "write it in digits",
    ),
    (
        "dropout: 0.1",
        "target_time: Last",
        10,
        "studies.first.grid.target_time",
        "must be one of actual, last, got 'Last'",
        "did you mean last?",
    ),
    (
        "    seeds: [0, 1]",
        "    seed: [0, 1]",
        11,
        "studies.first.seed",
        "unknown key",
        "did you mean seeds?",
    ),
    (
        "dropout: 0.1",
        "seed: 0",
        10,
        "studies.first.grid.seed",
        "unknown key here",
        "write seeds one level up, beside grid",
    ),
    (
        "search: grid",
        "layers: 3",
        12,
        "studies.first.layers",
        "unknown key here",
        "move layers under grid",
    ),
    ("seeds: [0, 1]", "seeds: 2", 11, "studies.first.seeds", "must be a list, got 2", "brackets"),
    (
        "seeds: [0, 1]",
        "seeds: [0, -1]",
        11,
        "studies.first.seeds[1]",
        "must be at least 0, got -1",
        "raise it",
    ),
    ("seeds: [0, 1]", "seeds: []", 11, "studies.first.seeds", "must have at least one", "add one"),
    (
        "Does it work?",
        "2024",
        7,
        "studies.first.question",
        "must be text, got 2024",
        "put it in quotes",
    ),
    (
        "Does it work?",
        "''",
        7,
        "studies.first.question",
        "must not be empty, got ''",
        "write a sentence",
    ),
    (
        "    question: Does it work?\n",
        "",
        6,
        "studies.first.question",
        "this key must be given, it is missing",
        "add question:",
    ),
    (
        "[ml-100k, toy]",
        "[ml-100k, ml-10k]",
        8,
        "studies.first.datasets[1]",
        "a data set must be declared under datasets, got 'ml-10k'",
        "did you mean ml-100k? known: ml-100k, toy",
    ),
    (
        "datasets: toy",
        "datasets: toys",
        17,
        "studies.second.datasets",
        "a data set must be declared under datasets, got 'toys'",
        "did you mean toy?",
    ),
    (
        "[log, day]",
        "[log, position]",
        9,
        "studies.first.embeddings[0][1]",
        "must be one of day, pos, con, sin, exp, log, got 'position'",
        "did you mean pos?",
    ),
    (
        "[log, day]",
        "[log, log]",
        9,
        "studies.first.embeddings[0]",
        "a subset must name each embedding once, got ['log', 'log']",
        "remove the repeated one",
    ),
    (
        "[[log, day], none]",
        "[[log, day], pos]",
        9,
        "studies.first.embeddings[1]",
        "each subset must be a list of embeddings, or none, got 'pos'",
        "write [[day, pos]] for one subset",
    ),
    (
        "embeddings: all-subsets",
        "embeddings: every-subset",
        18,
        "studies.second.embeddings",
        "must be all-subsets, all-subsets-and-none or a list of subsets, got 'every-subset'",
        "write for example",
    ),
    (
        "embeddings: all-subsets",
        "embeddings: []",
        18,
        "studies.second.embeddings",
        "must have at least one value, got []",
        "add one",
    ),
    (
        "search: grid",
        "search: random",
        12,
        "studies.first.search",
        "must be grid, or a sampler and a budget, got 'random'",
        "{optuna: tpe, trials_per_arm: 16}",
    ),
    (
        "search: grid",
        "search: {optuna: tpo, trials_per_arm: 16}",
        12,
        "studies.first.search.optuna",
        "must be one of tpe, gp, random, qmc, brute, got 'tpo'",
        "did you mean tpe?",
    ),
    (
        "search: grid",
        "search: {optuna: tpe, trials_per_arm: 16, failed: forgotten}",
        12,
        "studies.first.search.failed",
        "must be one of counted, replaced, got 'forgotten'",
        "use one of them",
    ),
    (
        "stop_early: null",
        "stop_early: {asha: {}, hyperband: {}}",
        13,
        "studies.first.stop_early",
        "must name one rule, asha or hyperband",
        "write {asha: {grace: 10}}",
    ),
    (
        "stop_early: null",
        "stop_early: {asha: {reduction: 1}}",
        13,
        "studies.first.stop_early.asha.reduction",
        "must be at least 2, got 1",
        "raise it",
    ),
    (
        "stop_early: null",
        "screen: {epochs: 3}",
        13,
        "studies.first.screen",
        "settings for screening need a confirmation in full",
        "add confirm: {best: 2, seeds: [..]}",
    ),
    (
        "cpus: 2",
        "cpu: 2",
        14,
        "studies.first.resources.cpu",
        "unknown key",
        "did you mean cpus?",
    ),
    (
        "cpus: 2",
        "cpus: 0.5",
        14,
        "studies.first.resources.cpus",
        "must be a whole number, got 0.5",
        "write it in digits",
    ),
    (
        "gpus: 0.25",
        "gpus: 1.5",
        14,
        "studies.first.resources.gpus",
        "must be a share up to 1, or a whole number of GPUs, got 1.5",
        "round it",
    ),
    (
        "recipe: planted-order",
        "recipe: random",
        3,
        "datasets.toy.synthetic.recipe",
        "must be one of planted-day, planted-period, planted-recency, planted-order, "
        "planted-none, got 'random'",
        "use one of them",
    ),
    (
        "users: 50",
        "user: 50",
        3,
        "datasets.toy.synthetic.user",
        "unknown key",
        "did you mean users?",
    ),
    (
        "max_len: 8",
        "max_len: 1",
        3,
        "datasets.toy.defaults.max_len",
        "must be at least 2, got 1",
        "raise it",
    ),
    (
        "  ml-100k:\n",
        "  ml-100k: {core: twice}\n",
        2,
        "datasets.ml-100k.core",
        "must be one of once, iterate, got 'twice'",
        "use one of them",
    ),
    (
        "  ml-100k:\n",
        "  ml-100k: {name: other}\n",
        2,
        "datasets.ml-100k.name",
        "unknown key",
        "remove name",
    ),
    (
        "  ml-100k:\n",
        "  ml-100k: 5\n",
        2,
        "datasets.ml-100k",
        "must be a mapping of keys to values, got 5",
        "write key: value pairs below it",
    ),
    (
        "  second:",
        "  ../second:",
        15,
        "studies.../second",
        "a name must be letters, digits, '.', '_' or '-', and start with a letter or digit",
        "rename it",
    ),
    (
        "  second:",
        "  first:",
        15,
        "studies.first",
        "a key must be given once, got it again after line 6",
        "remove one",
    ),
    ("\ndefaults:", "\ndefault:", 4, "default", "unknown key", "did you mean defaults?"),
]


def test_the_list_of_mistakes_is_whole():
    assert len(MISTAKES) == 50
    assert all(old in GOOD for old, *_ in MISTAKES)


@pytest.mark.parametrize(("old", "new", "line", "key", "rule", "step"), MISTAKES)
def test_a_mistake_says_line_key_rule_value_and_next_step(
    tmp_path, old, new, line, key, rule, step
):
    (mistake,) = mistakes_of(tmp_path, GOOD.replace(old, new, 1))
    assert mistake.startswith(f"s.yaml:{line}: {key}: {rule}")
    said, _, advice = mistake.partition("; ")
    assert step in advice
    assert "Input should" not in said


def test_all_mistakes_are_said_at_once_in_the_file_s_order(tmp_path):
    text = (
        GOOD.replace("lr: 1e-3", "lr: fast")
        .replace("[ml-100k, toy]", "[ml-1m]")
        .replace("hidden: [16, 32]", "hidden: [wide, 0]")
        .replace("    question: Is less enough?\n", "")
        .replace("resources:", "seeds: [3]\n    resource:")
    )
    message = message_of(tmp_path, text)
    assert message.splitlines()[0] == "7 mistakes in s.yaml; nothing was done"
    places = [line.split(": ")[:2] for line in message.splitlines()[1:]]
    assert places == [
        ["s.yaml:4", "defaults.lr"],
        ["s.yaml:8", "studies.first.datasets[0]"],
        ["s.yaml:10", "studies.first.grid.hidden[0]"],
        ["s.yaml:10", "studies.first.grid.hidden[1]"],
        ["s.yaml:14", "studies.first.seeds"],
        ["s.yaml:15", "studies.first.resource"],
        ["s.yaml:16", "studies.second.question"],
    ]


def test_a_single_mistake_is_one_line(tmp_path):
    assert message_of(tmp_path, GOOD.replace("seeds:", "seed:")).count("\n") == 0


def test_text_that_is_no_yaml_is_refused_with_its_line(tmp_path):
    assert message_of(tmp_path, GOOD.replace("[16, 32]", "[16, 32")).startswith("s.yaml:")
    assert "not valid YAML" in message_of(tmp_path, GOOD + "\tx: 1\n")


@pytest.mark.parametrize("text", ["", "# nothing\n", "[1, 2]\n", "studies\n"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path, text):
    assert "must be a mapping of keys to values" in message_of(tmp_path, text)


def test_missing_sections_are_each_named(tmp_path):
    assert mistakes_of(tmp_path, "defaults: {}\n") == [
        "s.yaml:1: datasets: this key must be given, it is missing; add datasets:",
        "s.yaml:1: studies: this key must be given, it is missing; add studies:",
    ]


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(RequestError, match=r"there is no .*absent\.yaml; name the file with -f"):
        load_studies(tmp_path / "absent.yaml")
    with pytest.raises(RequestError, match="must be readable"):
        load_studies(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("question: café\n".encode("latin-1"))
    with pytest.raises(RequestError, match="must be text in UTF-8, byte 13 is not"):
        load_studies(tmp_path / "latin.yaml")


def test_an_unknown_study_is_refused_with_a_suggestion_and_the_names(tmp_path):
    file = load_studies(written(tmp_path, GOOD))
    assert study_named(file, "first").question == "Does it work?"
    with pytest.raises(RequestError) as refused:
        study_named(file, "frist")
    assert "got 'frist'; did you mean first? declared studies: first, second" in str(refused.value)


def test_every_mapping_with_fixed_keys_is_known_to_the_advice():
    paths = [
        (),
        ("defaults",),
        ("datasets", "x"),
        ("datasets", "x", "defaults"),
        ("datasets", "x", "synthetic"),
        ("studies", "x"),
        ("studies", "x", "grid"),
        ("studies", "x", "resources"),
    ]
    assert all(known_keys(path) for path in paths)
    assert known_keys(("studies", "x", "grid")) == tuple(FACTORS)
    assert known_keys(("studies",)) == known_keys(("datasets",)) == ()


@pytest.mark.parametrize("name", FACTORS)
def test_every_factor_can_be_a_default_and_be_swept(tmp_path, name):
    model, value = next(iter(FACTORS[name].defaults.items()))
    models = f"[{', '.join(dict.fromkeys(['meantime', model]))}]"
    text = dedent(
        f"""\
        datasets: {{a: {{defaults: {{{name}: {value}}}}}}}
        defaults: {{{name}: {value}}}
        studies:
          s: {{question: q, datasets: a, models: {models}, embeddings: [[pos]],
              grid: {{{name}: [{value}]}}}}
        """
    )
    file = load_studies(written(tmp_path, text))
    assert file.defaults == file.dataset_defaults["a"] == {name: value}
    assert file.studies["s"].grid == {name: (value,)}
    assert type(file.defaults[name]) is type(value)


def test_the_shipped_file_has_the_studies_that_the_documents_promise():
    file = load_studies(SHIPPED)
    promised = {
        "quickstart",
        "planted-truth",
        "planted-truth-small",
        "paper-table",
        "ml-100k-table",
        "ml-100k-quick",
        "ml-100k-subsets",
        "ml-100k-budget",
        "ml-1m-subsets",
        "games-subsets",
        "paper-grid",
        "full",
    }
    assert promised <= set(file.studies)
    assert file.studies["paper-grid"].datasets == ("ml-1m", "ml-20m", "beauty", "games")
    assert file.studies["ml-1m-subsets"].grid["heads"] == (6, "per-embedding")
    assert file.studies["paper-grid"].grid["heads"] == (2, 4, "per-embedding")
    lengths = {name: values["max_len"] for name, values in file.dataset_defaults.items()}
    assert (lengths["ml-1m"], lengths["ml-20m"], lengths["beauty"], lengths["games"]) == (
        200,
        200,
        50,
        50,
    )


def test_a_count_that_no_database_holds_is_refused_with_its_line(tmp_path):
    path = tmp_path / "studies.yaml"
    path.write_text(
        "datasets:\n  tiny:\n    synthetic: {recipe: planted-order}\nstudies:\n"
        "  s:\n    question: Is it?\n"
        "    datasets: [tiny]\n    embeddings: [[pos]]\n    grid: {layers: 100000000000000000000}\n"
        "    seeds: [0]\n"
    )
    with pytest.raises(RequestError, match=r"studies\.yaml:9: .*layers"):
        load_studies(path)


MODELS_STUDY = """\
datasets: {a: }
studies:
  s:
    question: q
    datasets: a
    models:
      meantime: {embeddings: [[log, day], none], grid: {heads: [2, 4]}}
      sasrec: {grid: {dropout: [0.1, 0.5]}}
      popularity:
    grid: {hidden: [16, 32], dropout: 0.2, mask_probability: 0.3}
"""


def test_each_model_has_the_study_s_grid_and_its_own(tmp_path):
    study = load_studies(written(tmp_path, MODELS_STUDY)).studies["s"]
    assert tuple(study.models) == ("meantime", "sasrec", "popularity")
    assert study.subsets("meantime") == (("day", "log"), ())
    assert study.subsets("sasrec") == study.subsets("popularity") == (None,)
    shared = {"hidden": (16, 32), "dropout": (0.2,)}
    assert study.grid_of("meantime") == {**shared, "mask_probability": (0.3,), "heads": (2, 4)}
    assert study.grid_of("sasrec") == {**shared, "dropout": (0.1, 0.5)}
    assert study.grid_of("popularity") == {}


@pytest.mark.parametrize("models", ["sasrec", "[sasrec]", "{sasrec: }", "{sasrec: {}}"])
def test_one_model_may_be_written_in_four_ways(tmp_path, models):
    text = f"datasets: {{a: }}\nstudies: {{s: {{question: q, datasets: a, models: {models}}}}}\n"
    study = load_studies(written(tmp_path, text)).studies["s"]
    assert study.models == {"sasrec": ModelChoice()}
    assert study.embeddings is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "meantime: {embeddings: [[log, day], none], grid: {heads: [2, 4]}}",
            "meantime:",
            "s.yaml:3: studies.s.embeddings: this key must be given, it is missing; "
            "add embeddings:",
        ),
        (
            "    grid: {hidden",
            "    embeddings: [[day]]\n    grid: {hidden",
            "s.yaml:7: studies.s.models.meantime.embeddings: must be declared once, got it for "
            "the study, too; remove one",
        ),
        (
            "{grid: {dropout: [0.1, 0.5]}}",
            "{embeddings: [[day]]}",
            "s.yaml:8: studies.s.models.sasrec.embeddings: sasrec has no temporal embeddings, only "
            "meantime has; remove it",
        ),
        (
            "{grid: {dropout: [0.1, 0.5]}}",
            "{grid: {tau: 60}}",
            "s.yaml:8: studies.s.models.sasrec.grid.tau: sasrec does not read tau; remove it, or "
            "give it to a model that does",
        ),
        (
            "mask_probability: 0.3",
            "history: 3",
            "s.yaml:10: studies.s.grid.history: none of the study's models (meantime, sasrec, "
            "popularity) reads it; remove it, it belongs to marank",
        ),
        (
            "sasrec: {grid",
            "sasrek: {grid",
            "s.yaml:8: studies.s.models.sasrek: must be one of meantime, bert4rec, tisasrec, "
            "sasrec, marank, cta, time_lstm, transformer, timesvd, bptf, item_knn, popularity, got "
            "'sasrek'; did you mean sasrec?",
        ),
        (
            "{grid: {dropout: [0.1, 0.5]}}",
            "{gird: {dropout: [0.1, 0.5]}}",
            "s.yaml:8: studies.s.models.sasrec.gird: unknown key; did you mean grid? known: "
            "embeddings, grid",
        ),
    ],
)
def test_what_contradicts_the_models_is_said_with_its_line(tmp_path, old, new, said):
    assert old in MODELS_STUDY
    assert mistakes_of(tmp_path, MODELS_STUDY.replace(old, new)) == [said]


@pytest.mark.parametrize(
    ("models", "rule"),
    [
        ("[]", "must have at least one value"),
        ("[sasrec, sasrec]", "must name each model once"),
        ("3", "must be a list of models, or a mapping from models"),
    ],
)
def test_models_of_another_form_are_refused(tmp_path, models, rule):
    text = f"datasets: {{a: }}\nstudies: {{s: {{question: q, datasets: a, models: {models}}}}}\n"
    assert f"studies.s.models: {rule}" in message_of(tmp_path, text)


def test_a_study_may_name_every_model(tmp_path):
    names = list(MODELS)
    text = (
        "datasets: {a: }\n"
        f"studies: {{s: {{question: q, datasets: a, models: {names}, embeddings: [[day]]}}}}\n"
    )
    assert list(load_studies(written(tmp_path, text)).studies["s"].models) == names
    assert len(names) == 12


def test_embeddings_without_meantime_are_refused(tmp_path):
    text = (
        "datasets: {a: }\n"
        "studies: {s: {question: q, datasets: a, models: sasrec, embeddings: [[day]]}}\n"
    )
    assert mistakes_of(tmp_path, text) == [
        "s.yaml:2: studies.s.embeddings: belongs to meantime, which is not among the study's "
        "models (sasrec); remove it"
    ]
