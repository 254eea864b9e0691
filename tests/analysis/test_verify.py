"""The product finds what was planted, through its own console script."""

import re
from textwrap import dedent

import pytest

from tests.console import meantime

RULINGS = ("found", "nothing", "undecided")

# The small form's set for Sin and the one without truth, with as few steps as still settle them.
STUDIES = dedent(
    """\
    datasets:
      planted-period:
        synthetic: {recipe: planted-period}
        defaults: {max_len: 16, batch: 64, epochs: 14, protocol: full, repeats: allowed}
      planted-none:
        synthetic: {recipe: planted-none, users: 3000}
        defaults: {max_len: 16, batch: 64, epochs: 6, protocol: full, repeats: allowed}
    defaults: {hidden: 32, layers: 1, dropout: 0.1, lr: 4e-3, heads: 6}
    studies:
      planted-truth-small:
        question: Is the planted embedding found, and nothing else?
        datasets: [planted-period, planted-none]
        embeddings: [none, [day], [pos], [con], [sin], [exp], [log]]
        seeds: [0, 1]
      too-short:
        question: Is a verdict that is not the planted one said to be wrong?
        datasets: [planted-period]
        embeddings: [none, [day], [pos], [con], [sin], [exp], [log]]
        grid: {epochs: 1}
        seeds: [0, 1]
    """
)


@pytest.mark.slow
def test_verify_finds_sin_where_it_was_planted_and_nothing_where_nothing_was(tmp_path):
    (tmp_path / "studies.yaml").write_text(STUDIES, encoding="utf-8")
    done = meantime("verify", "--serial", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(" planted-")]
    assert len(rows) == 12
    said = {(row[0], row[1]): next(w for w in row if w in RULINGS) for row in rows}
    found = [key for key, ruling in said.items() if ruling == "found"]
    assert found == [("planted-period", "Sin")]
    assert set(said.values()) == {"found", "nothing"}
    assert "12 of 12 verdicts are the planted ones." in re.sub(r"\s+", " ", done.stdout)


@pytest.mark.slow
def test_a_verdict_that_is_not_the_planted_one_is_exit_code_1(tmp_path):
    (tmp_path / "studies.yaml").write_text(STUDIES, encoding="utf-8")
    done = meantime("verify", "too-short", "--serial", folder=tmp_path)
    assert done.returncode == 1
    assert "WRONG" in done.stdout
