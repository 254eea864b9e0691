"""The best hyperparameters of each subset and data set, chosen on validation."""

import pandas as pd

from analysis.material import Material
from analysis.sheet import Entry, Mark, Sheet
from analysis.tables import FACTORS, PROBLEM_FACTORS, SELECTION, arms, level, score

_SHOWN = ((SELECTION, "validation NDCG@10"), ("test_ndcg@10", "test NDCG@10"),
          ("test_full_ndcg@10", "test NDCG@10, full"))  # fmt: skip


def hyperparameter_sheet(material: Material) -> Sheet:
    """Return a row for each data set and subset: its best point, and how many it was chosen from.

    Raises:
        RequestError: the results are of several preparations of a data set.
    """
    factors = [n for n in FACTORS if n in material.factors and n not in PROBLEM_FACTORS]
    rows: list[tuple[Entry, ...]] = []
    rules = set()
    missing = 0
    for group in material.groups(PROBLEM_FACTORS, baselines=True):
        table = arms(group.cells, factors)
        # Ordered by validation: the first arm of a subset is its best.
        model = table.get("model", "model")
        table = table.assign(named=table["embeddings"].where(table["embeddings"] != "", model))
        if rows:
            rules.add(len(rows))
        firsts = table.drop_duplicates("named")
        valid = firsts[SELECTION].notna()
        missing += int((~valid).sum())
        best = firsts[SELECTION].max()
        for _, arm in firsts[valid].iterrows():
            name = str(arm["named"])
            same = table[table["named"] == name]
            complete = int(same[SELECTION].notna().sum())
            mark: Mark = "best" if arm[SELECTION] == best and valid.sum() > 1 else ""
            rows.append(
                (
                    Entry(group.title),
                    Entry(name, mark),
                    *(Entry("–" if pd.isna(arm[n]) else level(arm[n])) for n in factors),
                    Entry(f"{complete} of {len(same)}"),
                    Entry(f"{arm['seeds']} of {arm['declared']}"),
                    *(Entry(score(float(arm[n])) if n in arm else "–") for n, _ in _SHOWN),
                )
            )
    notes = [
        "Each subset at its best of the points that it has complete, by mean validation NDCG@10 "
        "(popular-100); test is read there and chose nothing. Bold: the subset that validation "
        "names best.",
        "Points differ between subsets where some are infeasible: compare subsets by mode tuned.",
    ]
    if missing:
        notes.append(f"{missing} subsets have no complete trial.")
    heading = (
        "data set",
        "subset",
        *(name.replace("_", " ") for name in factors),
        "points",
        "seeds",
        *(title for _, title in _SHOWN),
    )
    numbers = (*(True for _ in factors), False, False, *(True for _ in _SHOWN))
    return Sheet(
        caption="Best hyperparameters of each subset by validation",
        heading=heading,
        rows=tuple(rows),
        numeric=(False, False, *numbers),
        notes=tuple(notes),
        rules=frozenset(rules),
    )
