"""Every figure's caption alone must tell a reviewer what is shown and what it can support."""

import re

import numpy as np
import pandas as pd
import pytest

from analysis.figures import KINDS, draw_all
from analysis.traits import UserTraits
from tests.analysis.hand_made import ALL_SUBSETS, plausible, report_source, study

USERS = 40

OF_NO_RESULTS = {"attention", "data"}
"""Kinds that show data or one trained network, and compare nothing."""


def planned():
    """64 subsets on two data sets and two seeds; one lacks a subset on both seeds."""
    return [
        {
            "embeddings": subset,
            "dataset": name,
            "seed": seed,
            "value": plausible(subset, seed),
            "trial": f"{name}-{place}-{seed}",
            **({"class": "failed", "reason": "oom"} if (name, subset) == ("b", "Day") else {}),
        }
        for name in ("a", "b")
        for place, subset in enumerate(ALL_SUBSETS)
        for seed in (0, 1)
    ]


@pytest.fixture(scope="module")
def figures():
    points = planned()
    results, cells = study(points)
    results["test_full_ndcg@10"] = results["test_ndcg@10"] ** 2
    curves = pd.DataFrame(
        [
            {"trial": point["trial"], "epoch": epoch, "metric": metric, "value": value}
            for point in points
            for metric, values in (("ndcg@10", (0.1, 0.2)), ("loss", (6.0, 5.0)))
            for epoch, value in enumerate(values, start=1)
        ]
    )
    traits = UserTraits(
        history=np.arange(USERS), span=np.arange(USERS), same_time=np.arange(USERS) < USERS // 2
    )
    whole = draw_all(report_source(results, cells, curves=curves, traits=lambda _: traits))

    swept = [
        {"embeddings": s, "tau": tau, "target_time": time, "hidden": hidden, "value": value}
        for s, value in (("none", 0.1), ("Pos", 0.2), ("Log", 0.3), ("Sin", 0.25))
        for tau in (1.0, 3600.0)
        for time in ("actual", "last")
        for hidden in (16, 32)
    ]
    readings = draw_all(report_source(*study(swept)), ["target-time", "time-unit", "grid"])
    return {figure.name: figure for figure in (*whole.figures, *readings.figures)}


def test_the_captions_of_all_kinds_are_looked_at(figures):
    assert {figure.kind for figure in figures.values()} == set(KINDS) - OF_NO_RESULTS


def test_a_caption_names_coverage_metric_protocol_and_mode(figures):
    for name, figure in figures.items():
        text = " ".join(figure.caption)
        assert "NDCG@10" in text or "Recall@10" in text, name
        assert re.search(r"\d+ (trials )?of \d+ .*cells", figure.caption[0]), name
        assert "popular-100 (" in text or "protocol full (" in text, name
        assert "mode" in text.lower(), name
        assert "seed" in text, name


def test_a_caption_with_intervals_says_what_they_let_vary(figures):
    kinds = ("differences", "ranking", "contributions", "interactions", "user-groups")
    drawn = [figure for figure in figures.values() if figure.kind in kinds]
    assert len({figure.kind for figure in drawn}) == len(kinds)
    for figure in drawn:
        assert "let users and seeds vary" in " ".join(figure.caption), figure.name


def test_a_caption_with_marks_says_their_family_and_how_many_stand(figures):
    for name, told in {
        "differences_a": "over the 63 comparisons drawn: ",
        "ranking_a": "over the 63 comparisons drawn): ",
        "contributions_a": "over 6 embeddings): ",
        "interactions_a": "over the 15 pairs drawn: ",
    }.items():
        text = " ".join(figures[name].caption)
        assert told in text, name
        assert "At 2 seeds Holm over" in text, name


def test_a_caption_without_a_test_says_so(figures):
    untested = ("importance", "grid", "cost", "target-time", "time-unit")
    drawn = [figure for figure in figures.values() if figure.kind in untested]
    assert len({figure.kind for figure in drawn}) == len(untested)
    for figure in drawn:
        assert "tested" in " ".join(figure.caption), figure.name


def test_learning_curves_say_whose_validation_and_that_bands_are_no_interval(figures):
    text = " ".join(figures["curves_a"].caption)
    assert "Above: validation NDCG@10" in text
    assert "no confidence interval" in text
    assert "test is read at each seed's own" in text


def test_a_data_set_that_is_left_out_of_the_contributions_is_named(figures):
    for kind in ("contributions", "interactions"):
        assert f"{kind}_b" not in figures
        assert "Not identified for b: " in figures[f"{kind}_a"].caption[-1]


def test_shares_are_of_factors_by_themselves_and_the_rest_is_said(figures):
    text = " ".join(figures["importance_a_test_ndcg-at-10"].caption)
    assert "by each factor by itself" in text
    assert "belong to factors together" in text
