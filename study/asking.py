"""Points asked of Optuna, one Optuna study for each contender, kept in the results database.

Optuna's tables are the record of what was asked, in order; whatever becomes of this process, the
next one finds every point that it asked for. The sampler is made anew for every question, seeded
by the study's seed and the number of the question, so that interruptions do not change what comes.
All contenders are asked with the same seeds: where nothing is learned yet, they try like points.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import Engine

from model.config import DatasetConfig
from model.errors import RequestError
from study.contenders import Contender
from study.ranges import Range
from study.space import Value
from study.strategy import Search
from study.supply import Course
from study.trial import NUMERICS, SCHEME

TRIES = 10
"""How often a sampler may repeat itself before a point that is new is taken for it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A legal point, different from those asked before.

    Attributes:
        number: of the trial in the contender's Optuna study.
        point: a value for every factor.
        answered: whether Optuna was told what became of it.
        failed: whether it was told that it failed.
    """

    number: int
    point: dict[str, Value]
    answered: bool = False
    failed: bool = False


class Asking:
    """Asks Optuna for points and tells it what they gave.

    Args:
        engine: the results database, open for writing, its schema in place.
        study: name of our study.
        search: how to ask.
    """

    def __init__(self, engine: Engine, *, study: str, search: Search) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._search = search
        self._study = study
        self._storage = optuna.storages.get_storage(_storage(engine))
        self._studies: dict[str, optuna.Study] = {}

    def asked(self, contender: Contender) -> tuple[Asked, ...]:
        """Return the points asked so far, in order.

        Questions that gave no point, because it is illegal or was asked before, are closed.
        """
        study, seen, points = self._of(contender), set[str](), list[Asked]()
        for trial in study.get_trials(deepcopy=False):
            if trial.state == TrialState.WAITING:  # the next question takes it
                continue
            point = _point(contender, trial)
            if point is None or (first := contender.first_id(point)) in seen:
                self.tell_failed(contender, trial.number)
                continue
            seen.add(first)
            failed = trial.state == TrialState.FAIL
            points.append(Asked(trial.number, point, trial.state.is_finished(), failed))
        return tuple(points)

    def ask(self, contender: Contender, *, known: Sequence[Asked]) -> Asked | None:
        """Return a new legal point; None where the contender has no other one."""
        seen = {contender.first_id(asked.point) for asked in known}
        brute = self._search.optuna == "brute"
        for _ in range(0 if brute else TRIES):
            point = self._drawn(contender, enqueued=None)
            if point is not None:
                if contender.first_id(point.point) not in seen:
                    return point
                self.tell_failed(contender, point.number)
        shuffle = np.random.default_rng(self._search.seed).permutation
        for new in contender.different(shuffle):
            if contender.first_id(new) not in seen:
                chosen = {name: new[name] for name in contender.open}
                return self._drawn(contender, enqueued=chosen)
        return None

    def tell(self, contender: Contender, number: int, *, value: float) -> None:
        """Say what a point gave: the mean over seeds of the best validation NDCG@10."""
        self._of(contender).tell(number, value, skip_if_finished=True)

    def tell_stopped(self, contender: Contender, number: int, *, course: Course) -> None:
        """Say how far a point came that was stopped early."""
        study = self._of(contender)
        trial = next(t for t in study.get_trials(deepcopy=False) if t.number == number)
        if not trial.state.is_finished():
            for epoch, value in course:
                self._storage.set_trial_intermediate_value(trial._trial_id, epoch, value)
        study.tell(number, state=TrialState.PRUNED, skip_if_finished=True)

    def tell_failed(self, contender: Contender, number: int) -> None:
        """Say that a point has no value."""
        self._of(contender).tell(number, state=TrialState.FAIL, skip_if_finished=True)

    def _drawn(self, contender: Contender, *, enqueued: Mapping[str, Value] | None) -> Asked | None:
        """Ask once; None if the point is illegal, which closes the question."""
        study = self._of(contender)
        if enqueued is not None:
            study.enqueue_trial(dict(enqueued))
        n_asked = len(study.get_trials(deepcopy=False))
        with _quiet(), _written():
            study.sampler = _sampler(self._search, n_asked)
            trial = study.ask(_distributions(contender))
        point = contender.point(trial.params)
        if contender.reason(point) is not None:
            self.tell_failed(contender, trial.number)
            return None
        return Asked(trial.number, point)

    def _of(self, contender: Contender) -> optuna.Study:
        if contender.name not in self._studies:
            name = f"{self._study}: {contender.name} ({_digest(contender)})"
            with _quiet(), _written():
                self._studies[contender.name] = optuna.create_study(
                    storage=self._storage,
                    study_name=name,
                    direction="maximize",
                    load_if_exists=True,
                )
        return self._studies[contender.name]


def _storage(engine: Engine) -> RDBStorage:
    """Open Optuna's storage; the caller holds the launch lock, so nobody else creates it now."""
    with _written():
        return RDBStorage(
            engine.url.render_as_string(hide_password=False),
            engine_kwargs={"connect_args": {"timeout": 30}}
            if engine.dialect.name == "sqlite"
            else None,
        )


def _digest(contender: Contender) -> str:
    """Hash what makes points comparable: another grid or data preparation begins anew."""
    dataset: DatasetConfig = contender.dataset
    choices = {
        name: values.model_dump() if isinstance(values, Range) else list(values)
        for name, values in contender.choices.items()
    }
    text = json.dumps([SCHEME, NUMERICS, dataset.model_dump(mode="json"), choices], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _point(contender: Contender, trial: FrozenTrial) -> dict[str, Value] | None:
    """Return the point of a question; None if it is illegal, or was left before it was whole."""
    if trial.params.keys() != contender.open.keys():
        return None
    point = contender.point(trial.params)
    return point if contender.reason(point) is None else None


def _distributions(contender: Contender) -> dict[str, BaseDistribution]:
    return {name: _distribution(choice) for name, choice in contender.open.items()}


def _distribution(choice: tuple[Value, ...] | Range) -> BaseDistribution:
    if not isinstance(choice, Range):
        return CategoricalDistribution(tuple(dict.fromkeys(choice)))
    if isinstance(choice.low, int):
        step = 1 if choice.step is None else int(choice.step)
        return IntDistribution(choice.low, choice.high, log=choice.log, step=step)
    return FloatDistribution(choice.low, choice.high, log=choice.log, step=choice.step)


def _sampler(search: Search, n_asked: int) -> optuna.samplers.BaseSampler:
    """Return the sampler for the question after so many; equal questions get equal samplers."""
    digest = hashlib.sha256(f"{search.seed} {n_asked}".encode()).digest()
    seed = int.from_bytes(digest[:4], "big")
    first = max(2, min(10, search.trials_per_arm // 3))
    samplers: dict[str, Callable[[], optuna.samplers.BaseSampler]] = {
        "tpe": lambda: optuna.samplers.TPESampler(seed=seed, n_startup_trials=first),
        "gp": lambda: optuna.samplers.GPSampler(seed=seed, n_startup_trials=first),
        "random": lambda: optuna.samplers.RandomSampler(seed=seed),
        "brute": lambda: optuna.samplers.RandomSampler(seed=seed),  # its points are enqueued
        # The sequence goes on by what the study holds; only its scrambling has a seed.
        "qmc": lambda: optuna.samplers.QMCSampler(
            seed=search.seed,
            scramble=True,
            independent_sampler=optuna.samplers.RandomSampler(seed=seed),
            warn_independent_sampling=False,
        ),
    }
    return samplers[search.optuna]()


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


@contextmanager
def _written() -> Iterator[None]:
    try:
        yield
    except StorageInternalError as error:
        reason = str(error.__cause__ or error).strip().splitlines()[0]
        raise RequestError(
            f"Optuna's tables must be written beside the results, got: {reason}; free space or "
            "bring the database back, then launch again: what it holds is safe"
        ) from error
