"""The paper's main table: data sets x metrics x models, with the published numbers beside ours.

Each of our models stands at its best arm by validation; test is read there. Best and second are
marked among ours and among the published numbers apart, since seeds, budget and data differ;
those differences are named below the table.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import pandas as pd

from analysis.captions import candidates
from analysis.material import Material
from analysis.published import METRICS, MODELS, SETTING, published
from analysis.sheet import Entry, Mark, Sheet, Span
from analysis.tables import FACTORS, PROBLEM_FACTORS, SELECTION, Group, arms, level, measure, score

OURS = "MEANTIME"
NO_EMBEDDING = "no embedding"

_TITLES = {
    "meantime": OURS,
    "bert4rec": "BERT4Rec",
    "sasrec": "SASRec",
    "tisasrec": "TiSASRec",
    "marank": "MARank",
    "cta": "CTA",
    "time_lstm": "Time-LSTM",
    "transformer": "Transformer",
    "timesvd": "TimeSVD++",
    "bptf": "BPTF",
    "item_knn": "item kNN",
    "popularity": "popularity",
}

_PAPER_SETTING: dict[str, dict[str, object]] = {
    "ml-1m": {"max_len": 200, "batch": 256},
    "ml-20m": {"max_len": 200, "batch": 256},
    "beauty": {"max_len": 50, "batch": 256},
    "games": {"max_len": 50, "batch": 256},
}
"""What the paper says that it trained with, where a study can differ."""


class ModelScore(NamedTuple):
    """One of our models on one data set: its best arm by validation.

    Attributes:
        model: title of the model; MEANTIME without an embedding is a model of its own.
        arm: subset and hyperparameters, as text.
        seeds: complete seeds behind the means.
        values: metric -> test mean.
    """

    model: str
    arm: str
    seeds: int
    values: dict[str, float]


class PaperRow(NamedTuple):
    """One row: a metric on a data set.

    Attributes:
        dataset: data set, with the problem's levels where they vary.
        metric: such as `ndcg@10`.
        ours: model -> test mean.
        published: model -> the paper's number.
        improvement: relative gain of MEANTIME over the best of our other models; NaN without both.
        published_improvement: the same of the published numbers.
    """

    dataset: str
    metric: str
    ours: dict[str, float]
    published: dict[str, float]
    improvement: float
    published_improvement: float


class PaperTable(NamedTuple):
    """The main table, before it is written.

    Attributes:
        rows: data sets in declared order, metrics in the paper's.
        scores: (data set, model's best arm) behind the columns.
        notes: sentences below.
    """

    rows: tuple[PaperRow, ...]
    scores: tuple[tuple[str, ModelScore], ...]
    notes: tuple[str, ...]


def model_title(model: str, subset: str) -> str:
    """Return a model's name in tables; MEANTIME without an embedding is a model of its own.

    >>> model_title("sasrec", ""), model_title("meantime", "none")
    ('SASRec', 'no embedding')
    """
    return NO_EMBEDDING if subset == "none" else _TITLES.get(model, model)


def paper_table(
    material: Material, *, protocol: Literal["popular-100", "full"] = "popular-100"
) -> PaperTable:
    """Choose each model's arm by validation and collect its test means.

    Raises:
        RequestError: the results are of several preparations of a data set.
    """
    rows: list[PaperRow] = []
    scores: list[tuple[str, ModelScore]] = []
    notes: list[str] = []
    for group in material.groups(PROBLEM_FACTORS, baselines=True):
        found = _scores(group, material, protocol)
        scores += [(group.title, one) for one in found]
        for metric in METRICS:
            ours = {one.model: one.values[metric] for one in found}
            theirs = published(group.dataset, metric) if protocol == "popular-100" else {}
            rows.append(
                PaperRow(
                    group.title, metric, ours, theirs, _improvement(ours), _improvement(theirs)
                )
            )
        notes += _differences(group)
    protocols = {candidates(protocol, group.cells) for group in material.groups(PROBLEM_FACTORS)}
    first = [
        f"Test, read at the best validation epoch; {'; '.join(sorted(protocols)) or protocol}.",
        "Ours: each model at its best arm by mean validation NDCG@10 over seeds.",
    ]
    if any(row.published for row in rows):
        first.append(SETTING)
    chosen = [
        f"{title}: {one.model} is {one.arm}, {one.seeds} {'seed' if one.seeds == 1 else 'seeds'}."
        for title, one in scores
    ]
    return PaperTable(tuple(rows), tuple(scores), (*first, *chosen, *dict.fromkeys(notes)))


def paper_sheet(table: PaperTable) -> Sheet:
    """Lay the table out: published columns, ours, and the improvement over the best baseline."""
    ours = list(dict.fromkeys(model for row in table.rows for model in row.ours))
    ours.sort(key=lambda model: model == OURS)
    theirs = [model for model in MODELS if any(row.published for row in table.rows)]
    gains = ["improvement"] if len(ours) > 1 and OURS in ours else []
    heading = ("data set", "metric", *theirs, *(["improvement"] if theirs else []), *ours, *gains)
    spans = (
        Span("", 2),
        *((Span("published", len(theirs) + 1),) if theirs else ()),
        *((Span("this study", len(ours) + len(gains)),) if ours else ()),
    )
    rows, rules, last = [], set(), None
    for place, row in enumerate(table.rows):
        if place and row.dataset != last:
            rules.add(place)
        entries = [Entry("" if row.dataset == last else row.dataset)]
        entries.append(Entry(measure(f"test_{row.metric}").title))
        if theirs:
            entries += _marked([row.published.get(model, math.nan) for model in theirs], digits=4)
            entries.append(Entry(_percent(row.published_improvement)))
        entries += _marked([row.ours.get(model, math.nan) for model in ours])
        if gains:
            entries.append(Entry(_percent(row.improvement)))
        rows.append(tuple(entries))
        last = row.dataset
    return Sheet(
        caption="Test results by model; best bold, second underlined, published and ours apart",
        heading=heading,
        rows=tuple(rows),
        numeric=(False, False, *(True for _ in heading[2:])),
        notes=table.notes,
        spans=spans if theirs else (),
        rules=frozenset(rules),
    )


def _scores(
    group: Group, material: Material, protocol: Literal["popular-100", "full"]
) -> list[ModelScore]:
    factors = [name for name in material.factors if name not in PROBLEM_FACTORS]
    table = arms(group.cells, [name for name in FACTORS if name in (*factors, "model")])
    prefix = "test_" if protocol == "popular-100" else "test_full_"
    found: dict[str, ModelScore] = {}
    for _, arm in table.iterrows():
        subset = str(arm["embeddings"])
        title = model_title(str(arm["model"]), subset)
        if title in found or math.isnan(float(arm[SELECTION])):
            continue
        shown = [subset] if subset else []
        shown += [
            f"{name.replace('_', ' ')} {level(arm[name])}"
            for name in factors
            if name != "model" and not pd.isna(arm[name])
        ]
        values = {
            metric: float(arm[prefix + metric]) if prefix + metric in arm else math.nan
            for metric in METRICS
        }
        arm_text = ", ".join(shown) or "the only arm"
        found[title] = ModelScore(title, arm_text, int(arm["seeds"]), values)
    return list(found.values())


def _improvement(values: dict[str, float]) -> float:
    """Return the relative gain of MEANTIME over the best other model."""
    others = [v for model, v in values.items() if model != OURS and not math.isnan(v)]
    ours = values.get(OURS, math.nan)
    return ours / max(others) - 1 if others and max(others) > 0 else math.nan


def _differences(group: Group) -> list[str]:
    """Name in what a study's setting differs from the paper's."""
    setting = _PAPER_SETTING.get(group.dataset)
    if setting is None:
        return [f"{group.title}: the paper has no numbers for this data set."]
    told = []
    for factor, theirs in setting.items():
        levels = sorted(group.cells[factor].dropna().unique()) if factor in group.cells else []
        if levels and list(levels) != [theirs]:
            ours = ", ".join(level(value) for value in levels)
            told.append(f"{factor.replace('_', ' ')} {ours} (paper {theirs})")
    for factor, theirs in (("target_time", "actual"), ("core", "once")):
        levels = list(group.cells[factor].dropna().unique()) if factor in group.cells else []
        if levels and levels != [theirs]:
            told.append(
                f"{factor.replace('_', ' ')} {', '.join(map(str, levels))} (paper {theirs})"
            )
    seeds = group.cells["seed"].nunique()
    what = f"differs from the paper in: {'; '.join(told)}" if told else "has the paper's setting"
    return [f"{group.title} {what}; means over {seeds} {'seed' if seeds == 1 else 'seeds'}."]


def _marked(values: Sequence[float], *, digits: int = 3) -> list[Entry]:
    """Mark the largest and the second largest value among two or more."""
    known = sorted({value for value in values if not math.isnan(value)}, reverse=True)
    marks: dict[float, Mark] = {}
    if sum(not math.isnan(value) for value in values) > 1:
        marks = dict(zip(known[:2], ("best", "second"), strict=False))
    return [
        Entry(
            score(value) if digits == 3 or math.isnan(value) else f"{value:.4f}".lstrip("0"),
            "" if math.isnan(value) else marks.get(value, ""),
        )
        for value in values
    ]


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:+.1f}%"
