"""What one attempt prints, logs and warns, collected between two of its events.

A worker trains one trial at a time in one thread, so that everything that passes through Python's
streams meanwhile is that attempt's. What goes around them (a C library's output) is not seen.
"""

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO

MOST_CHARACTERS = 20_000
"""Of one stretch between two events; of more, the end is kept."""


class AttemptLog:
    """Collects text while `listening` and not `deaf`, hands it over with `taken`."""

    def __init__(self) -> None:
        self._written = io.StringIO()
        self._hears = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take in standard output, standard error, warnings and log records."""
        records = logging.StreamHandler(_Copying(self, None))
        records.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        root = logging.getLogger()
        root.addHandler(records)
        self._hears = True
        try:
            with (
                redirect_stdout(_Copying(self, sys.stdout)),
                redirect_stderr(_Copying(self, sys.stderr)),
            ):
                yield
        finally:
            self._hears = False
            root.removeHandler(records)

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """Take in nothing meanwhile: what the receiver of an event prints is not the attempt's."""
        before, self._hears = self._hears, False
        try:
            yield
        finally:
            self._hears = before

    def add(self, text: str) -> None:
        """Take in a piece of text, unless deaf."""
        if self._hears:
            self._written.write(text)

    def taken(self) -> str:
        """Return what came since the last call."""
        text = self._written.getvalue()
        self._written.seek(0)
        self._written.truncate()
        left_out = len(text) - MOST_CHARACTERS
        return text if left_out <= 0 else f"[{left_out} characters left out]\n{text[left_out:]}"


class _Copying(io.TextIOBase):
    """A stream that writes to the log, and to the stream in whose place it stands."""

    def __init__(self, log: AttemptLog, usual: TextIO | None) -> None:
        self._log, self._usual = log, usual

    def write(self, text: str) -> int:
        self._log.add(text)
        if self._usual is not None:
            self._usual.write(text)
        return len(text)

    def flush(self) -> None:
        if self._usual is not None:
            self._usual.flush()
