"""Where commands print: results to standard output, progress and messages to standard error."""

import sys

from rich.console import Console


def out() -> Console:
    """Return the console for results (standard output)."""
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def err() -> Console:
    """Return the console for progress and messages (standard error)."""
    return Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())
