"""What one trial is expected to need: the value that estimates give and dispatchers read."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """A trial's expected peak memory and duration.

    Attributes:
        bytes: peak memory on the device that it trains on, process and library included.
        seconds: wall-clock time of the whole trial on that device.
    """

    bytes: int
    seconds: float


Needs = Mapping[str, Need]
"""Trial id -> need; a trial that is missing is packed by the study's `resources` alone."""
