"""Figures as files: HTML always; PNG, SVG and PDF through one browser session, within a time limit.

Each file is whole or absent: it is written under another name and renamed. Nothing here needs the
network: plotly.js is written once, beside the pages that use it.
"""

import asyncio
import contextlib
import json
import re
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import kaleido
import plotly.offline
from choreographer.browsers.chromium import Chromium
from choreographer.errors import DevtoolsProtocolError
from plotly.graph_objects import Figure

from analysis.files import write_atomically
from analysis.formats import FigureFormat, FigureSize
from analysis.layout import NamedFigure, shrinking
from analysis.stamp import Source, side_car, stamp, stamped
from model.errors import RequestError

SCRIPT = "plotly.min.js"
"""The file beside the pages that draws them all: inside each it would add 4.8 MB a page."""

START_SECONDS = 30.0
"""Longest wait for the browser to start and to stop (usual: 3 s)."""

FIGURE_SECONDS = 20.0
"""Longest wait for one figure in one format (usual: 0.3 s)."""

SHARPNESS = {FigureSize.whole: 1.5, FigureSize.two: 300 / 96, FigureSize.one: 300 / 96}
"""Pixels of a PNG for each of the figure's: 1200 across for a screen, 300 an inch for print."""

TABS = 2
"""Tabs of the browser that draw at the same time."""

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
class Exported:
    """What an export wrote.

    Attributes:
        files: HTML pages, the script that they share, static files, then side-cars.
        missing: why static files that were asked for are not there; empty when all are.
    """

    files: tuple[Path, ...]
    missing: str


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


def embed_later(figure: Figure) -> str:
    """Return a figure's JSON, safe in a script, for a page that draws it when it comes in sight."""
    return str(figure.to_json()).replace("<", r"\u003c")


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
    source: Source,
    formats: Iterable[str] = (),
    size: FigureSize = FigureSize.whole,
    start_seconds: float = START_SECONDS,
) -> Exported:
    """Write each figure as HTML and in the other formats asked for, with its provenance.

    Args:
        figures: what to write, under distinct names.
        folder: where; made if it is not there.
        source: where the figures come from.
        formats: of `FigureFormat`; `html` changes nothing.
        size: of the static files.
        start_seconds: longest wait for the browser to start.

    Raises:
        RequestError: an unknown format, or the folder cannot be written.
    """
    static = [name for name in dict.fromkeys(formats) if name != FigureFormat.html]
    unknown = [name for name in static if name not in set(FigureFormat)]
    if unknown:
        raise RequestError(
            f"a format is one of {', '.join(FigureFormat)}, got {', '.join(unknown)}; use these"
        )
    stamps = {figure.name: stamp(figure, source) for figure in figures}
    written: dict[str, list[Path]] = {}
    for figure in figures:
        path = folder / f"{figure.name}.html"
        page = PAGES.get_template("figure.html").render(
            title=figure.title,
            caption=figure.caption,
            script=SCRIPT,
            figure=embed(figure.page, "figure"),
            provenance=stamps[figure.name],
        )
        write_atomically(path, page.encode())
        written[figure.name] = [path]
    shared = []
    if figures:
        shared.append(folder / SCRIPT)
        write_atomically(shared[0], plotly_script().encode())
    pictures, missing = _pictures(figures, static, size, start_seconds)
    for (own, form), content in pictures.items():
        path = folder / f"{own}.{form}"
        write_atomically(path, stamped(finished(content, form), form, stamps[own]))
        written[own].append(path)
    cars = []
    for figure in figures:
        car = side_car(figure, stamps[figure.name], written[figure.name])
        cars.append(folder / f"{figure.name}.json")
        text = json.dumps(car, indent=1, ensure_ascii=False) + "\n"
        write_atomically(cars[-1], text.encode())
    pages = [paths[0] for paths in written.values()]
    statics = [path for paths in written.values() for path in paths[1:]]
    return Exported((*pages, *shared, *statics, *cars), missing)


_Wanted = tuple[str, str, Figure]
"""Figure's name, format, and what to draw."""


def _pictures(
    figures: Sequence[NamedFigure], formats: Sequence[str], size: FigureSize, start_seconds: float
) -> tuple[dict[tuple[str, str], bytes], str]:
    """Return what the browser drew by figure and format, and why not all, if not all."""
    if not formats or not figures:
        return {}, ""
    browser = find_browser()
    if browser is None:
        return {}, NO_BROWSER
    wanted = [(f.name, name, f.sized(size)) for f in figures for name in formats]
    # Several tabs of one browser draw at once: Plotly leaves a core idle while a picture is packed.
    limit = start_seconds + FIGURE_SECONDS * len(wanted) / TABS
    drawn: dict[tuple[str, str], bytes] = {}
    try:
        asyncio.run(asyncio.wait_for(_render(wanted, drawn, size, browser, start_seconds), limit))
    except _BROWSER_ERRORS as error:
        return drawn, (
            f"{browser} drew {len(drawn)} of {len(wanted)} static figures, then failed or passed "
            f"its time limit ({type(error).__name__}); try again, or name another browser in "
            "BROWSER_PATH; the HTML files are written"
        )
    return {what[:2]: drawn[what[:2]] for what in wanted}, ""


async def _render(
    wanted: Sequence[_Wanted],
    drawn: dict[tuple[str, str], bytes],
    size: FigureSize,
    browser: str,
    start_seconds: float,
) -> None:
    """Draw in one browser session; what is done stays in `drawn` whatever follows."""
    session = kaleido.Kaleido(n=TABS, path=browser, timeout=FIGURE_SECONDS, mathjax=False)

    async def draw(name: str, form: str, figure: Figure) -> None:
        scale = shrinking(size) * (SHARPNESS[size] if form == "png" else 1)
        options = {"format": form, "scale": scale}
        drawn[name, form] = await session.calc_fig(figure, opts=options)

    try:
        await asyncio.wait_for(session.open(), start_seconds)
        async with asyncio.TaskGroup() as group:
            for what in wanted:
                group.create_task(draw(*what))
    except* _BROWSER_ERRORS as errors:
        raise _first(errors) from None
    finally:
        # What closing says of a browser that hangs or died would hide what happened before.
        with contextlib.suppress(*_BROWSER_ERRORS):
            await asyncio.wait_for(session.close(), start_seconds)


def _first(errors: BaseException) -> BaseException:
    """Return the first error of a group, however nested."""
    while isinstance(errors, BaseExceptionGroup):
        errors = errors.exceptions[0]
    return errors


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
