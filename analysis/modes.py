"""Three ways to compare subsets over a grid of hyperparameters, each fair in its own sense.

- `same`: every subset at one and the same point, which suits some better than others.
- `tuned`: every subset at its own best point, chosen on validation over the same points for all;
  the test value is the one of that point, and how much choosing flatters validation is shown.
- `marginal`: every subset's mean over the grid, which punishes a subset for points that nobody
  would use it at.

Points that are infeasible for one of the compared subsets are open to none. The test split is read
for what was chosen and never chooses; the best subset, too, is named by validation.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from analysis.per_user import Arm
from model.errors import RequestError

Mode = Literal["same", "tuned", "marginal"]

DRAWS = 1000
"""Bootstrap draws of users that the optimism of choosing is averaged over."""

Point = tuple[tuple[str, str], ...]
"""(factor, level as text) of every swept factor."""


class Choice(NamedTuple):
    """What one subset is represented by.

    Attributes:
        subset: label of its embeddings.
        point: the chosen point; of `marginal` empty.
        validation: mean validation value of what was chosen.
        arm: its values on the split that is shown, for paired comparisons.
        optimism: how much higher validation looks on the users that chose the point than on
            others; 0 where nothing was chosen, NaN where it is unknown.
    """

    subset: str
    point: Point
    validation: float
    arm: Arm
    optimism: float


class Compared(NamedTuple):
    """Subsets made comparable.

    Attributes:
        mode: how.
        choices: one per compared subset, in declared order.
        points: the points that were open to every subset.
        closed: points that are not, because one of the subsets lacks them.
        left_out: subsets without a complete arm at any open point.
        best: subset with the highest `validation`, never chosen by test.
        sentence: what a caption says of the mode.
    """

    mode: Mode
    choices: tuple[Choice, ...]
    points: tuple[Point, ...]
    closed: tuple[Point, ...]
    left_out: tuple[str, ...]
    best: str
    sentence: str

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The compared arms, for `analysis.families`."""
        return tuple(choice.arm for choice in self.choices)


def same(validation: Sequence[Arm], shown: Sequence[Arm], point: Point | None = None) -> Compared:
    """Compare all subsets at one point.

    Args:
        validation: arms with validation values, duplicates included (`arms_of(repeats=True)`).
        shown: the same arms with the values to show.
        point: which; default the open one with the best mean validation over subsets.

    Raises:
        RequestError: no point is open to all subsets, or the one asked for is not.
    """
    table = _Table(validation, shown)
    if point is None:
        point = max(
            table.points, key=lambda one: np.mean([table.valid[s, one].mean for s in table.subsets])
        )
    elif point not in table.points:
        raise RequestError(
            f"a point must be complete for all compared subsets, got {_said(point)}; "
            f"choose {' or '.join(_said(one) for one in table.points[:3])}"
        )
    choices = tuple(table.choice(subset, point, 0.0) for subset in table.subsets)
    sentence = f"All subsets at one hyperparameter point: {_said(point)}."
    return table.compared("same", choices, sentence)


def tuned(
    validation: Sequence[Arm], shown: Sequence[Arm], generator: np.random.Generator
) -> Compared:
    """Compare each subset at its best point on validation, over the same points for all.

    The optimism of choosing is estimated by bootstrap over users: in each draw the point is chosen
    on the drawn users and read on those that were not drawn.

    Args:
        validation: arms with validation values, duplicates included (`arms_of(repeats=True)`).
        shown: the same arms with the values to show.
        generator: draws the users.

    Raises:
        RequestError: no point is open to all subsets.
    """
    table = _Table(validation, shown)
    users = next(iter(table.valid.values())).values.shape[1]
    drawn = generator.multinomial(users, np.full(users, 1 / users), size=DRAWS)
    choices = []
    for subset in table.subsets:
        candidates = [table.valid[subset, point] for point in table.points]
        best = int(np.argmax([arm.mean for arm in candidates]))
        flattery = _optimism(candidates, drawn)
        choices.append(table.choice(subset, table.points[best], flattery))
    count = len(table.points)
    flattered = float(np.mean([choice.optimism for choice in choices]))
    sentence = (
        f"Each subset at its best of the same {count} hyperparameter points, chosen on validation; "
        f"choosing flatters validation by {flattered:.4f} on average, and test not at all."
        if count > 1
        else "Each subset at the only hyperparameter point that is open to all."
    )
    return table.compared("tuned", tuple(choices), sentence)


def marginal(validation: Sequence[Arm], shown: Sequence[Arm]) -> Compared:
    """Compare each subset's mean over the points that are open to all.

    Args:
        validation: arms with validation values, duplicates included (`arms_of(repeats=True)`).
        shown: the same arms with the values to show.

    Raises:
        RequestError: no point is open to all subsets, or a subset has no seed at all of them.
    """
    table = _Table(validation, shown)
    choices = []
    for subset in table.subsets:
        averages = [
            _average([values[subset, point] for point in table.points])
            for values in (table.valid, table.shown)
        ]
        choices.append(Choice(subset, (), averages[0].mean, averages[1], 0.0))
    sentence = f"Mean over the same {len(table.points)} hyperparameter points for every subset."
    return table.compared("marginal", tuple(choices), sentence)


class _Table:
    """Arms by subset and point, and the points that every subset has."""

    def __init__(self, validation: Sequence[Arm], shown: Sequence[Arm]) -> None:
        self.valid = {(arm.subset, arm.point): arm for arm in validation if arm.seeds}
        self.shown = {(arm.subset, arm.point): arm for arm in shown if arm.seeds}
        declared = list(dict.fromkeys(arm.subset for arm in validation))
        complete = self.valid.keys() & self.shown.keys()
        self.subsets = [name for name in declared if any(name == s for s, _ in complete)]
        self.left_out = tuple(name for name in declared if name not in self.subsets)
        every = list(dict.fromkeys(arm.point for arm in validation))
        self.points = [p for p in every if all((s, p) in complete for s in self.subsets)]
        self.closed = tuple(point for point in every if point not in self.points)
        if not self.subsets or not self.points:
            raise RequestError(
                "subsets are compared on hyperparameter points that all of them have complete, "
                f"got {len(self.subsets)} subsets and {len(every)} points, none in common; "
                "launch what is missing or compare fewer subsets"
            )

    def choice(self, subset: str, point: Point, optimism: float) -> Choice:
        key = (subset, point)
        return Choice(subset, point, self.valid[key].mean, self.shown[key], optimism)

    def compared(self, mode: Mode, choices: tuple[Choice, ...], sentence: str) -> Compared:
        best = max(choices, key=lambda choice: choice.validation)
        if self.closed:
            sentence += (
                f" {len(self.closed)} further points are left out: not every compared subset has "
                "them complete."
            )
        short = sum(len(choice.arm.seeds) < choice.arm.declared for choice in choices)
        if short:
            sentence += f" {short} of {len(choices)} subsets lack a seed."
        return Compared(
            mode, choices, tuple(self.points), self.closed, self.left_out, best.subset, sentence
        )


def _optimism(candidates: Sequence[Arm], drawn: np.ndarray) -> float:
    """Return in-bag minus out-of-bag validation of the point that in-bag users choose."""
    by_user = np.stack([arm.values.mean(axis=0) for arm in candidates])
    drawn = drawn[(drawn == 0).any(axis=1)]
    if not len(drawn):
        return float("nan")
    inside = drawn @ by_user.T / drawn.sum(axis=1, keepdims=True)
    away = (drawn == 0).astype(np.float64)
    outside = away @ by_user.T / away.sum(axis=1, keepdims=True)
    rows = np.arange(len(drawn))
    chosen = inside.argmax(axis=1)
    return float((inside[rows, chosen] - outside[rows, chosen]).mean())


def _average(arms: Sequence[Arm]) -> Arm:
    """Average arms of a subset over points, on the seeds that all of them have."""
    seeds = sorted(set.intersection(*(set(arm.seeds) for arm in arms)))
    if not seeds:
        raise RequestError(
            f"a mean over the grid needs one seed complete at every point, {arms[0].subset} has "
            "none; launch the study until it has"
        )
    values = np.mean([arm.values[[arm.seeds.index(s) for s in seeds]] for arm in arms], axis=0)
    return arms[0]._replace(point=(), seeds=tuple(seeds), values=values)


def _said(point: Point) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in point) or "the only one"
