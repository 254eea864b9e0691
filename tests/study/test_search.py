"""A search gives every contender its budget, whatever interrupts it, and tries nothing twice."""

from collections import Counter
from itertools import count
from math import log10
from pathlib import Path
from textwrap import dedent
from typing import get_args

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from model.data.prepare import load_prepared
from study.definition import load_studies, study_named
from study.execute import Censored, Completed, EpochEnded, Failed
from study.persistence import Persistence
from study.plan import plan
from study.search import search_supply
from study.store import Store
from study.strategy import Sampler
from study.supply import Declared
from tests.stored import ENVIRONMENT, report, result

HEAD = dedent(
    """\
    datasets:
      tiny:
        synthetic: {recipe: planted-order, users: 20, items: 12, events: 8}
    defaults: {layers: 1, max_len: 8, epochs: 4, hidden: 8, heads: 2}
    studies:
      searched:
        question: Which subset is best at its best?
        datasets: [tiny]
        embeddings: [[pos], [pos, log], none]
    """
)


class Launches:
    """Launches of one study on one store; trials take no time, and score by `value`."""

    def __init__(self, folder, declared: str, *, value) -> None:
        path = folder / "studies.yaml"
        path.write_text(HEAD + declared)
        file = load_studies(path)
        self.plan = plan(study_named(file, "searched"), file)
        self.url = f"sqlite:///{folder}/results.db"
        (config,) = {c.dataset for c in self.plan.contenders[:1]}
        self._data, self._config = load_prepared(config, folder), config
        self._value = value
        self.trained: list[str] = []

    def launch(self, *, at_most: int | None = None, at_once: int = 1, retry=()) -> None:
        """Train what is left; after so many trials the launch is killed, with others under way."""
        with Store.open(self.url) as store, store.claim():
            store.mark_lost()
            store.record_dataset(self._data, self._config)
            supply = search_supply(self.plan, store)
            store.record_plan(supply.plan)
            store.reset_failed(list(supply.plan.trials), classes=retry)
            supply.start()
            under_way = []
            for ended in count():
                while len(under_way) < at_once and (trial := supply.take()) is not None:
                    under_way.append((trial, store.begin_attempt(trial.id, ENVIRONMENT)))
                if ended == at_most:
                    return
                if not under_way:
                    assert supply.finished
                    return
                self._end(store, supply, *under_way.pop(0))

    def _end(self, store, supply, trial, attempt) -> None:
        self.trained.append(trial.id)
        value = self._value(trial)
        if value is None:
            store.fail(trial.id, attempt, failure="diverged", message="NaN")
            supply.observe(Failed(trial.id, "diverged", "NaN"))
            return
        epoch = report(1, ndcg=value)
        store.record_epoch(trial.id, attempt, epoch)
        supply.observe(EpochEnded(trial.id, epoch))
        done = result(value)
        store.complete(trial.id, attempt, done, fingerprint=self._data.fingerprint)
        supply.observe(Completed(trial.id, done))

    def rows(self, statement: str) -> list[tuple]:
        engine = create_engine(self.url)
        with engine.connect() as connection:
            found = [tuple(row) for row in connection.execute(text(statement))]
        engine.dispose()
        return found

    def points(self) -> list[tuple]:
        """Subset and choices of every cell that has a point, in the order of the cells."""
        return self.rows(
            "SELECT embeddings, stage, hidden, dropout, others, seed FROM cell "
            "WHERE state = 'feasible' ORDER BY number"
        )


TPE = """\
    grid: {lr: {from: 1e-4, to: 1e-2, log: true}, dropout: [0.0, 0.2, 0.5]}
    seeds: [0, 1]
    search: {optuna: tpe, trials_per_arm: 7}
"""


def by_lr(trial) -> float:
    """Best at lr 1e-3; the subset does not matter."""
    return 1.0 - abs(log10(trial.factors["lr"]) + 3) / 4


@pytest.mark.parametrize("sampler", ["tpe", "gp", "random", "qmc"])
def test_every_subset_gets_its_budget_after_two_interruptions(tmp_path, sampler):
    launches = Launches(tmp_path, TPE.replace("tpe", sampler), value=by_lr)
    assert len(launches.plan.cells) == 3 * 7 * 2
    launches.launch(at_most=11, at_once=3)
    launches.launch(at_most=8, at_once=2)
    launches.launch()
    assert launches.rows("SELECT DISTINCT state FROM trial") == [("complete",)]
    assert Counter(launches.trained) == dict.fromkeys(launches.trained, 1)
    points = launches.points()
    assert Counter(subset for subset, *_ in points) == {"Pos": 14, "Pos+Log": 14, "none": 14}
    for subset in ("Pos", "Pos+Log", "none"):
        of_one_seed = [p[2:5] for p in points if p[0] == subset and p[5] == 0]
        assert len(set(of_one_seed)) == 7
        assert of_one_seed == [p[2:5] for p in points if p[0] == subset and p[5] == 1]
    told = launches.rows("SELECT state, count(*) FROM trials WHERE state != 'FAIL' GROUP BY 1")
    assert told == [("COMPLETE", 21)]


def test_an_interrupted_search_asks_for_the_same_points_as_one_in_one_go(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    in_one_go = Launches(whole, TPE, value=by_lr)
    in_one_go.launch()
    interrupted = Launches(cut, TPE, value=by_lr)
    for _ in range(3):
        interrupted.launch(at_most=9)
    interrupted.launch()
    assert interrupted.points() == in_one_go.points()


def test_contenders_start_with_the_same_points(tmp_path):
    launches = Launches(tmp_path, TPE, value=by_lr)
    launches.launch()
    first = {subset: [] for subset in ("Pos", "Pos+Log", "none")}
    for subset, *point, seed in launches.points():
        if seed == 0:
            first[subset].append(point)
    # TPE draws its first two without looking at results.
    assert first["Pos"][:2] == first["Pos+Log"][:2] == first["none"][:2]


GRID = """\
    grid: {dropout: [0.0, 0.2, 0.5], tau: [1, 60], heads: [1, 2]}
    seeds: [0]
    search: {optuna: tpe, trials_per_arm: 12}
"""


@pytest.mark.parametrize("sampler", ["tpe", "brute"])
def test_a_grid_never_repeats_a_point_and_says_where_it_has_no_more(tmp_path, sampler):
    launches = Launches(tmp_path, GRID.replace("tpe", sampler), value=lambda _: 0.5)
    launches.launch(at_most=5, at_once=4)
    launches.launch(at_once=4)
    assert len(launches.trained) == len(set(launches.trained)) == 6 + 6 + 6
    # Without a relative embedding tau is not read; with one head there is no place for two.
    found = launches.rows("SELECT embeddings, state, count(*) FROM cell GROUP BY 1, 2")
    assert sorted(found) == [
        ("Pos", "feasible", 6),
        ("Pos", "infeasible", 6),
        ("Pos+Log", "feasible", 6),
        ("Pos+Log", "infeasible", 6),
        ("none", "feasible", 6),
        ("none", "infeasible", 6),
    ]
    [(reason,)] = launches.rows("SELECT DISTINCT reason FROM cell WHERE state = 'infeasible'")
    assert reason.startswith("the search needs 12 different points, this subset has 6")


def diverges_above_3e_3(trial) -> float | None:
    return None if trial.factors["lr"] > 3e-3 else by_lr(trial)


def test_a_failed_point_counts_unless_the_study_says_that_it_is_replaced(tmp_path):
    counted, replaced = tmp_path / "counted", tmp_path / "replaced"
    counted.mkdir()
    replaced.mkdir()
    random = TPE.replace("tpe", "random")
    as_they_are = Launches(counted, random, value=diverges_above_3e_3)
    as_they_are.launch()
    assert as_they_are.rows("SELECT count(*) FROM cell WHERE state = 'feasible'") == [(42,)]
    assert as_they_are.rows("SELECT count(*) FROM trial WHERE state = 'failed'") != [(0,)]
    again = Launches(
        replaced,
        random.replace("trials_per_arm: 7", "trials_per_arm: 7, failed: replaced"),
        value=diverges_above_3e_3,
    )
    again.launch(at_most=13, at_once=3)
    again.launch()
    joined = "FROM cell JOIN trial ON trial.id = cell.trial"
    assert again.rows(f"SELECT trial.state, count(*) {joined} GROUP BY 1") == [("complete", 42)]
    assert again.rows("SELECT count(*) FROM trial WHERE state = 'failed'") != [(0,)]
    again.launch()
    assert again.rows(f"SELECT trial.state, count(*) {joined} GROUP BY 1") == [("complete", 42)]


def test_replacing_ends_where_everything_fails(tmp_path):
    launches = Launches(
        tmp_path,
        TPE.replace("trials_per_arm: 7", "trials_per_arm: 2, failed: replaced"),
        value=lambda _: None,
    )
    launches.launch()
    # Two points and two in their place, each given up after the first of its seeds.
    assert launches.rows("SELECT count(*) FROM trial WHERE state = 'failed'") == [(12 + 6,)]


CONFIRMED = """\
    grid: {lr: {from: 1e-4, to: 1e-2, log: true}}
    seeds: [0]
    search: {optuna: random, trials_per_arm: 5}
    screen: {epochs: 2}
    confirm: {best: 2, seeds: [7, 8]}
"""


def test_the_best_points_of_each_subset_are_confirmed_in_full_on_new_seeds(tmp_path):
    launches = Launches(tmp_path, CONFIRMED, value=by_lr)
    launches.launch(at_most=4)
    launches.launch(at_most=13, at_once=2)
    launches.launch()
    assert len(launches.plan.cells) == 3 * 5 + 3 * 2 * 2 == len(launches.trained)
    results = launches.rows(
        'SELECT embeddings, stage, lr, epochs, seed, "validation_ndcg@10" FROM results'
    )
    for subset in ("Pos", "Pos+Log", "none"):
        screened = [row for row in results if row[:2] == (subset, "screen")]
        assert {row[3:5] for row in screened} == {(2, 0)}
        best = sorted(screened, key=lambda row: -row[5])[:2]
        confirmed = [row[2:5] for row in results if row[:2] == (subset, "final")]
        assert sorted(confirmed) == sorted((row[2], 4, seed) for row in best for seed in (7, 8))


def test_a_grid_is_screened_and_confirmed_too(tmp_path):
    grid = "    grid: {dropout: [0.0, 0.2, 0.5]}\n    confirm: {best: 1, seeds: [7]}\n"
    launches = Launches(tmp_path, grid, value=lambda trial: trial.factors["dropout"])
    launches.launch(at_most=5)
    launches.launch()
    assert launches.rows(
        "SELECT embeddings, dropout, seed FROM cell WHERE stage = 'final' ORDER BY number"
    ) == [("Pos", 0.5, 7), ("Pos+Log", 0.5, 7), ("none", 0.5, 7)]


def test_what_cannot_be_confirmed_is_infeasible(tmp_path):
    grid = "    grid: {dropout: [0.0, 0.2, 0.5]}\n    confirm: {best: 3, seeds: [7]}\n"

    def diverges_with_dropout(trial):
        return 0.5 if trial.factors["dropout"] == 0 else None

    launches = Launches(tmp_path, grid, value=diverges_with_dropout)
    launches.launch()
    found = launches.rows(
        "SELECT state, reason, count(*) FROM cell WHERE stage = 'final' GROUP BY 1, 2"
    )
    assert found == [
        ("feasible", None, 3),
        ("infeasible", "only 1 points of this subset were trained to their end", 6),
    ]


def test_more_seeds_train_the_new_cells_only(tmp_path):
    launches = Launches(tmp_path, TPE, value=by_lr)
    launches.launch()
    trained = list(launches.trained)
    more = Launches(tmp_path, TPE.replace("[0, 1]", "[0, 1, 2]"), value=by_lr)
    more.launch()
    assert len(more.trained) == 3 * 7
    assert not set(more.trained) & set(trained)


def test_a_smaller_budget_leaves_points_out_and_keeps_their_results(tmp_path):
    Launches(tmp_path, TPE, value=by_lr).launch()
    fewer = Launches(tmp_path, TPE.replace("arm: 7", "arm: 3"), value=by_lr)
    fewer.launch()
    assert fewer.trained == []
    assert len(fewer.points()) == 3 * 3 * 2
    assert fewer.rows("SELECT count(*) FROM trial WHERE state = 'complete'") == [(42,)]


def test_another_grid_is_searched_anew(tmp_path):
    Launches(tmp_path, TPE, value=by_lr).launch()
    other = Launches(tmp_path, TPE.replace("1e-4", "1e-3"), value=by_lr)
    other.launch()
    assert len(other.trained) == 42
    assert {point[4] for point in other.points()}.isdisjoint({"{}"})


RACES = """\
    grid: {dropout: [0.0, 0.1, 0.2, 0.3, 0.4, 0.5], epochs: 9}
    seeds: [0, 1]
    stop_early: {hyperband: {grace: 2, reduction: 2, brackets: 2}}
"""


def test_trials_race_those_of_their_subset_and_seed(tmp_path):
    launches = Launches(tmp_path, RACES, value=lambda _: 0.5)
    with Store.open(launches.url) as store, store.claim():
        supply = search_supply(launches.plan, store)
        store.record_plan(supply.plan)
        supply.start()
        races = Counter()
        while (trial := supply.take()) is not None:
            races[supply.race(trial)] += 1
    # Three subsets, two seeds, two brackets that six points take in turns.
    assert len(races) == 3 * 2 * 2
    assert set(races.values()) == {3}
    assert {(race.first, race.reduction, race.last) for race in races} == {(2, 2, 9), (4, 2, 9)}


def test_a_race_goes_on_in_the_next_launch_and_losers_stay_out(tmp_path):
    launches = Launches(tmp_path, RACES, value=lambda _: 0.5)
    with Store.open(launches.url) as store, store.claim():
        supply = search_supply(launches.plan, store)
        store.record_plan(supply.plan)
        supply.start()
        trial = supply.take()
        attempt = store.begin_attempt(trial.id, ENVIRONMENT)
        for number, value in ((1, 0.1), (2, 0.2)):
            epoch = report(number, ndcg=value)
            store.record_epoch(trial.id, attempt, epoch)
            supply.observe(EpochEnded(trial.id, epoch))
        store.censor(trial.id, attempt, epoch=2)
        supply.observe(Censored(trial.id, 2))
    with Store.open(launches.url) as store, store.claim():
        supply = search_supply(launches.plan, store)
        store.record_plan(supply.plan)
        supply.start()
        left = []
        while (other := supply.take()) is not None:
            left.append(other)
        assert trial.id not in {other.id for other in left}
        assert len(left) == 3 * 6 * 2 - 1
        race = supply.race(trial)
        assert supply.run_before(race) == {trial.id: ((1, 0.1), (2, 0.2))}
        assert [supply.run_before(supply.race(t)) for t in left if supply.race(t) != race] == [
            {}
        ] * (len(left) - 2)


def test_a_trial_that_another_study_stopped_is_trained_in_full_where_it_is_wanted(tmp_path):
    launches = Launches(tmp_path, RACES, value=lambda _: 0.5)
    with Store.open(launches.url) as store, store.claim():
        store.record_plan(launches.plan)
        (trial, *_) = launches.plan.trials
        store.censor(trial, store.begin_attempt(trial, ENVIRONMENT), epoch=2)
    confirmed = "    confirm: {best: 1, seeds: [7]}\n"
    whole = RACES.replace(
        "    stop_early: {hyperband: {grace: 2, reduction: 2, brackets: 2}}\n", ""
    )
    full = Launches(tmp_path, whole + confirmed, value=lambda _: 0.5)
    full.launch()
    assert trial in full.trained


def test_a_point_that_was_stopped_is_told_to_optuna_as_far_as_it_came(tmp_path):
    stopped = TPE + "    stop_early: {asha: {grace: 1, reduction: 2}}\n"
    launches = Launches(tmp_path, stopped, value=by_lr)
    with Store.open(launches.url) as store, store.claim():
        supply = search_supply(launches.plan, store)
        store.record_plan(supply.plan)
        supply.start()
        for value in (0.25, 0.75):  # both seeds of the first point
            trial = supply.take()
            attempt = store.begin_attempt(trial.id, ENVIRONMENT)
            epoch = report(1, ndcg=value)
            store.record_epoch(trial.id, attempt, epoch)
            supply.observe(EpochEnded(trial.id, epoch))
            store.censor(trial.id, attempt, epoch=1)
            supply.observe(Censored(trial.id, 1))
    assert launches.rows("SELECT state FROM trials WHERE state != 'RUNNING'") == [("PRUNED",)]
    assert launches.rows("SELECT step, intermediate_value FROM trial_intermediate_values") == [
        (1, 0.5)
    ]


def test_a_continued_training_tells_its_epochs_again_and_each_counts_once(tmp_path):
    stopped = TPE + "    stop_early: {asha: {grace: 1, reduction: 2}}\n"
    launches = Launches(tmp_path, stopped, value=by_lr)
    with Store.open(launches.url) as store, store.claim():
        supply = search_supply(launches.plan, store)
        store.record_plan(supply.plan)
        supply.start()
        # Of both seeds of the first point, the first is lost after an epoch and continued.
        for values in ([0.25, 0.25], [0.75]):
            trial = supply.take()
            attempt = store.begin_attempt(trial.id, ENVIRONMENT)
            for value in values:
                supply.observe(EpochEnded(trial.id, report(1, ndcg=value)))
            store.censor(trial.id, attempt, epoch=1)
            supply.observe(Censored(trial.id, 1))
    assert launches.rows("SELECT step, intermediate_value FROM trial_intermediate_values") == [
        (1, 0.5)
    ]


class AwayOnce(Store):
    """A store that is away the first time that points are recorded."""

    away = 1

    def record_points(self, *what, **more):
        if self.away:
            self.away -= 1
            raise OperationalError("DELETE", {}, OSError("server closed the connection"))
        super().record_points(*what, **more)


def test_a_store_that_is_away_when_a_point_is_chosen_costs_nothing(tmp_path):
    launches = Launches(tmp_path, TPE, value=by_lr)
    pauses = []
    with AwayOnce.open(launches.url) as store, store.claim():
        supply = search_supply(launches.plan, store, persistence=Persistence(pause=pauses.append))
        store.record_plan(supply.plan)
        supply.start()
        assert supply.take() is not None
    assert pauses == [0.5]
    assert len(launches.points()) == 2  # both seeds of the first point


def test_the_study_of_the_page_about_search_is_as_the_page_says(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "search.md").read_text(encoding="utf-8")
    path = tmp_path / "studies.yaml"
    path.write_text(page.split("```yaml\n")[1].split("```")[0])
    file = load_studies(path)
    what = plan(study_named(file, "ml-100k-search"), file)
    assert len(what.cells) == 63 * 16 + 63 * 2 * 3
    assert len(what.unasked) == len(what.cells)
    for sampler in get_args(Sampler):
        assert f"`{sampler}`" in page


@pytest.mark.parametrize(("declared", "ahead"), [(TPE, 2), (RACES, 32)])
def test_trials_are_taken_far_ahead_only_where_no_result_chooses_them(tmp_path, declared, ahead):
    launches = Launches(tmp_path, declared, value=by_lr)
    with Store.open(launches.url) as store, store.claim():
        assert search_supply(launches.plan, store).ahead == ahead
    assert Declared([]).ahead == 32
