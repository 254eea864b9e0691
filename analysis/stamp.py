"""Where a figure comes from: said inside each of its files and in a side-car, and checked later.

A stamp depends on the rows, the query and the code, never on the moment: the same rows drawn by the
same code give the same bytes.
"""

import hashlib
import html
import io
import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd
import pypdf

from analysis.layout import NamedFigure
from model.errors import RequestError
from study.provenance import source_commit

DRAWN_WITH = ("meantime-study", "plotly", "kaleido", "pandas", "numpy", "scipy")
"""Distributions whose versions can move what a figure shows."""


@dataclass(frozen=True, slots=True)
class Source:
    """What all figures of one run are drawn from.

    Attributes:
        study: name of the study.
        store: URL of the database, without a password.
        commit: Git commit of the code that draws, with `+changes` where its files differ from it.
        versions: (distribution, version).
    """

    study: str
    store: str
    commit: str | None
    versions: tuple[tuple[str, str], ...]


def source(study: str, store: str) -> Source:
    """Return what this process draws from."""
    commit, dirty = source_commit(Path(__file__).resolve().parent.parent)
    versions = []
    for name in DRAWN_WITH:
        try:
            versions.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            continue
    return Source(study, store, f"{commit}+changes" if dirty else commit, tuple(versions))


def rows_sha256(rows: pd.DataFrame) -> str:
    """Return the SHA-256 of rows: of their columns, values and order, exact to the last digit."""
    return hashlib.sha256(rows.to_csv(index=False, lineterminator="\n").encode()).hexdigest()


def stamp(figure: NamedFigure, source: Source) -> dict[str, Any]:
    """Return a figure's provenance as JSON can hold it."""
    commits = figure.rows["commit"] if "commit" in figure.rows else pd.Series(dtype="str")
    return {
        "figure": figure.name,
        "kind": figure.kind,
        "study": source.study,
        "store": source.store,
        "query": figure.query,
        "rows": len(figure.rows),
        "rows_sha256": rows_sha256(figure.rows),
        "trained_at_commits": sorted(str(commit) for commit in commits.dropna().unique()),
        "drawn_at_commit": source.commit,
        "versions": dict(source.versions),
    }


def stamped(content: bytes, format_name: str, provenance: Mapping[str, Any]) -> bytes:
    """Return a picture with its provenance inside, as JSON under the name `provenance`.

    In SVG it is the element `metadata`, in PNG an iTXt chunk, in PDF an entry of the document
    information. HTML pages carry it through their template.
    """
    text = json.dumps(provenance, ensure_ascii=False, sort_keys=True)
    match format_name:
        case "svg":
            start = content.index(b">", content.index(b"<svg")) + 1
            note = f'<metadata id="provenance">{html.escape(text, quote=False)}</metadata>'
            return content[:start] + note.encode() + content[start:]
        case "png":
            body = b"provenance\0\0\0\0\0" + text.encode()
            chunk = struct.pack(">I", len(body)) + b"iTXt" + body
            chunk += struct.pack(">I", zlib.crc32(b"iTXt" + body))
            end = content.rindex(b"IEND") - 4
            return content[:end] + chunk + content[end:]
        case "pdf":
            writer = pypdf.PdfWriter(clone_from=io.BytesIO(content))
            writer.add_metadata({"/provenance": text, "/Title": str(provenance["figure"])})
            changed = io.BytesIO()
            writer.write(changed)
            return changed.getvalue()
    return content


def side_car(
    figure: NamedFigure, provenance: Mapping[str, Any], files: Sequence[Path]
) -> dict[str, Any]:
    """Return what stands in the file beside a figure's files: `NAME.json`."""
    return {
        **provenance,
        "title": figure.title,
        "caption": list(figure.caption),
        "files": {path.name: _sha256(path) for path in files},
    }


State = Literal["current", "outdated", "gone", "altered", "missing"]
"""`gone`: the store draws no such figure any more; `altered`, `missing`: a file of the figure."""


class Finding(NamedTuple):
    """How a drawn figure stands against the store; `detail` is a clause, empty when current."""

    figure: str
    state: State
    detail: str


def compare(folder: Path, figures: Sequence[NamedFigure], study: str) -> list[Finding]:
    """Compare the figures that a folder holds with what the store would draw now.

    Args:
        folder: where `export` wrote; figures of other studies there are left alone.
        figures: the study's figures, as the store has them now.
        study: name of the study.

    Raises:
        RequestError: the folder holds no figure of this study.
    """
    now = {figure.name: figure for figure in figures}
    found = [
        _compared(folder, written, now.get(written["figure"]))
        for written in _side_cars(folder)
        if written["study"] == study
    ]
    if not found:
        raise RequestError(
            f"a folder to check must hold figures of {study} with their .json files, "
            f"got {folder}; draw them first, or name the folder with --out"
        )
    return found


def _compared(folder: Path, written: Mapping[str, Any], now: NamedFigure | None) -> Finding:
    name = str(written["figure"])
    if now is None:
        return Finding(name, "gone", "the store draws no such figure any more")
    if (rows := rows_sha256(now.rows)) != written["rows_sha256"]:
        return Finding(
            name,
            "outdated",
            f"drawn from {written['rows']} rows ({str(written['rows_sha256'])[:8]}), "
            f"the store has {len(now.rows)} ({rows[:8]})",
        )
    for file, digest in written["files"].items():
        path = folder / file
        if not path.is_file():
            return Finding(name, "missing", f"there is no {file}")
        if _sha256(path) != digest:
            return Finding(name, "altered", f"{file} is not the file that was drawn")
    return Finding(name, "current", "")


def _side_cars(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        try:
            written = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue
        if isinstance(written, dict) and {"figure", "study", "rows_sha256", "files"} <= set(
            written
        ):
            yield written


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
