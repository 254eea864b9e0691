"""What a plan costs: work is counted, sizes are known or said to be unknown, results correct it."""

import json
from textwrap import dedent

import pytest

from model.data.prepare import load_prepared
from model.sizes import DataSize
from study.definition import load_studies, study_named
from study.estimates import PUBLISHED, UNCALIBRATED, Estimator, Finished, epoch_work, estimate
from study.past import past
from study.plan import plan
from study.plan_table import cost_lines
from tests.console import meantime
from tests.stored import fill
from tests.study.small import written

STUDIES = dedent(
    """\
    datasets:
      ml-1m: {}
      shop: {}
    defaults: {max_len: 50, epochs: 100, hidden: 64, heads: 4}
    studies:
      sizes:
        question: What does width cost?
        datasets: [ml-1m]
        embeddings: [[pos]]
        grid: {hidden: [16, 32, 128]}
        seeds: [0, 1]
      unknown:
        question: How large is a shop?
        datasets: [ml-1m, shop]
        embeddings: [[pos]]
      searched:
        question: What do points cost?
        datasets: [ml-1m]
        embeddings: [[pos]]
        grid: {hidden: {from: 16, to: 128, step: 16}}
        search: {optuna: random, trials_per_arm: 5}
        confirm: {best: 1, seeds: [7, 8]}
        screen: {epochs: 10}
    """
)


@pytest.fixture
def plan_of(tmp_path):
    path = tmp_path / "studies.yaml"
    path.write_text(STUDIES)
    file = load_studies(path)
    return lambda name: plan(study_named(file, name), file)


def test_the_work_of_an_epoch_is_counted(plan_of):
    trial = next(iter(plan_of("sizes").trials.values()))  # hidden 16, two blocks, 50 positions
    adds, steps = epoch_work(
        trial.config(), DataSize(n_users=10, n_items=30, n_days=9, n_events=120)
    )
    block = 12 * 16 * 16 + 4 * 10 * 16  # a prefix of 12 - 2 events is shorter than 50
    trained = 3 * 10 * 10 * (2 * block + 0.2 * 30 * 16)
    assert adds == trained + 10 * (10 * 2 * block + 101 * 16)
    assert steps == 1  # 10 windows, 256 a batch


def test_a_wider_network_takes_longer_and_more_memory(plan_of):
    what = plan_of("sizes")
    estimator = Estimator({})
    by_width = {t.factors["hidden"]: estimator.need(t) for t in what.trials.values()}
    seconds = [by_width[h].seconds for h in (16, 32, 128)]
    memory = [by_width[h].bytes for h in (16, 32, 128)]
    assert seconds == sorted(seconds)
    assert memory == sorted(memory)
    cost = estimate(what, estimator, at_once=2)
    assert (cost.trials, cost.measured, cost.error) == (6, 0, UNCALIBRATED)
    assert cost.seconds == pytest.approx(2 * sum(seconds))
    assert cost.wall_seconds == pytest.approx(max(seconds[-1], sum(seconds)))
    assert (cost.shortest, cost.longest) == (seconds[0], seconds[-1])


def test_finished_trials_correct_the_estimate_and_its_error(plan_of):
    what = plan_of("sizes")
    plain = Estimator({})
    trials = list(what.trials.values())
    # Twice as slow as counted, give or take, and done after a fifth of the epochs.
    finished = [
        Finished(trial, epochs=20, seconds=plain.need(trial).seconds / 100 * 20 * factor)
        for trial, factor in zip(trials[:3], (1.8, 2.0, 2.2), strict=True)
    ]
    learned = Estimator({}, finished=finished)
    assert learned.measured == 3
    assert 1.05 < learned.error < 1.25
    need = learned.need(trials[-1])
    assert need.seconds == pytest.approx(plain.need(trials[-1]).seconds * 2 / 5)
    [line, _] = cost_lines(estimate(what, learned, at_once=2))
    assert "from 3 finished trials, within a factor of 1." in line


def test_a_data_set_of_unknown_size_has_no_estimate_until_it_was_prepared(plan_of):
    what = plan_of("unknown")
    cost = estimate(what, Estimator({}), at_once=1)
    assert (cost.trials, cost.unknown) == (1, ("shop",))
    assert cost_lines(cost)[-1] == ("estimate: none for shop, which this store has never prepared")
    shop = what.contenders[1].dataset
    size = DataSize(n_users=10, n_items=20, n_days=30, n_events=100)
    assert estimate(what, Estimator({shop: size}), at_once=1).trials == 2


def test_points_that_are_not_asked_yet_count_like_a_sample(plan_of):
    what = plan_of("searched")
    cost = estimate(what, Estimator({}), at_once=1)
    assert cost.trials == len(what.cells) == 5 + 2
    alone = estimate(plan_of("unknown"), Estimator({}), at_once=1)
    assert cost.seconds < 7 * alone.longest * 4  # hidden 64 there, at most 128 here
    assert cost.longest > 5 * cost.shortest  # a tenth of the epochs while screening


def test_prepared_counts_of_the_store_are_preferred(tmp_path):
    what = fill(f"sqlite:///{tmp_path}/results.db", tmp_path)
    sizes, finished = past(f"sqlite:///{tmp_path}/results.db", datasets=["tiny"])
    config = what.contenders[0].dataset
    data = load_prepared(config, tmp_path)
    assert sizes == {config: DataSize(data.n_users, data.n_items, data.n_days, len(data.items))}
    assert [(f.epochs, f.seconds) for f in finished] == [(3, 2.5), (3, 2.5)]
    assert {f.trial.id for f in finished} == set(list(what.trials)[:2])
    assert Estimator(sizes, finished=finished).measured == 2


def test_published_sizes_are_of_data_sets_that_are_shipped():
    assert set(PUBLISHED) == {"ml-100k", "ml-1m", "ml-20m", "beauty", "games"}
    for size in PUBLISHED.values():
        assert size.n_events > 5 * size.n_users


def test_plan_says_what_it_costs_in_eighty_columns(tmp_path):
    written(tmp_path)
    said = meantime("plan", "four", folder=tmp_path, COLUMNS="80")
    assert said.returncode == 0, said.stderr
    assert "estimate: 0 s a trial, " in said.stdout
    assert "within a factor of 3" in said.stdout
    assert "all: stage=final, dataset=tiny, model=meantime, hidden=8" in said.stdout
    assert "Pos+Log     0      feasible" in said.stdout
    as_json = json.loads(meantime("plan", "four", "--format", "json", folder=tmp_path).stdout)
    assert as_json["estimate"]["trials"] == 4
    assert as_json["estimate"]["measured"] == 0
