"""Opens a page in headless Chromium and says what a reader would see."""

import asyncio
import base64
from dataclasses import dataclass

import choreographer
import pytest

from analysis.export import find_browser


@dataclass(frozen=True)
class Seen:
    complaints: tuple[str, ...]
    figures_drawn: int
    page_width: int
    page_height: int
    picture: bytes
    hover: str


def browser():
    """The browser's path; the test is skipped without one."""
    path = find_browser()
    if path is None:
        pytest.skip("needs Chrome or Chromium: apt-get install chromium, or set BROWSER_PATH")
    return path


def look(page, *, width, height=900, scale=1, point_at=None):
    """Open a file as a screen of this width shows it, and wait until its figures are drawn.

    `point_at` moves the mouse to a place in the first figure's plot area: (from left, from top),
    as shares of its size.
    """
    return asyncio.run(asyncio.wait_for(_look(page, width, height, scale, point_at), 60))


DRAWN = """new Promise(done => {
  const look = () => {
    const all = document.querySelectorAll('.js-plotly-plot').length;
    const drawn = document.querySelectorAll('.js-plotly-plot .main-svg .heatmaplayer image').length;
    const wanted = document.querySelectorAll('.plotly-graph-div').length;
    if (all === wanted && drawn === wanted) requestAnimationFrame(() => done(drawn));
    else requestAnimationFrame(look);
  };
  look();
})"""


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


async def _look(page, width, height, scale, point_at):
    complaints = []

    async def hear(message):
        params = message["params"]
        if message["method"] == "Runtime.exceptionThrown":
            complaints.append(params["exceptionDetails"]["text"])
        elif message["method"] == "Log.entryAdded":
            complaints.append(params["entry"]["text"])
        elif params["type"] in ("error", "warning"):
            complaints.append(str(params["args"]))

    async with choreographer.Browser(path=browser(), headless=True) as session:
        tab = await session.create_tab("about:blank")
        for event in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            tab.subscribe(event, hear)
        await tab.send_command("Runtime.enable")
        await tab.send_command("Log.enable")
        await tab.send_command("Page.enable")
        await tab.send_command(
            "Network.emulateNetworkConditions",
            params={
                "offline": True,
                "latency": 0,
                "downloadThroughput": -1,
                "uploadThroughput": -1,
            },
        )
        await tab.send_command(
            "Emulation.setDeviceMetricsOverride",
            params={
                "width": width,
                "height": height,
                "deviceScaleFactor": scale,
                "mobile": width < 600,
            },
        )
        loaded = tab.subscribe_once("Page.loadEventFired")
        await tab.send_command("Page.navigate", params={"url": page.resolve().as_uri()})
        await loaded

        async def evaluate(expression):
            answer = await tab.send_command(
                "Runtime.evaluate",
                params={
                    "expression": expression,
                    "awaitPromise": True,
                    "returnByValue": True,
                },
            )
            return answer["result"]["result"]["value"]

        figures = await evaluate(DRAWN)
        hover = ""
        if point_at is not None:
            left, top, across, down = await evaluate(PLACE)
            for step in (-2, 0):  # a mouse that has not moved points at nothing
                place = {"x": left + point_at[0] * across + step, "y": top + point_at[1] * down}
                await tab.send_command(
                    "Input.dispatchMouseEvent", params={"type": "mouseMoved", **place}
                )
            hover = await evaluate(HOVER)
        page_width = await evaluate("document.documentElement.scrollWidth")
        page_height = await evaluate("document.documentElement.scrollHeight")
        picture = await tab.send_command(
            "Page.captureScreenshot",
            params={
                "captureBeyondViewport": True,
                "clip": {"x": 0, "y": 0, "width": width, "height": page_height, "scale": 1},
            },
        )
        return Seen(
            complaints=tuple(complaints),
            figures_drawn=figures,
            page_width=page_width,
            page_height=page_height,
            picture=base64.b64decode(picture["result"]["data"]),
            hover=hover,
        )
