"""Opens a page in headless Chromium, without a network, and says what a reader would see."""

import asyncio
import base64
from dataclasses import dataclass

import choreographer
import pytest

from analysis.export import find_browser

DRAWN = """new Promise(done => {
  window.dispatchEvent(new Event('beforeprint'));  // a report draws what is near the screen
  const look = () => {
    const drawn = document.querySelectorAll('.js-plotly-plot .cartesianlayer .subplot.xy').length;
    const wanted = document.querySelectorAll('.plotly-graph-div, .figure').length;
    if (drawn === wanted) requestAnimationFrame(() => done(drawn));
    else requestAnimationFrame(look);
  };
  look();
})"""

LOADED = "performance.getEntriesByType('navigation')[0].loadEventStart / 1000"

SCROLLING = """[...document.querySelectorAll('.scroll')]
  .filter(box => box.scrollWidth > box.clientWidth)
  .map(box => box.querySelector('tr').innerText)"""

NARROWEST = """Math.min(
  9999, ...[...document.querySelectorAll('.js-plotly-plot')].map(box => box.offsetWidth))"""

PLACE = """(() => {
  const area = document.querySelector('.js-plotly-plot .nsewdrag');
  area.scrollIntoView({block: 'center'});
  const box = area.getBoundingClientRect();
  return [box.left, box.top, box.width, box.height];
})()"""

HOVER = """new Promise(done => {
  const look = () => {
    const shown = document.querySelector('.hoverlayer .hovertext');
    if (shown) done([...shown.querySelectorAll('tspan, text')].map(t => t.textContent).join(' '));
    else requestAnimationFrame(look);
  };
  look();
})"""


@dataclass(frozen=True)
class Seen:
    """What one view of a page showed.

    `seconds` is from the request to the end of loading, before figures are asked for.
    `narrowest` is the least width that a figure was laid out in, before it was made smaller; 9999
    without one.
    `hover` is the text at the place pointed at, `text` what is visible, `scrolling` the texts of
    the first rows of tables that need a scroll bar.
    """

    width: int
    seconds: float
    complaints: tuple[str, ...]
    figures_drawn: int
    page_width: int
    narrowest: int
    text: str
    scrolling: tuple[str, ...]
    hover: str
    picture: bytes


def browser():
    """The browser's path; the test is skipped without one."""
    path = find_browser()
    if path is None:
        pytest.skip("needs Chrome or Chromium: apt-get install chromium, or set BROWSER_PATH")
    return path


def look(page, *, widths, point_at=None, wait_for_figures=True):
    """Open a file on screens of these widths, one after the other, and wait for its figures.

    `point_at` moves the mouse to a place in the first figure's plot area: (from left, from top),
    as shares of its size.
    """
    program = browser()
    return asyncio.run(
        asyncio.wait_for(_look(program, page, widths, point_at, wait_for_figures), 90)
    )


async def _look(program, page, widths, point_at, wait_for_figures):
    async with choreographer.Browser(path=program, headless=True) as session:
        tab = await session.create_tab("about:blank")
        complaints = []
        await _listen(tab, complaints)
        return [
            await _view(tab, page, width, point_at, complaints, wait_for_figures)
            for width in widths
        ]


async def _listen(tab, complaints):
    async def hear(message):
        params = message["params"]
        if message["method"] == "Runtime.exceptionThrown":
            complaints.append(params["exceptionDetails"]["text"])
        elif message["method"] == "Log.entryAdded":
            complaints.append(params["entry"]["text"])
        elif params["type"] in ("error", "warning"):
            complaints.append(str(params["args"]))

    for event in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
        tab.subscribe(event, hear)
    for domain in ("Runtime", "Log", "Page"):
        await tab.send_command(f"{domain}.enable")
    await tab.send_command(
        "Network.emulateNetworkConditions",
        params={"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1},
    )


async def _view(tab, page, width, point_at, complaints, wait_for_figures):
    async def evaluate(expression):
        answer = await tab.send_command(
            "Runtime.evaluate",
            params={"expression": expression, "awaitPromise": True, "returnByValue": True},
        )
        return answer["result"]["result"]["value"]

    del complaints[:]
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    await tab.send_command("Emulation.setDeviceMetricsOverride", params=screen)
    loaded = tab.subscribe_once("Page.loadEventFired")
    await tab.send_command("Page.navigate", params={"url": page.resolve().as_uri()})
    await loaded
    seconds = await evaluate(LOADED)
    figures_drawn = await evaluate(DRAWN) if wait_for_figures else 0
    page_width, page_height = await evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
    )
    text = await evaluate("document.body.innerText")
    scrolling = await evaluate(SCROLLING)
    clip = {"x": 0, "y": 0, "width": width, "height": page_height, "scale": 1}
    picture = await tab.send_command(
        "Page.captureScreenshot", params={"captureBeyondViewport": True, "clip": clip}
    )
    hover = ""
    if point_at is not None:
        left, top, across, down = await evaluate(PLACE)
        for step in (-2, 0):  # a mouse that has not moved points at nothing
            place = {"x": left + point_at[0] * across + step, "y": top + point_at[1] * down}
            await tab.send_command(
                "Input.dispatchMouseEvent", params={"type": "mouseMoved", **place}
            )
        hover = await evaluate(HOVER)
    return Seen(
        width=width,
        seconds=seconds,
        complaints=tuple(complaints),
        figures_drawn=figures_drawn,
        page_width=page_width,
        narrowest=await evaluate(NARROWEST),
        text=text,
        scrolling=tuple(scrolling),
        hover=hover,
        picture=base64.b64decode(picture["result"]["data"]),
    )
