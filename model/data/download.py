"""One file from one URL: in pieces, resumed where it broke off, whole or not at all.

Certificates are always verified; whether the content is the right one is the caller's to check.
"""

import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path


class UnreachableError(Exception):
    """A place gives nothing; the next one may."""


TRIES = 4
FIRST_PAUSE_SECONDS = 1.0
"""Before the second try; it doubles with each."""
SOCKET_SECONDS = 10.0
_PIECE = 1 << 16
_TRY_AGAIN = {408, 416, 425, 429, 500, 502, 503, 504}

Progress = Callable[[int, int | None], None]
"""Told the bytes that are here and, where the server says, those of the whole file."""


def no_progress(done: int, total: int | None) -> None:
    """Tell nobody."""


def download(
    url: str,
    path: Path,
    *,
    progress: Progress = no_progress,
    pause: Callable[[float], None] = time.sleep,
    context: ssl.SSLContext | None = None,
) -> None:
    """Bring `url` to `path`; what an earlier call left in `path` + `.part` is continued.

    Args:
        url: http, https or file.
        path: appears once the file is complete.
        progress: told after every piece.
        pause: waits so many seconds between tries.
        context: for https; by default the system's certificates.

    Raises:
        UnreachableError: the server refuses, its certificate is wrong, or the connection broke
            `TRIES` times; the part stays for another call.
    """
    part = path.with_name(path.name + ".part")
    for nth in range(TRIES):
        if nth:
            pause(FIRST_PAUSE_SECONDS * 2 ** (nth - 1))
        try:
            _continue(url, part, progress=progress, context=context)
        except urllib.error.HTTPError as error:
            reason = f"the server said {error.code} {error.reason}"
            if error.code == 416:  # the part is not the beginning of what is there now
                part.unlink(missing_ok=True)
            if error.code not in _TRY_AGAIN:
                raise UnreachableError(reason) from error
        except urllib.error.URLError as error:
            reason = str(error.reason)
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise UnreachableError(f"certificate not valid: {reason}") from error
            if isinstance(error.reason, FileNotFoundError) or url.startswith("file:"):
                raise UnreachableError(reason) from error
        except (OSError, HTTPException) as error:
            reason = str(error) or type(error).__name__
        else:
            part.replace(path)
            return
    raise UnreachableError(f"{reason} ({TRIES} tries)")


def _continue(url: str, part: Path, *, progress: Progress, context: ssl.SSLContext | None) -> None:
    """Ask for what the part lacks and append it, or begin anew where the server sends all."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=SOCKET_SECONDS, context=context) as response:
        if response.status != 206:
            have = 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        with part.open("ab" if have else "wb") as file:
            while piece := response.read(_PIECE):
                file.write(piece)
                have += len(piece)
                progress(have, total)
    if total is not None and have < total:
        raise ConnectionError(f"the connection broke off at {have:,} of {total:,} bytes")
