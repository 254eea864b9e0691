"""From a path to the bytes of the one table in it, unpacked: gzip by itself, zip by its member."""

import gzip
import re
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from model.errors import RequestError

_OFFICIAL = re.compile(r"([^/]+/)?(u\.data|ratings\.(csv|dat))")
"""What GroupLens calls the table among a data set's other files."""


def unpacked(path: Path, *, member: str | None, endings: tuple[str, ...]) -> tuple[str, bytes]:
    """Return a file's name and content, or those of a member of a zip.

    Args:
        path: a file; `.gz` is unpacked, a zip gives one of its members.
        member: path inside the zip, whatever the zip is called; by default the official table of
            MovieLens, or else the only member with one of the `endings`.
        endings: of tables, such as `.csv`.

    Raises:
        RequestError: a missing or broken file, or a zip that does not hold one such table.
    """
    try:
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as file:
                return path.stem, file.read()
        if member is None and path.suffix.lower() != ".zip":
            return path.name, path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            chosen = _member(archive.namelist(), path=path, wanted=member, endings=endings)
            return f"{path.name}/{chosen}", archive.read(chosen)
    except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, RuntimeError) as error:
        raise RequestError(
            f"a compressed file must be whole, got {path} ({error}); download it again"
        ) from error
    except OSError as error:
        raise RequestError(
            f"a data file must be readable, got {path} ({error.strerror}); check the path"
        ) from error


def _member(held: list[str], *, path: Path, wanted: str | None, endings: tuple[str, ...]) -> str:
    if wanted is not None:
        chosen = [wanted] if wanted in held else []
    else:
        tables = [
            one
            for one in held
            # macOS keeps a shadow of every file.
            if PurePosixPath(one).suffix.lower() in endings and not one.startswith("__MACOSX/")
        ]
        chosen = [one for one in tables if _OFFICIAL.fullmatch(one)] or tables
    if len(chosen) != 1:
        raise RequestError(
            f"a zip must hold {wanted or 'one table, or one of MovieLens'}, got {path} with "
            f"{', '.join((chosen or held)[:5]) or 'nothing'}; unpack it and import the table"
        )
    return chosen[0]
