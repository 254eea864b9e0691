"""The tutorial's blocks run as they stand, in order, in an empty folder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console import SCRIPT, environment

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_every_block_of_the_tutorial_runs(tmp_path):
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 6
    path = f"{SCRIPT.parent}:{environment(tmp_path)['PATH']}"
    said = []
    for language, source in blocks:
        words = ["bash", "-euo", "pipefail", "-c"] if language == "bash" else [sys.executable, "-c"]
        done = subprocess.run(
            [*words, source],
            cwd=tmp_path,
            env=environment(tmp_path, PATH=path),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{source}\n{done.stdout}\n{done.stderr}"
        said.append(done.stdout + done.stderr)
    assert "10 cells = 8 trials + 2 infeasible + 0 duplicates" in said[1]
    assert "Nothing to start: 8 of 8 trials" in said[2]
    assert "report.html" in said[5]
