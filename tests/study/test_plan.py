"""A plan lists exactly the declared cells, says what becomes of each, and is fast and pure."""

import json
import subprocess
import sys
import time
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.config import DatasetConfig
from model.errors import RequestError
from study.definition import Study, StudyFile, load_studies
from study.plan import MOST_CELLS, Plan, as_json, plan, require_trials
from study.space import FACTORS, all_subsets
from study.trial import effective, trial_id

PAPER = {
    "hidden": (16, 32, 64, 128),
    "heads": (2, 4, "per-embedding"),
    "dropout": (0.2, 0.5),
    "weight_decay": (0.0, 1e-5),
}


def file_of(*datasets: str, defaults=None, dataset_defaults=None) -> StudyFile:
    return StudyFile(
        path=Path("studies.yaml"),
        datasets={name: DatasetConfig(name=name) for name in datasets},
        dataset_defaults={name: (dataset_defaults or {}).get(name, {}) for name in datasets},
        defaults={"heads": 6} if defaults is None else defaults,
        studies={},
    )


def planned(embeddings, *, datasets=("a",), seeds=(0,), file=None, **grid) -> Plan:
    """Plan the product of subsets, factors given by keyword, data sets and seeds."""
    study = Study(
        name="s",
        question="q",
        datasets=datasets,
        embeddings=tuple(embeddings),
        grid={
            name: values if isinstance(values, tuple) else (values,)
            for name, values in grid.items()
        },
        seeds=seeds,
    )
    return plan(study, file or file_of(*datasets))


def counts(plan: Plan) -> tuple[int, int, int, int]:
    return len(plan.cells), len(plan.infeasible), len(plan.duplicates), len(plan.trials)


def test_the_paper_s_grid_has_the_counts_that_can_be_worked_out_by_hand():
    # 63 subsets x 4 widths x 3 heads x 2 dropouts x 2 decays = 3,024 cells. C(6, k) subsets have k
    # embeddings: 42 have more than 2 and 7 more than 4, each at 16 points: 16 * (42 + 7) = 784.
    # per-embedding repeats heads=2 where k = 2 and heads=4 where k = 4: 16 * (15 + 15) = 480.
    assert counts(planned(all_subsets(), **PAPER)) == (3024, 784, 480, 1760)
    assert 3024 - 784 - 480 == 1760


def test_the_shipped_paper_grid_has_these_counts_for_each_dataset_and_seed():
    file = load_studies(Path(__file__).parents[2] / "studies.yaml")
    study = file.studies["paper-grid"]
    times = len(study.datasets) * len(study.seeds)
    expected = tuple(times * count for count in (3024, 784, 480, 1760))
    assert times == 4 * 3
    assert counts(plan(study, file)) == expected


def test_six_heads_have_a_place_for_every_subset_and_none():
    everything = planned(((), *all_subsets()), heads=6)
    assert counts(everything) == (64, 0, 0, 64)


def test_cells_are_exactly_the_declared_product_in_a_fixed_order():
    what = planned(
        [("day",), ()], datasets=("a", "b"), seeds=(1, 0), dropout=(0.1, 0.2), hidden=(16, 8)
    )
    declared = product(("a", "b"), (("day",), ()), (16, 8), (0.1, 0.2), (1, 0))
    assert [
        (
            cell.dataset,
            cell.embeddings,
            cell.factors["hidden"],
            cell.factors["dropout"],
            cell.seed,
        )
        for cell in what.cells
    ] == list(declared)
    assert [cell.index for cell in what.cells] == list(range(32))
    assert what.varying == ("hidden", "dropout")


def test_an_infeasible_cell_is_listed_with_the_rule_and_legal_values():
    what = planned([("day", "pos", "log"), ("pos",), ()], heads=(2, "per-embedding"))
    reasons = [(cell.label, cell.heads, cell.reason) for cell in what.infeasible]
    assert reasons == [
        (
            "Day+Pos+Log",
            2,
            "each embedding owns one head: 3 embeddings need at least 3 heads, got heads=2; "
            "use heads >= 3 or per-embedding",
        ),
        (
            "none",
            "per-embedding",
            "heads: per-embedding needs at least one embedding, got none; "
            "give an integer number of heads",
        ),
    ]
    assert what.infeasible_reasons == {reason: 1 for _, _, reason in reasons}
    assert all(cell.trial_id is None for cell in what.infeasible)


@pytest.mark.parametrize(
    ("subset", "grid", "advice"),
    [
        (("sin",), {"hidden": 15, "heads": 3}, "sin pairs sines with cosines and needs an even"),
        (("pos",), {"hidden": 4, "heads": 6}, "raise hidden to 6 or more, or lower heads"),
    ],
)
def test_other_rules_of_the_network_are_found_while_planning(subset, grid, advice):
    (cell,) = planned([subset], **grid).infeasible
    assert advice in cell.reason


def test_a_duplicate_names_the_cell_and_the_trial_that_it_repeats():
    what = planned([("day", "pos")], heads=(2, "per-embedding"))
    first, second = what.cells
    assert (first.state, first.reason) == ("feasible", "")
    assert (second.state, second.reason) == ("duplicate", "the same trial as cell 0 (heads=2)")
    assert first.trial_id == second.trial_id
    assert list(what.trials) == [first.trial_id]


def test_a_value_declared_twice_is_a_duplicate_and_trained_once():
    what = planned([("day",), ("day",)], weight_decay=(0.0, 0.0), seeds=(0, 0))
    assert counts(what) == (8, 0, 7, 1)
    assert {cell.reason for cell in what.duplicates} == {
        "the same trial as cell 0 (declared twice)"
    }


def test_every_trial_is_the_effective_configuration_of_its_cell():
    what = planned(((), *all_subsets()), tau=(1.0, 60.0), dropout=(0.0, 0.5), target_time="last")
    for cell in what.cells:
        trial = what.trials[cell.trial_id]
        assert trial_id(trial.effective) == trial.id
        assert effective(trial.config()) == trial.effective
        assert (trial.label, trial.dataset, trial.seed) == (cell.label, cell.dataset, cell.seed)
        assert {
            name: value for name, value in trial.factors.items() if value is not None
        }.items() <= cell.factors.items()


def test_two_studies_share_the_trials_they_both_ask_for():
    wide = planned(all_subsets(), heads=(6, "per-embedding"), seeds=(0, 1))
    narrow = planned([("day", "pos"), ("log",)], heads="per-embedding", seeds=(1, 2))
    assert len(wide.trials.keys() & narrow.trials.keys()) == 2  # both subsets at seed 1


def test_adding_seeds_or_values_keeps_the_trials_that_were_there():
    before = planned(all_subsets(), dropout=(0.2,), seeds=(0,))
    after = planned(all_subsets(), dropout=(0.1, 0.2), seeds=(0, 1))
    assert before.trials.keys() < after.trials.keys()
    assert len(after.trials) == 4 * len(before.trials)


def test_a_value_comes_from_the_study_then_the_dataset_then_the_file_then_the_model():
    file = file_of(
        "a",
        "b",
        defaults={"heads": 6, "max_len": 30, "layers": 1, "batch": 8},
        dataset_defaults={"b": {"max_len": 40, "layers": 3}},
    )
    a, b = planned([("pos",)], datasets=("a", "b"), file=file, layers=4).cells
    assert (a.factors["max_len"], b.factors["max_len"]) == (30, 40)
    assert (a.factors["layers"], b.factors["layers"]) == (4, 4)
    assert (a.factors["batch"], b.factors["batch"]) == (8, 8)
    assert a.factors["patience"] == FACTORS["patience"].defaults["meantime"]
    assert planned([("pos",)], datasets=("a", "b"), file=file).varying == ("layers", "max_len")


def test_a_factor_that_no_subset_reads_is_reported_as_a_no_op():
    what = planned([("pos",), ("con",), ()], tau=(1.0, 60.0, 3600.0), hidden=(16, 32))
    (no_op,) = what.no_ops
    assert (no_op.factor, no_op.values, no_op.everywhere) == ("tau", (1.0, 60.0, 3600.0), True)
    assert no_op.message == (
        "tau is swept over 1.0, 60.0, 3600.0 but changes nothing for any subset of this study: "
        "all its cells are duplicates; give tau one value, or add a subset that reads it"
    )
    assert counts(what) == (18, 0, 12, 6)


def test_a_factor_that_some_subsets_do_not_read_is_reported_with_them():
    what = planned(((), *all_subsets()), target_time=("actual", "last"), seeds=(0, 1))
    (no_op,) = what.no_ops
    assert (no_op.everywhere, no_op.subsets) == (False, ("none", "Pos", "Con", "Pos+Con"))
    assert "changes nothing for 4 of 64 subsets (none, Pos, Con, Pos+Con)" in no_op.message
    assert len(what.duplicates) == 4 * 2


def test_heads_that_come_to_one_number_are_a_no_op():
    (no_op,) = planned([("day", "pos"), ("sin", "log")], heads=(2, "per-embedding")).no_ops
    assert (no_op.factor, no_op.everywhere) == ("heads", True)


def test_factors_that_are_read_are_no_no_ops():
    assert planned(all_subsets(), hidden=(16, 32), lr=(1e-3, 1e-4)).no_ops == ()
    assert planned([("sin",)], tau=(1.0, 60.0)).no_ops == ()


def test_a_value_that_differs_only_between_datasets_is_no_no_op():
    file = file_of("a", "b", dataset_defaults={"a": {"tau": 1.0}, "b": {"tau": 60.0}})
    assert planned([("pos",)], datasets=("a", "b"), file=file).no_ops == ()


def test_a_study_of_which_nothing_can_be_trained_is_refused_with_every_rule():
    what = planned([("day", "pos", "log"), ("pos", "log")], heads=1)
    assert what.trials == {}
    assert what.no_ops == ()
    with pytest.raises(RequestError) as refused:
        require_trials(what)
    assert str(refused.value).splitlines() == [
        "a study must have a feasible cell, got none of 2 in s; change embeddings or grid:",
        "  1 cells: each embedding owns one head: 3 embeddings need at least 3 heads, got heads=1; "
        "use heads >= 3 or per-embedding",
        "  1 cells: each embedding owns one head: 2 embeddings need at least 2 heads, got heads=1; "
        "use heads >= 2 or per-embedding",
    ]
    require_trials(planned([("pos",)]))


def test_a_product_beyond_reason_is_refused_before_it_is_listed():
    seeds = tuple(range(MOST_CELLS // 63 + 1))
    with pytest.raises(RequestError, match=r"at most 1,000,000 cells, got 1,000,062 in s; shorten"):
        planned(all_subsets(), seeds=seeds)


def test_the_json_form_has_every_cell_and_counts_that_add_up():
    what = planned(((), *all_subsets()), seeds=(0, 1), **PAPER)
    form = json.loads(json.dumps(as_json(what)))
    assert form["study"] == "s"
    states = Counter(cell["state"] for cell in form["cells"])
    assert states["infeasible"] == form["infeasible"] == len(what.infeasible)
    assert states["duplicate"] == form["duplicates"]
    assert states["feasible"] == form["trials"]
    assert states.total() == len(form["cells"]) == 64 * 48 * 2
    assert form["cells"][0] == {
        "index": 0,
        "dataset": "a",
        "model": "meantime",
        "embeddings": "none",
        "hidden": 16,
        "heads": 2,
        "dropout": 0.2,
        "weight_decay": 0.0,
        "seed": 0,
        "stage": "final",
        "state": "feasible",
        "reason": "",
        "trial": what.cells[0].trial_id,
    }
    assert all(bool(cell["reason"]) == (cell["state"] != "feasible") for cell in form["cells"])
    assert form["no_ops"] == [no_op.message for no_op in what.no_ops]


def test_the_json_form_shows_every_other_factor_that_varies():
    form = as_json(planned([("sin",)], tau=(1.0, 60.0), hidden=(16, 32), lr=1e-4))
    assert [cell["tau"] for cell in form["cells"]] == [1.0, 60.0, 1.0, 60.0]
    assert "lr" not in form["cells"][0]


def of_models(models, **study) -> Plan:
    fields = {"name": "s", "question": "q", "datasets": ("a",), **study}
    return plan(Study(models=models, **fields), file_of("a", defaults={}))


def test_a_factor_that_a_model_never_reads_makes_no_cells():
    what = of_models(
        ("meantime", "sasrec", "popularity"),
        embeddings=(("pos",), ()),
        grid={"hidden": (16, 32), "heads": (2, 4), "mask_probability": (0.1, 0.2)},
        seeds=(0, 1),
    )
    # (2 subsets x 8 points) + (hidden x heads) + 1, each with 2 seeds
    assert counts(what) == (2 * (2 * 8 + 4 + 1), 0, 0, 2 * (2 * 8 + 4 + 1))
    assert Counter(cell.model for cell in what.cells) == {
        "meantime": 32,
        "sasrec": 8,
        "popularity": 2,
    }
    (last,) = {cell.label for cell in what.cells if cell.model == "popularity"}
    assert last == ""
    assert what.cells[-1].factors == {"repeats": "excluded", "protocol": "popular-100"}
    assert what.cells[-1].heads is None
    assert what.varying == ("hidden", "heads", "mask_probability")
    assert what.no_ops == ()


def test_a_model_s_own_grid_replaces_the_study_s_values():
    what = of_models(
        {"meantime": {"embeddings": (("pos",),)}, "bert4rec": {"grid": {"heads": (1, 2, 4)}}},
        grid={"heads": 2, "hidden": 16},
    )
    assert [(cell.model, cell.label, cell.heads) for cell in what.cells] == [
        ("meantime", "Pos", 2),
        ("bert4rec", "", 1),
        ("bert4rec", "", 2),
        ("bert4rec", "", 4),
    ]


def test_the_heads_of_models_without_embeddings_share_their_channels_evenly():
    what = of_models(("sasrec",), grid={"hidden": (16,), "heads": (2, 6, "per-embedding")})
    assert [(cell.heads, cell.reason) for cell in what.cells] == [
        (2, ""),
        (
            6,
            "hidden must be a multiple of the number of heads, got hidden=16 and heads=6; "
            "use heads of 1, 2, 4, 8, 16",
        ),
        (
            "per-embedding",
            "heads: per-embedding counts temporal embeddings, which only meantime has; "
            "give an integer number of heads",
        ),
    ]


def test_a_model_without_a_choice_has_one_point_in_a_search():
    what = of_models(
        ("sasrec", "popularity"),
        grid={"lr": (1e-3, 1e-2)},
        search={"optuna": "random", "trials_per_arm": 2},
    )
    assert [cell.model for cell in what.cells] == ["sasrec", "sasrec", "popularity"]
    assert len(what.unasked) == 3


def test_the_json_form_names_models_and_has_nulls_for_what_they_lack():
    form = as_json(of_models(("sasrec", "popularity"), grid={"loss": ("binary", "softmax")}))
    shown = [
        (cell["model"], cell["embeddings"], cell["hidden"], cell["heads"], cell["loss"])
        for cell in form["cells"]
    ]
    assert shown == [
        ("sasrec", None, 64, 2, "binary"),
        ("sasrec", None, 64, 2, "softmax"),
        ("popularity", None, None, None, None),
    ]


def test_a_sweep_that_another_model_does_not_read_is_no_no_op_but_one_that_none_reads_is():
    grid = {"negatives": (1, 5), "loss": "softmax"}
    (no_op,) = of_models(("sasrec", "popularity"), grid=grid).no_ops
    assert (no_op.factor, no_op.subsets, no_op.everywhere) == ("negatives", ("sasrec",), True)


@settings(max_examples=30, deadline=None)
@given(
    subsets=st.lists(st.sampled_from([(), *all_subsets()]), min_size=1, max_size=6),
    heads=st.lists(
        st.one_of(st.integers(1, 7), st.just("per-embedding")), min_size=1, max_size=4
    ).map(tuple),
    hidden=st.lists(st.integers(1, 20), min_size=1, max_size=3).map(tuple),
    seeds=st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple),
)
def test_every_cell_is_exactly_one_of_feasible_infeasible_and_duplicate(
    subsets, heads, hidden, seeds
):
    what = planned(subsets, heads=heads, hidden=hidden, seeds=seeds)
    n_cells, n_infeasible, n_duplicates, n_trials = counts(what)
    assert n_cells == len(subsets) * len(heads) * len(hidden) * len(seeds)
    assert n_cells == n_infeasible + n_duplicates + n_trials
    owners = [cell.trial_id for cell in what.cells if cell.state == "feasible"]
    assert owners == list(what.trials)
    for cell in what.cells:
        assert (cell.trial_id is None) == (cell.state == "infeasible")
        if cell.trial_id is not None:
            what.trials[cell.trial_id].config()  # pydantic agrees that it can be built


def test_planning_four_datasets_and_five_seeds_of_the_paper_s_grid_is_fast():
    datasets = ("a", "b", "c", "d")
    study = Study(
        name="s",
        question="q",
        datasets=datasets,
        embeddings=all_subsets(),
        grid=PAPER,
        seeds=(0, 1, 2, 3, 4),
    )
    began = time.process_time()
    what = plan(study, file_of(*datasets))
    seconds = time.process_time() - began
    assert counts(what) == tuple(4 * 5 * count for count in (3024, 784, 480, 1760))
    assert seconds < 2  # measured: 0.6


@pytest.mark.parametrize("what", ["study.plan, study.definition", "analysis.cli"])
def test_neither_planning_nor_the_console_script_imports_what_takes_long(what):
    program = (
        f"import sys, {what}; "
        "heavy = {'torch', 'ray', 'sqlalchemy', 'pandas', 'numpy', 'plotly', 'scipy'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
