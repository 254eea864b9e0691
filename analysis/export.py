"""Figures as files: HTML always; PNG, SVG and PDF through one browser session, within a time limit.

Each file is whole or absent: it is written under another name and renamed. Nothing here needs the
network: plotly.js is written once, beside the pages that use it.
"""

import asyncio
import contextlib
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import kaleido
import plotly.offline
from choreographer.browsers.chromium import Chromium
from choreographer.errors import DevtoolsProtocolError
from plotly.graph_objects import Figure

from analysis.files import write_atomically
from analysis.formats import FigureFormat
from model.errors import RequestError

SCRIPT = "plotly.min.js"
"""The file beside the pages that draws them all: inside each it would add 4.8 MB a page."""

START_SECONDS = 30.0
"""Longest wait for the browser to start and to stop (usual: 3 s)."""

FIGURE_SECONDS = 20.0
"""Longest wait for one figure in one format (usual: 0.3 s)."""

NO_BROWSER = (
    "PNG, SVG and PDF need Chrome or Chromium, and none was found; install one "
    "(Debian: apt-get install chromium) or name it in BROWSER_PATH; the HTML files are written"
)

_BROWSER_ERRORS = (TimeoutError, RuntimeError, OSError, DevtoolsProtocolError)

PAGES = jinja2.Environment(
    loader=jinja2.PackageLoader("analysis"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
"""The HTML pages; every text is escaped."""


@dataclass(frozen=True, slots=True)
class NamedFigure:
    """A figure ready for export.

    Attributes:
        name: file name without ending.
        title: title of the HTML page.
        caption: sentences under the figure on the HTML page.
        page: the figure without title and caption, which the page carries.
        whole: the figure with both, for files that show nothing else.
    """

    name: str
    title: str
    caption: tuple[str, ...]
    page: Figure
    whole: Figure


def embed(figure: Figure, name: str) -> str:
    """Return a figure as HTML for a page that holds plotly.js; `name` is the element's id."""
    return str(
        figure.to_html(
            full_html=False,
            include_plotlyjs=False,
            div_id=name,
            config={"responsive": True, "displayModeBar": False},
        )
    )


def plotly_script() -> str:
    """Return plotly.js (4.8 MB), for one script element of a page."""
    return str(plotly.offline.get_plotlyjs())


def find_browser() -> str | None:
    """Return the program that draws static figures, or None.

    `BROWSER_PATH` decides where it is set; else Chrome and its kin are looked for.
    """
    path = Chromium.find_browser(skip_local=False)
    return path if path is not None and Path(path).is_file() else None


def export(
    figures: Sequence[NamedFigure],
    folder: Path,
    *,
    formats: Iterable[str] = (),
    warn: Callable[[str], None],
    start_seconds: float = START_SECONDS,
) -> list[Path]:
    """Write each figure as HTML and in the other formats asked for.

    Args:
        figures: what to write, under distinct names.
        folder: where; made if it is not there.
        formats: of `FigureFormat`; `html` changes nothing.
        warn: told in one sentence why static files are missing.
        start_seconds: longest wait for the browser to start.

    Returns:
        The files written: HTML pages, the script that they share, then static files.

    Raises:
        RequestError: an unknown format, or the folder cannot be written.
    """
    static = [name for name in dict.fromkeys(formats) if name != FigureFormat.html]
    unknown = [name for name in static if name not in set(FigureFormat)]
    if unknown:
        raise RequestError(
            f"a format is one of {', '.join(FigureFormat)}, got {', '.join(unknown)}; use these"
        )
    written = []
    for figure in figures:
        path = folder / f"{figure.name}.html"
        page = PAGES.get_template("figure.html").render(
            title=figure.title,
            caption=figure.caption,
            script=SCRIPT,
            figure=embed(figure.page, "figure"),
        )
        write_atomically(path, page.encode())
        written.append(path)
    if figures:
        write_atomically(folder / SCRIPT, plotly_script().encode())
        written.append(folder / SCRIPT)
    if not static or not figures:
        return written
    browser = find_browser()
    if browser is None:
        warn(NO_BROWSER)
        return written
    wanted = [(figure, name) for figure in figures for name in static]
    limit = start_seconds + FIGURE_SECONDS * len(wanted)
    drawn: list[bytes] = []
    try:
        asyncio.run(asyncio.wait_for(_render(wanted, drawn, browser, start_seconds), limit))
    except _BROWSER_ERRORS as error:
        warn(
            f"{browser} drew {len(drawn)} of {len(wanted)} static figures, then failed or passed "
            f"its time limit ({type(error).__name__}); try again, or name another browser in "
            "BROWSER_PATH; the HTML files are written"
        )
    for (figure, name), content in zip(wanted, drawn, strict=False):
        path = folder / f"{figure.name}.{name}"
        write_atomically(path, finished(content, name))
        written.append(path)
    return written


async def _render(
    wanted: Sequence[tuple[NamedFigure, str]],
    drawn: list[bytes],
    browser: str,
    start_seconds: float,
) -> None:
    """Draw in one browser session, in order; what is done stays in `drawn` whatever follows."""
    session = kaleido.Kaleido(path=browser, timeout=FIGURE_SECONDS, mathjax=False)
    try:
        await asyncio.wait_for(session.open(), start_seconds)
        for figure, name in wanted:
            # 1200 pixels: sharp on a dense screen, and a README's picture stays small.
            options = {"format": name, "scale": 1.5 if name == "png" else 1}
            drawn.append(await session.calc_fig(figure.whole, opts=options))
    finally:
        # What closing says of a browser that hangs or died would hide what happened before.
        with contextlib.suppress(*_BROWSER_ERRORS):
            await asyncio.wait_for(session.close(), start_seconds)


def finished(content: bytes, format_name: str) -> bytes:
    """Take out what differs between two drawings of the same figure, and what wastes space.

    SVG holds random six-digit names, PDF two dates; a browser packs PNG in haste.
    """
    if format_name == "pdf":
        return re.sub(rb"(?<=Date \(D:)\d{14}", b"20000101000000", content)
    if format_name == "png":
        return repacked(content)
    text = content.decode()
    random_names = re.findall(
        r'(?:id="(?:topdefs-|defs-|clip|legend)|class="[^"]*\b(?:trace|cb))([0-9a-f]{6})', text
    )
    for number, name in enumerate(dict.fromkeys(random_names)):
        text = text.replace(name, f"{number:06d}")
    return text.encode()


def repacked(png: bytes) -> bytes:
    """Return the same picture with its pixels packed as tightly as zlib can: about half."""
    signature, place = png[:8], 8
    before: list[bytes] = []
    pixels = b""
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        kind, end = png[place + 4 : place + 8], place + 12 + length
        if kind == b"IDAT":
            pixels += png[place + 8 : end - 4]
        elif kind != b"IEND":
            before.append(png[place:end])
        place = end
    packed = zlib.compress(zlib.decompress(pixels), 9)
    chunks = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in ((b"IDAT", packed), (b"IEND", b""))
    ]
    return b"".join([signature, *before, *chunks])
