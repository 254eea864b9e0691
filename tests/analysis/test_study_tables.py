import shutil
from dataclasses import replace

import numpy as np
import pytest

from analysis.formats import SheetFormat
from analysis.frames import open_reader
from analysis.material import read_material
from analysis.modes import tuned
from analysis.paper_table import OURS, paper_sheet, paper_table
from analysis.per_user import arms_of, per_user
from analysis.printed import Comparing, study_sheets
from analysis.published import METRICS, MODELS, PUBLISHED, published
from analysis.sheet import write_sheet
from analysis.statistics import TOO_FEW_SEEDS, compare
from analysis.tables import SELECTION, measure
from analysis.verdicts import MATRIX_ARMS, verdicts
from model.errors import RequestError
from tests.analysis.hand_made import report_source, study
from tests.analysis.simulated import STUDY, simulated_store
from tests.analysis.test_sheet import compiled
from tests.console import meantime

TEST = measure("test_ndcg@10")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    url = f"sqlite:///{folder / 'results.db'}"
    simulated_store(url, folder)
    return url


def printed(store, kind, **comparing):
    return study_sheets(store, "by-chance", kind=kind, comparing=Comparing(**comparing))


def texts(sheet):
    return [[entry.text for entry in row] for row in sheet.rows]


def verdict(store, *, study="by-chance", pool_seeds=False, reference=None, mode="tuned"):
    (found,) = verdicts(
        open_reader(store),
        read_material(store, study),
        column=TEST,
        mode=mode,
        reference=reference,
        pool_seeds=pool_seeds,
        generator=np.random.default_rng(0),
    )
    return found


def test_the_papers_numbers_are_all_there():
    assert len(PUBLISHED) == 4 * len(METRICS) * len(MODELS) == 80
    assert published("ml-1m", "ndcg@10") == {
        "MARank": 0.3548, "SASRec": 0.4550, "TiSASRec": 0.4708, "BERT4Rec": 0.4786,
        "MEANTIME": 0.5255,
    }  # fmt: skip
    assert published("ml-100k", "ndcg@10") == {}
    # The paper's own claim: MEANTIME is best on every data set and metric.
    for dataset in ("ml-1m", "ml-20m", "beauty", "games"):
        for metric in METRICS:
            row = published(dataset, metric)
            assert max(row, key=row.get) == "MEANTIME"


def material_of(points, **changes):
    results, cells = study(points)
    for name, value in changes.items():
        results[name] = value
    return report_source(results, cells)


def test_the_main_table_sets_published_numbers_beside_ours_and_names_what_differs():
    points = [
        {"dataset": "ml-1m", "embeddings": subset, "seed": seed, "value": value + 0.01 * seed}
        for subset, value in (("none", 0.40), ("Day+Log", 0.44), ("Pos", 0.42))
        for seed in (0, 1)
    ]
    table = paper_table(material_of(points, max_len=50, batch=256, core="iterate"))
    row = next(row for row in table.rows if row.metric == "ndcg@10")
    assert row.ours == {"MEANTIME": pytest.approx(0.445), "no embedding": pytest.approx(0.405)}
    assert row.improvement == pytest.approx(0.445 / 0.405 - 1)
    assert row.published["MEANTIME"] == 0.5255
    assert row.published_improvement == pytest.approx(0.5255 / 0.4786 - 1)
    notes = " ".join(table.notes)
    assert "ml-1m: MEANTIME is Day+Log, 2 seeds." in notes
    assert (
        "ml-1m differs from the paper in: max len 50 (paper 200); core iterate (paper once); "
        "means over 2 seeds." in notes
    )
    sheet = paper_sheet(table)
    last = dict(zip(sheet.heading, sheet.rows[3], strict=True))
    assert [span.text for span in sheet.spans] == ["", "published", "this study"]
    published_columns = sheet.rows[3][2:7]
    assert [(entry.text, entry.mark) for entry in published_columns] == [
        (".3548", ""), (".4550", ""), (".4708", ""), (".4786", "second"), (".5255", "best"),
    ]  # fmt: skip
    assert (last["no embedding"].mark, last["MEANTIME"].mark) == ("second", "best")
    assert sheet.rows[3][7].text == "+9.8%"
    assert last["improvement"].text == "+9.9%"


def test_models_are_columns_and_the_best_baseline_counts():
    points = [
        {"embeddings": "Pos", "value": 0.30},
        {"embeddings": "", "model": "sasrec", "value": 0.32},
        {"embeddings": "", "model": "bert4rec", "value": 0.28},
    ]
    material = material_of(points)
    material.results["model"] = ["meantime", "sasrec", "bert4rec"]
    table = paper_table(material)
    row = next(row for row in table.rows if row.metric == "ndcg@10")
    assert set(row.ours) == {OURS, "SASRec", "BERT4Rec"}
    assert row.improvement == pytest.approx(0.30 / 0.32 - 1)
    assert "the paper has no numbers for this data set" in " ".join(table.notes)
    assert paper_sheet(table).heading[-2:] == (OURS, "improvement")


def test_arms_are_chosen_by_validation_when_test_says_otherwise(store):
    material = read_material(store, "by-chance")
    before = paper_table(material)
    poisoned = material.results.copy()
    for name in poisoned.columns:
        if name.startswith("test_"):
            poisoned[name] = 1 - poisoned[name]
    after = paper_table(replace(material, results=poisoned))
    assert [(d, s.model, s.arm) for d, s in after.scores] == [
        (d, s.model, s.arm) for d, s in before.scores
    ]


def test_the_hyperparameter_table_has_each_subset_at_its_best_point_by_validation(store):
    (sheet,) = printed(store, "hyperparameters")
    assert sheet.heading[:5] == ("data set", "subset", "hidden", "points", "seeds")
    rows = texts(sheet)
    assert {row[1] for row in rows} == {"none", "Pos", "Log", "Pos+Log"}
    assert all(row[3:5] == ["2 of 2", "3 of 3"] for row in rows)
    material = read_material(store, "by-chance")
    means = material.results.groupby(["embeddings", "hidden"])[SELECTION].mean()
    for row in rows:
        assert row[2] == str(means[row[1]].idxmax())
        assert float(row[5]) == pytest.approx(means[row[1]].max(), abs=0.0006)
    marked = [row[1].text for row in sheet.rows if row[1].mark == "best"]
    assert marked == ["Pos+Log"]


def test_the_significance_table_is_the_comparison_of_the_tuned_arms(store):
    engine, material = open_reader(store), read_material(store, "by-chance")
    (group,) = material.groups(())
    valid = arms_of(group.cells, per_user(engine, "by-chance", measure(SELECTION)), ["hidden"])
    test = arms_of(group.cells, per_user(engine, "by-chance", TEST), ["hidden"])
    arms = {c.subset: c.arm for c in tuned(valid, test, np.random.default_rng(0)).choices}
    expected = compare(arms["Pos"].values, arms["none"].values)
    (sheet,) = printed(store, "significance", reference="none")
    row = next(row for row in texts(sheet) if row[0] == "Pos")
    assert row[1:3] == ["3", f"{expected.mean:+.4f}"]
    assert row[3] == f"[{expected.interval.low:+.4f}, {expected.interval.high:+.4f}]"
    notes = " ".join(sheet.notes)
    assert "Validation names Pos+Log best" in notes
    assert "Holm over the 3 comparisons shown." in notes
    assert "At 3 seeds Holm over 3 comparisons needs |t| of about 7.6" in notes
    assert "in 1 of 20 cases" in notes
    assert "best of the same 2 hyperparameter points" in notes


def test_every_pair_is_compared_where_they_are_few_and_the_square_is_antisymmetric(store):
    found = verdict(store)
    assert found.reference == ""
    assert (len(found.family.pairs), found.family.size) == (6, 6)
    assert MATRIX_ARMS == 20
    (sheet,) = printed(store, "matrix")
    rows = texts(sheet)
    for i in range(4):
        assert rows[i][i + 1] == ""
        for j in range(i):
            assert {rows[i][j + 1][1:], rows[j][i + 1][1:]} == {rows[i][j + 1][1:]}
            assert rows[i][j + 1][0] != rows[j][i + 1][0]
    with pytest.raises(RequestError, match="compared with none only"):
        printed(store, "matrix", reference="none")


def test_an_unknown_reference_is_refused_with_the_known_ones(store):
    with pytest.raises(RequestError, match="got Day; use one of none, Pos, Log"):
        printed(store, "significance", reference="Day")


def test_power_says_what_the_seeds_can_settle(store):
    (sheet,) = printed(store, "power", reference="none")
    found = verdict(store, reference="none")
    for row, reach in zip(texts(sheet), found.reach, strict=True):
        assert row[4] == f"{reach.t_needed:.3g}"
        assert row[5] == f"{reach.detectable:.4f}"
    assert "finds in 80% of such studies" in sheet.notes[0]


def test_other_methods_stand_beside_with_their_warnings(store):
    (sheet,) = printed(store, "opinions", reference="none")
    assert "p, sign flips of users" in sheet.heading
    assert any("Wilcoxon tests symmetry" in note for note in sheet.notes)
    assert all(row[5] == "–" for row in texts(sheet))  # three seeds are too few to resample
    assert printed(store, "opinions", reference="none") == [sheet]


def test_pooled_seeds_are_said_and_decide_more(store):
    own, pooled = verdict(store), verdict(store, pool_seeds=True)
    assert "pooled over 4 arms" in pooled.family.pooling
    assert all(
        pair.comparison.components.error.seed_df == 6 for pair in pooled.family.pairs
    )  # 4 arms, 3 seeds
    assert max(r.t_needed for r in pooled.reach) < min(r.t_needed for r in own.reach)


@pytest.mark.parametrize("mode", ["same", "tuned", "marginal"])
def test_the_mode_is_said_in_the_notes(store, mode):
    sentence = {
        "same": "All subsets at one hyperparameter point: hidden",
        "tuned": "Each subset at its best of the same 2 hyperparameter points",
        "marginal": "Mean over the same 2 hyperparameter points for every subset.",
    }[mode]
    (sheet,) = printed(store, "significance", mode=mode)
    assert any(sentence in note for note in sheet.notes)


def test_one_seed_per_arm_is_never_called_significant(tmp_path):
    url = f"sqlite:///{tmp_path / 'one.db'}"
    simulated_store(url, tmp_path, text=STUDY.replace("[0, 1, 2]", "[0]"))
    found = verdict(url)
    assert found.family.size == 0
    assert all(pair.reason == TOO_FEW_SEEDS for pair in found.family.pairs)
    (sheet,) = printed(url, "significance")
    assert f"No claim: {TOO_FEW_SEEDS}." in sheet.notes
    assert all(row[5:8] == ["–", "–", "–"] for row in texts(sheet))
    assert not any(entry.mark for row in sheet.rows for entry in row)
    assert all("(users only)" in row[4] for row in texts(sheet))


def test_what_is_missing_closes_a_point_and_is_said(tmp_path):
    url = f"sqlite:///{tmp_path / 'gaps.db'}"
    simulated_store(
        url, tmp_path, skip=lambda t: t.label == "Log" and t.factors["hidden"] == 16
    )  # fmt: skip
    found = verdict(url)
    assert found.compared.points == ((("hidden", "8"),),)
    assert "1 further points are left out" in found.compared.sentence


@pytest.mark.latex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_every_table_of_a_study_compiles(store, tmp_path):
    sheets = [
        sheet
        for kind in ("main", "hyperparameters", "significance", "matrix", "power", "opinions")
        for sheet in printed(store, kind)
    ]
    assert len(sheets) == 6
    assert any('"no number"' in note for sheet in sheets for note in sheet.notes)
    log = compiled("\n".join(write_sheet(s, SheetFormat.latex) for s in sheets), tmp_path)
    assert "Missing character" not in log


def test_the_command_prints_tables_and_writes_files(store, tmp_path):
    def run(*words):
        return meantime("tables", "by-chance", *words, "--store", store, folder=tmp_path)

    shown = run("--power", "--reference", "none")
    assert shown.returncode == 0, shown.stderr
    assert "seeds to settle" in shown.stdout
    path = tmp_path / "table.tex"
    written = run("--kind", "significance", "--format", "latex", "--out", str(path))
    assert written.returncode == 0, written.stderr
    assert r"\toprule" in path.read_text()
    refused = run("--kind", "matrix", "--metric", "loss")
    assert refused.returncode == 2
    assert "ndcg@K, recall@K or mrr" in refused.stderr
