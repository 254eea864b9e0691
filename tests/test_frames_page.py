"""docs/frames.md is a session: every block runs, and prints what the page says.

`python -m tests.test_frames_page` writes what is printed now into the page.
"""

import contextlib
import io
import re
import tempfile
from pathlib import Path

from analysis import coverage, frames, query
from benchmarks.made_store import fill

PAGE = Path(__file__).parents[1] / "docs" / "frames.md"
BLOCK = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def executed(page, folder):
    """The page with what its blocks print in `folder`, each in the names of those before."""
    fill(f"sqlite:///{folder}/results.db", "made-small")
    names = {}

    def run(block):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(block[1], names)
        lines = (line.rstrip() for line in printed.getvalue().splitlines())
        return f"```python\n{block[1]}```\n\n```text\n" + "\n".join([*lines, "```"])

    with contextlib.chdir(folder):
        return BLOCK.sub(run, page)


def test_the_page_of_frames_prints_what_it_says(tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    assert len(BLOCK.findall(page)) == page.count("```python") == 11
    assert executed(page, tmp_path) == page


def test_the_page_shows_every_function_that_returns_a_frame():
    page = PAGE.read_text(encoding="utf-8")
    ours = {
        name
        for module in (frames, query)
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", "") == module.__name__
        if next(iter(value.__annotations__), "") == "engine"
    }
    assert {"cells", "results", "ranks", "query", "pivot", "sql"} <= ours
    left_out = {"training_curves"}  # what the report draws, no more
    shown = {name for name in ours if re.search(rf"(frames|query)\.{name}\(", page)}
    assert shown == ours - left_out
    assert coverage.coverage.__name__ in page


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(executed(PAGE.read_text(encoding="utf-8"), folder), encoding="utf-8")
