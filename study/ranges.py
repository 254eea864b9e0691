"""A range of a factor's values, `{from: 1e-4, to: 1e-2, log: true}`, that a search draws from."""

from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, create_model, model_validator

from model.config import Section
from study.mistakes import broken

Number = int | float


class Range(Section):
    """Every value from `low` to `high`, both included; whole numbers if both are.

    Attributes:
        low: `from` in the file.
        high: `to` in the file, above `low`.
        log: whether the search treats equal ratios alike, not equal differences.
        step: the distance of neighbours; None: 1 for whole numbers, none for others.
    """

    model_config = ConfigDict(serialize_by_alias=True)

    low: Any = Field(alias="from")
    high: Any = Field(alias="to")
    log: bool = False
    step: Annotated[int, Field(gt=0)] | Annotated[float, Field(gt=0)] | None = None

    @property
    def size(self) -> int | None:
        """How many values there are; None where they are not counted."""
        if self.step is None and not isinstance(self.low, int):
            return None
        return round(float(self.high - self.low) / (1 if self.step is None else self.step)) + 1

    @property
    def values(self) -> tuple[Number, ...]:
        """All values in order; only where there is a `size`."""
        step = 1 if self.step is None else self.step
        return tuple(self.low + index * step for index in range(self.size or 0))

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        low, high, step = self.low, self.high, self.step
        for bound in (low, high):
            if isinstance(bound, str):
                raise broken("only a number has a range", "list the values in brackets")
        if low >= high:
            raise broken("from must be less than to", "swap them, or list the one value")
        if self.log and low <= 0:
            raise broken("a log range must start above 0", "raise from, or leave log out")
        if self.log and step is not None:
            raise broken("a range has a step or is log, not both", "leave one out")
        if step is not None:
            if isinstance(low, int) and not isinstance(step, int):
                raise broken("whole numbers need a whole step", "write step in digits")
            if abs((high - low) / step - round((high - low) / step)) > 1e-9:
                raise broken("to must be a whole number of steps after from", "change to or step")
        return self


RANGE_KEYS = ("from", "to", "log", "step")


def range_of(name: str, bound: Any) -> type[Range]:  # noqa: ANN401
    """Return the ranges whose bounds obey a factor's own type."""
    return create_model(
        f"RangeOf{name.capitalize()}",
        __base__=Range,
        low=(bound, Field(alias="from")),
        high=(bound, Field(alias="to")),
    )
