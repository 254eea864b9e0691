"""Each model at the point that validation chose for it, and how far it is from MEANTIME."""

from typing import NamedTuple

from sqlalchemy import Engine

from analysis.captions import candidates
from analysis.families import OWN_SEEDS, Family, Pair, against
from analysis.material import Material
from analysis.paper_table import OURS, model_title
from analysis.per_user import Arm, arms_of, per_user
from analysis.sheet import Entry, Sheet
from analysis.significance_table import p_text
from analysis.statistics import Interval, mean_difference
from analysis.tables import PROBLEM_FACTORS, SELECTION, Group, Measure, measure, score
from model.errors import RequestError


class ModelArm(NamedTuple):
    """A model's best arm by mean validation NDCG@10 over its complete seeds.

    Attributes:
        model: its title.
        validation: what chose it.
        test: the same arm's values of the metric that is shown.
    """

    model: str
    validation: float
    test: Arm


class ModelComparison(NamedTuple):
    """The models of one group of cells.

    Attributes:
        title: data set and problem.
        arms: best validation first.
        reference: title of the model that the others are compared with.
        family: the comparisons: each other model less the reference.
        notes: sentences.
    """

    title: str
    arms: tuple[ModelArm, ...]
    reference: str
    family: Family
    notes: tuple[str, ...]


def model_comparisons(
    engine: Engine, material: Material, *, column: Measure
) -> tuple[ModelComparison, ...]:
    """Compare each model with MEANTIME, or with the best by validation where it is not there.

    Raises:
        RequestError: no model of the study has a complete trial.
    """
    selecting = per_user(engine, material.study, measure(SELECTION))
    shown = per_user(engine, material.study, column)
    factors = [name for name in material.factors if name not in PROBLEM_FACTORS]
    found = []
    for group in material.groups(PROBLEM_FACTORS, baselines=True):
        validation = arms_of(group.cells, selecting, factors, repeats=True)
        test = arms_of(group.cells, shown, factors, repeats=True)
        best: dict[str, ModelArm] = {}
        for chosen, arm in zip(validation, test, strict=True):
            title = model_title(_model(arm, group), arm.subset)
            known = best.get(title)
            if chosen.seeds and (known is None or chosen.mean > known.validation):
                best[title] = ModelArm(title, chosen.mean, arm)
        if best:
            found.append(_compared(group, column, tuple(best.values())))
    if not found:
        raise RequestError(
            f"models are compared on complete trials, got none of {material.study}; launch it first"
        )
    return tuple(found)


def model_sheet(compared: ModelComparison, column: Measure) -> Sheet:
    """Return the table: a row for each model, best validation first."""
    of_arm = {pair.first: pair for pair in compared.family.pairs}
    rows = [
        (
            Entry(arm.model),
            Entry(f"{len(arm.test.seeds)} of {arm.test.declared}"),
            Entry(score(arm.validation)),
            Entry(score(arm.test.mean)),
            Entry(_interval(mean_difference(arm.test.values).interval, signed=False)),
            *_difference(of_arm.get(arm.test.name), compared.family.level),
        )
        for arm in compared.arms
    ]
    metric = f"test {column.title}"
    heading = (
        "model", "seeds", "validation NDCG@10", metric, "95% interval",
        f"less {compared.reference}", "95% interval of it", "Holm p",
    )  # fmt: skip
    return Sheet(
        caption=f"Models on {compared.title}, each at the point that validation chose",
        heading=heading,
        rows=tuple(rows),
        numeric=(False, *(True for _ in heading[1:])),
        notes=compared.notes,
    )


def _compared(group: Group, column: Measure, models: tuple[ModelArm, ...]) -> ModelComparison:
    ordered = tuple(sorted(models, key=lambda arm: -arm.validation))
    titles = [arm.model for arm in ordered]
    reference = ordered[titles.index(OURS)] if OURS in titles else ordered[0]
    family = against(reference.test, [arm.test for arm in ordered])
    settings = [f"{arm.model}: {_setting(arm.test)}." for arm in ordered if _setting(arm.test)]
    note = (
        f"Test {column.title}, {candidates(column.protocol, group.cells)}, read at the best "
        "validation epoch of each trial. Each model at its best point by mean validation NDCG@10 "
        "over seeds; test chose nothing. Paired by user and seed; intervals and p let users and "
        "seeds vary (variance components, docs/statistics.md)."
    )
    holm = f"Holm over the {family.size} comparisons shown. {OWN_SEEDS}"
    return ModelComparison(group.title, ordered, reference.model, family, (note, holm, *settings))


def _model(arm: Arm, group: Group) -> str:
    return dict(arm.point).get("model", str(group.cells["model"].iloc[0]))


def _setting(arm: Arm) -> str:
    shown = [arm.subset] if arm.subset else []
    levels = [(name, value) for name, value in arm.point if name != "model" and value != "–"]
    return ", ".join([*shown, *(f"{name.replace('_', ' ')} {value}" for name, value in levels)])


def _difference(pair: Pair | None, level: float) -> tuple[Entry, ...]:
    if pair is None or pair.comparison is None:
        return (Entry("–"), Entry("–"), Entry("–"))
    stands = pair.adjusted <= 1 - level
    return (
        Entry(f"{pair.comparison.mean:+.4f}", "best" if stands else ""),
        Entry(_interval(pair.comparison.interval, signed=True)),
        Entry(p_text(pair.adjusted)),
    )


def _interval(found: Interval, *, signed: bool) -> str:
    varies = "" if found.varies == "users and seeds" else f" ({found.varies} only)"
    if signed:
        return f"[{found.low:+.4f}, {found.high:+.4f}]{varies}"
    return f"[{score(found.low)}, {score(found.high)}]{varies}"
