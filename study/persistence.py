"""How long a launch goes on when the store cannot be written: some minutes, then it stops cleanly.

A server that starts anew, a full disk that somebody clears, a lock that another program holds:
none of them costs a trial. Workers go on meanwhile, and their reports wait.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from model.errors import RequestError
from study.store import Store

Answer = TypeVar("Answer")

PATIENCE_SECONDS = 180.0
"""So long one write is tried again."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


class Persistence:
    """Tries a write again, at growing intervals, while the store does not take it.

    Args:
        seconds: how long.
        say: told when the store stops and when it begins again to answer.
        clock: monotonic seconds.
        pause: waits so many seconds.
    """

    def __init__(
        self,
        seconds: float = PATIENCE_SECONDS,
        *,
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._seconds, self._say, self._clock, self._pause = seconds, say, clock, pause

    def write(self, record: Callable[[], Answer], *, store: Store) -> Answer:
        """Call `record` until it succeeds, and return its answer; it must bear being called again.

        Raises:
            DBAPIError: the store did not take it in time, or refused what it was given.
            RequestError: another launch has claimed the store meanwhile.
        """
        began, pause, lost = self._clock(), _FIRST_PAUSE, False
        while True:
            try:
                if lost:
                    store.renew_claim()
                answer = record()
            except (OperationalError, InterfaceError) as error:
                if self._clock() - began >= self._seconds:
                    raise
                if not lost:
                    self._say(
                        f"{store.url} cannot be written: {_reason(error)}; trying for "
                        f"{self._seconds:.0f} s, trainings go on meanwhile"
                    )
                lost = True
                self._pause(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                if lost:
                    self._say(f"{store.url} is written again; nothing was lost")
                return answer


def unwritable(store: Store, error: DBAPIError) -> RequestError:
    """Return the refusal that ends a launch whose store cannot be written."""
    return RequestError(
        f"results must be written to {store.url}, got: {_reason(error)}; free space or bring the "
        "database back, then launch again: what it holds is safe and is not trained again"
    )


def _reason(error: DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0]
