"""What the columns of the results database hold beside whole numbers and text: reals and moments.

Both databases answer alike: NaN is NULL, infinities stay, every moment is UTC and aware.
"""

import math
from datetime import UTC, datetime

from sqlalchemy import DateTime, Dialect, Float, TypeDecorator


class Real(TypeDecorator[float]):
    """A double in which NaN is NULL: SQLite would store NULL anyway, PostgreSQL poison `max`."""

    impl = Float(53)
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:  # noqa: ARG002
        """Write NaN as NULL."""
        return None if value is None or math.isnan(value) else float(value)


class Utc(TypeDecorator[datetime]):
    """A moment; naive values are refused, and what is read is aware and in UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Write UTC; SQLite has no time zones and keeps the UTC wall time."""
        if value is None:
            return None
        if value.tzinfo is None:
            message = f"a stored time must name its time zone, got {value!r}"
            raise ValueError(message)
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Read UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
