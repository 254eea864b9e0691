"""The arms of one group that figures compare: one for each subset, under a named mode."""

import hashlib
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis import modes
from analysis.captions import candidates
from analysis.families import OWN_SEEDS, Pooled, pooled, pooling_sentence
from analysis.gallery.means import coverage, varied
from analysis.material import Material, NotDrawn
from analysis.modes import Compared
from analysis.per_user import Arm, arms_of
from analysis.power import t_needed_sentence
from analysis.statistics import MIN_SEEDS
from analysis.tables import PROBLEM_FACTORS, Group, measure
from model.errors import RequestError

METRIC = "test_ndcg@10"
LEVEL = 0.95
SIGNIFICANT = 0.05
"""Holm's p below which a mark stands; the error rate of a figure's family."""

HELD = ("model", "heads", *PROBLEM_FACTORS)
"""Factors that are held: other questions, and other capacities."""

OPTIMISM_SEED = 0
"""Of the draws of users that show how much choosing flatters validation: the same every time."""


class Board(NamedTuple):
    """Comparable arms.

    Attributes:
        group: the cells that they come from.
        arms: one for each compared subset, in declared order.
        compared: how hyperparameter points were treated, and which subset validation names best.
        pool: the seeds' error common to all arms, None where each pair has its own.
        pooling: which of the two, a sentence.
        notes: sentences that every caption on these arms states.
    """

    group: Group
    arms: tuple[Arm, ...]
    compared: Compared
    pool: Pooled | None
    pooling: str
    notes: tuple[str, ...]

    @property
    def mode(self) -> str:
        """The mode that made the arms comparable: `same` where there was one point to choose."""
        one = not self.compared.closed and len(self.compared.points) == 1
        return "same" if one else self.compared.mode

    def arm(self, subset: str) -> Arm:
        """Return a subset's arm."""
        return next(arm for arm in self.arms if arm.subset == subset)

    @property
    def best(self) -> Arm:
        """The best arm by validation."""
        return self.arm(self.compared.best)

    @property
    def reference(self) -> Arm:
        """What others are compared with: no embedding where it was measured, else the best."""
        return self.arm("none") if any(arm.subset == "none" for arm in self.arms) else self.best

    @property
    def n_seeds(self) -> int:
        """The most seeds that an arm has."""
        return max(len(arm.seeds) for arm in self.arms)


def board(group: Group, material: Material) -> Board:
    """Return the comparable arms of a group.

    Raises:
        RequestError: fewer than two subsets have a complete trial at a shared point.
    """
    cells = group.cells
    grid = varied(cells, material.factors)
    validation = arms_of(cells, material.validation, grid, repeats=True)
    shown = arms_of(cells, material.values, grid, repeats=True)
    match material.mode:
        case "same":
            compared = modes.same(validation, shown)
        case "marginal":
            compared = modes.marginal(validation, shown)
        case "tuned":
            compared = modes.tuned(validation, shown, np.random.default_rng(OPTIMISM_SEED))
    if len(compared.arms) < 2:
        raise RequestError(f"a comparison needs two subsets, got {len(compared.arms)}")
    # Points are told in the caption; here a subset has one arm and is called by its name.
    arms = tuple(arm._replace(point=()) for arm in compared.arms)
    pool, pooling = _pool(arms) if material.pool_seeds else (None, OWN_SEEDS)
    column = measure(METRIC)
    seeds = sorted({len(arm.seeds) for arm in arms})
    many = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    only = len({arm.point for arm in validation}) == 1
    how = (
        "All subsets at the same hyperparameters (mode: same)."
        if only
        else f"{compared.sentence} (Mode: {material.mode}.)"
    )
    return Board(
        group=group,
        arms=arms,
        compared=compared,
        pool=pool,
        pooling=pooling,
        notes=(
            coverage(cells, int((cells["counted"] & cells[METRIC].notna()).sum())),
            f"{column.split.capitalize()} {column.title} per user, read at the best validation "
            f"epoch; {candidates(column.protocol, cells)}; {many} "
            f"seed{'s' if seeds[-1] > 1 else ''}.",
            how,
        ),
    )


@lru_cache(maxsize=1)
def boards(material: Material) -> tuple[Board, ...]:
    """Return the board of each data set at each level of what is held; once for all figures.

    Raises:
        NotDrawn: no group has two subsets with a complete trial at a shared point.
    """
    found, reasons = [], []
    for group in material.groups(HELD):
        try:
            found.append(board(group, material))
        except RequestError as error:
            reasons.append(str(error))
    if not found:
        raise NotDrawn("; ".join(dict.fromkeys(reasons)) or "no cell has a subset of embeddings")
    return tuple(found)


def uncertainty(of: Board, *, family: int = 0, drawn: bool = True) -> tuple[str, ...]:
    """Say what intervals let vary, how the seeds' error was estimated, and what it can settle.

    Args:
        of: the board.
        family: comparisons that Holm adjusts for; 0 for none.
        drawn: whether the figure draws the intervals; else its pages show them on pointing.
    """
    if of.n_seeds < MIN_SEEDS:
        return (
            "One seed: intervals let users vary alone, how far another seed would move a value is "
            "unknown, and no significance is claimed.",
        )
    what = f"{LEVEL:.0%} intervals" if drawn else f"Holm's p and {LEVEL:.0%} intervals (on pages)"
    alone = ", each on its own, not adjusted as p is" if drawn and family else ""
    sentences = [f"{what} let users and seeds vary (variance components){alone}. {of.pooling}"]
    if family and of.pool is None:
        sentences.append(t_needed_sentence(seeds=of.n_seeds, family=family))
    return tuple(sentences)


def with_users(rows: pd.DataFrame, material: Material) -> pd.DataFrame:
    """Add a hash of each cell's per-user values to a figure's rows, which stay one a cell."""
    return rows.assign(
        users_sha256=[_digest(material, trial) for trial in rows["trial"]],
    )


def _digest(material: Material, trial: str) -> str:
    parts = [
        values[trial].tobytes()
        for values in (material.validation, material.values)
        if trial in values
    ]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16] if parts else ""


def _pool(arms: tuple[Arm, ...]) -> tuple[Pooled | None, str]:
    """Pool the seeds' error over all arms where they share seeds, and say what was done."""
    try:
        found = pooled(arms)
    except RequestError:
        return None, f"{OWN_SEEDS} Pooling needs two seeds that all subsets have complete."
    return found, pooling_sentence(found)
