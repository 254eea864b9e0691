"""The two ways in which a trial or a request is refused on purpose; all else is a bug."""


class RequestError(Exception):
    """What was asked for cannot be done: the message states the rule, the value, the next step.

    The console script prints the message without a traceback and exits with code 2.
    """


class Diverged(Exception):
    """A loss or score is NaN or infinite: a failure of the trial, never a rank."""
