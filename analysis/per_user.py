"""Arms as arrays, seeds x users, of one metric: what paired comparisons are made from.

Values come from the stored counts per user under the same tie rule as every mean in the store.
Only complete trials count; a seed that an arm lacks is not made up for.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sqlalchemy import Engine, and_, select

from analysis.coverage import declared_cells
from analysis.statistics import Values
from analysis.tables import Measure, level
from model import metrics
from model.errors import RequestError
from study.packing import unpack
from study.schema import CellRow, RankRow, TrialRow

PerUser = Mapping[str, NDArray[np.float64]]
"""Trial id -> value of each user, in the data set's user order."""


class Arm(NamedTuple):
    """The complete trials of one subset at one hyperparameter point.

    Attributes:
        dataset: data set.
        subset: label of the embeddings, such as `Day+Pos+Sin+Log`.
        point: (factor, level as text) of what tells arms of a subset apart.
        seeds: seeds of the rows, ascending.
        values: the metric per user, float64, shape (seeds, users).
        declared: seeds that the study declares for it.
    """

    dataset: str
    subset: str
    point: tuple[tuple[str, str], ...]
    seeds: tuple[int, ...]
    values: Values
    declared: int

    @property
    def name(self) -> str:
        """Subset and point: `Pos+Log, hidden 64`."""
        return ", ".join([self.subset, *(f"{k.replace('_', ' ')} {v}" for k, v in self.point)])

    @property
    def mean(self) -> float:
        """Mean over users and complete seeds; NaN without one."""
        return float(self.values.mean()) if self.values.size else float("nan")


def values_of(metric: str, greater: NDArray[np.int32], equal: NDArray[np.int32]) -> Values:
    """Return a metric per user from the counts above and equal to the target.

    Raises:
        RequestError: the metric is not `ndcg@K`, `recall@K` or `mrr`.

    >>> values_of("ndcg@10", np.array([0, 2]), np.array([0, 0])).round(4).tolist()
    [1.0, 0.5]
    """
    name, _, cut = metric.partition("@")
    if name == "mrr" and not cut:
        return metrics.mrr(greater, equal)
    if name in ("ndcg", "recall") and cut.isdigit() and int(cut) > 0:
        at = metrics.ndcg_at if name == "ndcg" else metrics.recall_at
        return at(int(cut), greater, equal=equal)
    raise RequestError(f"a metric per user is ndcg@K, recall@K or mrr, got {metric!r}")


def per_user(engine: Engine, study: str, column: Measure) -> PerUser:
    """Read one metric of every complete trial of a study, in one statement.

    Raises:
        RequestError: no such study or metric.
    """
    statement = (
        select(RankRow.trial, RankRow.greater, RankRow.equal)
        .select_from(CellRow)
        .join(TrialRow, and_(CellRow.trial == TrialRow.id, CellRow.state == "feasible"))
        .join(
            RankRow,
            and_(RankRow.trial == TrialRow.id, RankRow.attempt == TrialRow.result_attempt),
        )
        .where(
            CellRow.study == study,
            CellRow.stage == "final",
            TrialRow.state == "complete",
            RankRow.split == column.split,
            # A column without a protocol in its name is of the trial's own.
            RankRow.protocol == ("full" if column.protocol == "full" else TrialRow.protocol),
        )
        .order_by(CellRow.number)
    )
    with engine.connect() as connection:
        declared_cells(connection, study)
        return {
            row.trial: values_of(column.metric, unpack(row.greater), unpack(row.equal))
            for row in connection.execute(statement)
        }


def arms_of(
    measured: pd.DataFrame, values: PerUser, factors: Sequence[str], *, repeats: bool = False
) -> tuple[Arm, ...]:
    """Return the arms of cells that may be compared, in declared order.

    Args:
        measured: rows of one `analysis.tables.Group`.
        values: from `per_user`.
        factors: what tells arms of a subset apart.
        repeats: keep arms that only repeat trials of another; a choice between hyperparameter
            points needs them, a ranking of arms does not.
    """
    feasible = measured[measured["class"] != "infeasible"]
    if not repeats:
        by_own = feasible.sort_values("class", key=lambda kind: kind == "duplicate", kind="stable")
        feasible = by_own.drop_duplicates("trial").sort_index()
    # Once for all arms: text columns search a list slowly.
    feasible = feasible[["dataset", "embeddings", *factors, "seed", "trial"]].assign(
        complete=feasible["counted"] & feasible["trial"].map(values.__contains__)
    )
    found = []
    for (dataset, subset, *levels), cells in feasible.groupby(
        ["dataset", "embeddings", *factors], dropna=False, sort=False
    ):
        complete = cells[cells["complete"]].sort_values("seed")
        rows = [values[trial] for trial in complete["trial"]]
        found.append(
            Arm(
                dataset=str(dataset),
                subset=str(subset),
                point=tuple((k, level(v)) for k, v in zip(factors, levels, strict=True)),
                seeds=tuple(int(seed) for seed in complete["seed"]),
                values=np.stack(rows) if rows else np.zeros((0, 0)),
                declared=len(cells),
            )
        )
    return tuple(found)


def paired(first: Arm, second: Arm) -> tuple[Values, Values]:
    """Return the rows of the seeds that both arms have, in the same order.

    Raises:
        RequestError: they share no seed.
    """
    common = [seed for seed in first.seeds if seed in second.seeds]
    if not common:
        raise RequestError(
            f"arms are compared on seeds that both have, {first.name} has {list(first.seeds)} and "
            f"{second.name} {list(second.seeds)}; launch the study until they share one"
        )
    return (
        first.values[[first.seeds.index(seed) for seed in common]],
        second.values[[second.seeds.index(seed) for seed in common]],
    )
