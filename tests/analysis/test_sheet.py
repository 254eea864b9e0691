import csv
import io
import shutil
import subprocess

import pytest

from analysis.formats import SheetFormat
from analysis.sheet import Entry, Sheet, Span, escaped, write_sheet

SHEET = Sheet(
    caption="50% of a_b & c",
    heading=("data set", "metric", "A", "B"),
    rows=(
        (Entry("ml-1m"), Entry("NDCG@10"), Entry(".312 ± .004", "best"), Entry(".300", "second")),
        (Entry("x|y"), Entry("*"), Entry("−.1"), Entry("–")),
    ),
    numeric=(False, False, True, True),
    notes=("First note.", "Second: p < .05."),
    spans=(Span("", 2), Span("ours", 2)),
    rules=frozenset({1}),
)


def compiled(text, folder):
    """Compile a document that holds the text; return pdflatex's log."""
    document = (
        "\\documentclass{article}\n\\usepackage{booktabs,longtable}\n\\begin{document}\n"
        f"{text}\n\\end{{document}}\n"
    )
    (folder / "table.tex").write_text(document, encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"],
        cwd=folder,
        capture_output=True,
        timeout=60,
        check=False,
    )
    log = done.stdout.decode(errors="replace")
    assert done.returncode == 0, log[-2000:]
    return log


def test_latex_marks_the_best_and_the_second_and_escapes_the_rest():
    lines = write_sheet(SHEET, SheetFormat.latex).splitlines()
    assert lines[0] == r"% needs \usepackage{booktabs}"
    assert r"\caption{50\% of a\_b \& c}" in lines
    assert r"\begin{tabular}{llrr}" in lines
    assert r"\multicolumn{2}{c}{} & \multicolumn{2}{c}{ours} \\" in lines
    assert r"\cmidrule(lr){3-4}" in lines
    assert r"ml-1m & NDCG@10 & \textbf{.312 $\pm$ .004} & \underline{.300} \\" in lines
    assert r"x$|$y & * & $-$.1 & -- \\" in lines
    assert lines.count(r"\midrule") == 2


def test_markdown_is_a_table_with_the_same_marks():
    assert write_sheet(SHEET, SheetFormat.markdown).splitlines() == [
        r"**50% of a\_b & c**",
        "",
        "| data set | metric | ours: A | ours: B |",
        "| :-- | :-- | --: | --: |",
        "| ml-1m | NDCG@10 | **.312 ± .004** | <u>.300</u> |",
        r"| x\|y | \* | −.1 | – |",
        "",
        r"First note. Second: p \< .05.",
    ]


def test_csv_holds_bare_texts():
    rows = list(csv.reader(io.StringIO(write_sheet(SHEET, SheetFormat.csv))))
    assert rows == [
        ["data set", "metric", "ours: A", "ours: B"],
        ["ml-1m", "NDCG@10", ".312 ± .004", ".300"],
        ["x|y", "*", "−.1", "–"],
    ]


def test_long_tables_may_break_over_pages():
    long = SHEET._replace(rows=SHEET.rows * 30, rules=frozenset())
    text = write_sheet(long, SheetFormat.latex)
    assert text.startswith(r"% needs \usepackage{booktabs,longtable}")
    assert text.count(r"\endhead") == 1
    assert r"\begin{table}" not in text


@pytest.mark.latex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("copies", [1, 30])
def test_latex_compiles_with_every_character_that_texts_can_hold(tmp_path, copies):
    hard = "\\ & % $ # _ { } ~ ^ < > | ± − × ≤ ≥ τ – — … \" ' é ü `"
    row = (Entry(hard), Entry(hard, "best"), Entry(hard[:9], "second"), Entry("[+0.1, −0.2]"))
    sheet = SHEET._replace(
        caption=hard, heading=(hard[:5], "b", "c", "d"), rows=(*SHEET.rows, row) * copies,
        notes=(hard,),
    )  # fmt: skip
    log = compiled(write_sheet(sheet, SheetFormat.latex), tmp_path)
    assert (tmp_path / "table.pdf").stat().st_size > 1000
    assert "Missing character" not in log


def test_escapes_leave_plain_text_alone():
    assert escaped("Day+Pos, NDCG@10 (.25)") == "Day+Pos, NDCG@10 (.25)"
