"""A description as rows for a table and as JSON: every statistic by name, with its unit."""

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from model.data.describe import Description, Histogram

_PUBLISHED = {
    "ml-1m": {
        "users": "6,040",
        "items": "3,416",
        "interactions": "about 1.0 million",
        "mean length": "163.5 without the two held-out events",
    }
}
"""Cho, Park, Yoo 2020, after the paper's filter; other data sets' sizes depend on their filters."""


def rows(found: Description) -> list[tuple[str, str, str]]:
    """Return name, value and published value of every statistic."""
    quantiles = ", ".join(f"{q:.0%} {n:,.0f}" for q, n in found.length_quantiles.items())
    said = {
        "users": f"{found.users:,}",
        "items": f"{found.items:,}",
        "interactions": f"{found.interactions:,}",
        "density": f"{found.density:.3%}",
        "mean length": f"{found.mean_length:.1f} ({found.mean_length - 2:.1f} without the two "
        "held-out events)",
        "length quantiles": quantiles,
        "first event": _day(found.first_second),
        "last event": _day(found.last_second),
        "time granularity": "whole UTC days" if found.whole_days else "seconds",
        "events at a time shared with another of the user": f"{found.equal_times:.1%}",
        "distinct days of a user": f"mean {found.days_per_user:.1f}, "
        f"median {found.median_days_per_user:.0f}",
        "test targets at the time of the event before": f"{found.targets_at_last_time:.1%}",
        "test targets on a day unseen in training": f"{found.unseen_test_days:.1%}",
        "test targets that the user had before": f"{found.repeated_targets:.1%}",
        "gaps of 0 seconds": f"{found.zero_gaps:,}",
        "fewest sampled negatives of a user": f"{found.fewest_negatives}",
        "fingerprint": found.fingerprint[:16],
    }
    published = _PUBLISHED.get(found.name, {})
    return [(name, value, published.get(name, "")) for name, value in said.items()]


def as_json(found: Description) -> dict[str, Any]:
    """Return every statistic and histogram as plain values."""
    plain: dict[str, Any] = {}
    for field in fields(found):
        value = getattr(found, field.name)
        if isinstance(value, Histogram):
            value = {"edges": value.edges.tolist(), "counts": value.counts.tolist()}
        elif field.name == "length_quantiles":
            value = {f"{q:g}": n for q, n in value.items()}
        plain[field.name] = value
    return plain


def _day(second: int) -> str:
    return f"{datetime.fromtimestamp(second, tz=UTC):%Y-%m-%d}"
