"""Which differences stand, as lists and squares; and what more seeds would settle."""

import numpy as np

from analysis.families import Pair
from analysis.per_user import paired
from analysis.power import POWER
from analysis.resampling import (
    BOOTSTRAP_SEEDS,
    WILCOXON_WARNING,
    crossed_bootstrap,
    sign_flip,
    wilcoxon,
)
from analysis.sheet import Entry, Sheet
from analysis.statistics import Values
from analysis.tables import score
from analysis.verdicts import MATRIX_ARMS, Verdicts
from model.errors import RequestError


def significance_sheet(verdict: Verdicts) -> Sheet:
    """Return the list of comparisons, in the order of the arms."""
    validation = {choice.subset: choice.validation for choice in verdict.compared.choices}
    rows = [(*_names(pair, verdict), *_comparison_entries(pair)) for pair in verdict.family.pairs]
    second = () if verdict.reference else ("with",)
    heading = (
        "subset", *second, "seeds", "difference", "95% interval, users and seeds", "t", "p",
        "Holm p", "higher for", "effect",
    )  # fmt: skip
    best = verdict.compared.best
    named = f"Validation names {best} best ({score(validation[best])})."
    return Sheet(
        caption=_caption("Differences", verdict),
        heading=heading,
        rows=tuple(rows),
        numeric=(False, *(False for _ in second), *(True for _ in heading[1 + len(second) :])),
        notes=(named, *verdict.notes),
    )


def matrix_sheet(verdict: Verdicts) -> Sheet:
    """Return all pairs as a square: row minus column, bold where Holm's p is at most 5%.

    Raises:
        RequestError: the family has a reference and no pairs beside it.
    """
    if verdict.reference:
        raise RequestError(
            f"a matrix shows every pair, {verdict.title} is compared with {verdict.reference} only "
            f"(more than {MATRIX_ARMS} arms, or --reference); use --kind significance"
        )
    names = [choice.subset for choice in verdict.compared.choices]
    by_arm = {choice.arm.name: choice.subset for choice in verdict.compared.choices}
    found = {(by_arm[p.first], by_arm[p.second]): p for p in verdict.family.pairs}
    rows = []
    for row in names:
        entries = [Entry(row)]
        for column in names:
            pair, sign = found.get((row, column)), 1.0
            if pair is None:
                pair, sign = found.get((column, row)), -1.0
            if pair is None or pair.comparison is None:
                entries.append(Entry("" if row == column else "–"))
                continue
            stands = pair.adjusted <= 1 - verdict.family.level
            text = f"{sign * pair.comparison.mean:+.3f}".replace("0.", ".", 1)
            entries.append(Entry(text, "best" if stands else ""))
        rows.append(tuple(entries))
    return Sheet(
        caption=_caption("Row minus column, bold where it stands after Holm,", verdict),
        heading=("", *names),
        rows=tuple(rows),
        numeric=(False, *(True for _ in names)),
        notes=verdict.notes,
    )


def power_sheet(verdict: Verdicts) -> Sheet:
    """Return what each comparison could settle at its seeds, and the seeds that would."""
    rows = []
    for pair, found in zip(verdict.family.pairs, verdict.reach, strict=True):
        names = _names(pair, verdict)
        if found is None or pair.comparison is None:
            rows.append((*names, Entry(str(pair.seeds)), *(Entry("–") for _ in range(6))))
            continue
        stands = pair.adjusted <= 1 - verdict.family.level
        seeds = "no number" if found.seeds_to_settle is None else f"{found.seeds_to_settle:,}"
        rows.append(
            (
                *names,
                Entry(str(pair.seeds)),
                Entry(f"{pair.comparison.mean:+.4f}"),
                Entry(f"{pair.comparison.t:.2f}"),
                Entry(f"{found.t_needed:.3g}"),
                Entry(f"{found.detectable:.4f}"),
                Entry("yes" if stands else "no"),
                Entry("settled" if stands else seeds),
            )
        )
    second = () if verdict.reference else ("with",)
    heading = (
        "subset", *second, "seeds", "difference", "t", "t needed", "smallest detectable",
        "settled", "seeds to settle",
    )  # fmt: skip
    notes = (
        f"Smallest detectable: a true difference that Holm's first step over {verdict.family.size} "
        f"comparisons finds in {POWER:.0%} of such studies. Seeds to settle: as many find a true "
        'difference as large as the one seen; "no number": the users alone leave more uncertainty.',
        *verdict.notes,
    )
    return Sheet(
        caption=_caption("What the present seeds can settle of the differences", verdict),
        heading=heading,
        rows=tuple(rows),
        numeric=(False, *(False for _ in second), *(True for _ in heading[1 + len(second) :])),
        notes=notes,
    )


def opinion_sheet(verdict: Verdicts, generator: np.random.Generator) -> Sheet:
    """Return what other methods say of the same comparisons, each with what it lets vary."""
    arms = {choice.arm.name: choice.arm for choice in verdict.compared.choices}
    warnings: set[str] = set()
    rows = []
    for pair in verdict.family.pairs:
        names = _names(pair, verdict)
        if pair.comparison is None or pair.seeds == 0:
            rows.append((*names, Entry(str(pair.seeds)), *(Entry("–") for _ in range(6))))
            continue
        first, second = paired(arms[pair.first], arms[pair.second])
        differences = first - second
        signed = wilcoxon(differences)
        warnings.add(WILCOXON_WARNING)
        rows.append(
            (
                *names,
                Entry(str(pair.seeds)),
                Entry(f"{pair.comparison.mean:+.4f}"),
                Entry(p_text(pair.comparison.p)),
                Entry(p_text(pair.comparison.satterthwaite)),
                Entry(_bootstrap_text(differences, generator)),
                Entry(p_text(sign_flip(differences, generator).p)),
                Entry(p_text(signed.p)),
            )
        )
    second_name = () if verdict.reference else ("with",)
    heading = (
        "subset", *second_name, "seeds", "difference", "p", "p, Satterthwaite",
        "95% crossed bootstrap", "p, sign flips of users", "p, Wilcoxon over users",
    )  # fmt: skip
    notes = (
        "Unadjusted p-values; only the first lets users and seeds vary and keeps its rate at few "
        "seeds. Satterthwaite's t is too sure below 5 seeds; sign flips and Wilcoxon hold the "
        f"trained models fixed; the bootstrap resamples seeds and needs {BOOTSTRAP_SEEDS}.",
        *sorted(warnings),
        *verdict.notes,
    )
    return Sheet(
        caption=_caption("Other methods on the differences", verdict),
        heading=heading,
        rows=tuple(rows),
        numeric=(
            False,
            *(False for _ in second_name),
            *(True for _ in heading[1 + len(second_name) :]),
        ),
        notes=notes,
    )


def _bootstrap_text(differences: Values, generator: np.random.Generator) -> str:
    if len(differences) < BOOTSTRAP_SEEDS:
        return "–"
    found = crossed_bootstrap(differences, generator)
    return f"[{found.low:+.4f}, {found.high:+.4f}]"


def _names(pair: Pair, verdict: Verdicts) -> tuple[Entry, ...]:
    by_arm = {choice.arm.name: choice.subset for choice in verdict.compared.choices}
    first = Entry(by_arm[pair.first])
    return (first,) if verdict.reference else (first, Entry(by_arm[pair.second]))


def _comparison_entries(pair: Pair) -> tuple[Entry, ...]:
    if pair.comparison is None:
        return (Entry(str(pair.seeds)), *(Entry("–") for _ in range(7)))
    found = pair.comparison
    low, high = found.interval.low, found.interval.high
    varies = (
        "" if found.interval.varies == "users and seeds" else f" ({found.interval.varies} only)"
    )
    stands = not np.isnan(pair.adjusted) and pair.adjusted <= 1 - found.interval.level
    return (
        Entry(str(pair.seeds)),
        Entry(f"{found.mean:+.4f}", "best" if stands else ""),
        Entry(f"[{low:+.4f}, {high:+.4f}]{varies}"),
        Entry("–" if np.isnan(found.t) else f"{found.t:.2f}"),
        Entry(p_text(found.p)),
        Entry(p_text(pair.adjusted)),
        Entry(f"{found.improved:.1%}"),
        Entry("–" if np.isnan(found.effect) else f"{found.effect:+.2f}"),
    )


def p_text(p: float) -> str:
    """Write a p-value; none is written as zero.

    >>> p_text(0.0312), p_text(0.00001), p_text(float("nan")), p_text(1.0)
    ('.031', '<.001', '–', '1.000')
    """
    if np.isnan(p):
        return "–"
    return "<.001" if p < 0.001 else score(p)


def _caption(what: str, verdict: Verdicts) -> str:
    column = verdict.measure
    against_what = f" from {verdict.reference}" if verdict.reference else ""
    return f"{what}{against_what} in {column.split} {column.title} on {verdict.title}"
