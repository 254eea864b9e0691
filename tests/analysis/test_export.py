import re
import struct
import zlib

import pandas as pd
import plotly.graph_objects as go
import pytest

from analysis.export import export, find_browser, finished, repacked
from analysis.figures import study_figures
from analysis.formats import FigureFormat
from analysis.layout import Area, NamedFigure
from analysis.stamp import Source
from model.errors import RequestError
from tests.analysis.browser import browser, look
from tests.analysis.hand_made import figures_of, full_study
from tests.stored import fill


@pytest.fixture(scope="module")
def heatmaps():
    return figures_of(*full_study())[:1]


SOURCE = Source("by-hand", "sqlite:///results.db", "0123abc", (("plotly", "7.1.0"),))


def small(name, title="A title"):
    rows = pd.DataFrame({"trial": ["a", "b"], "test_ndcg@10": [0.1, 0.2]})
    return NamedFigure(
        "small", name, title, ("A caption.",), go.Figure(), Area(100), rows, "SELECT 1"
    )


def written(figures, folder, **options):
    """The files of an export that misses nothing."""
    exported = export(figures, folder, source=SOURCE, **options)
    assert exported.missing == ""
    return list(exported.files)


def test_html_needs_no_network_but_the_script_beside_it(heatmaps, tmp_path):
    path, script, car = written(heatmaps, tmp_path / "figures")
    assert car.name == "subsets_ml-100k_test_ndcg-at-10.json"
    page = path.read_text()
    assert path.name == "subsets_ml-100k_test_ndcg-at-10.html"
    asked = re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"([^\"]*)\"", page)
    assert asked == ["plotly.min.js"]
    assert script == path.parent / "plotly.min.js"
    assert "plotly.js v" in script.read_text()[:200]
    assert "121 of 128 cells" in page


def test_many_pages_share_one_script(tmp_path):
    files = written([small(f"figure-{n}") for n in range(36)], tmp_path)
    assert [path.name for path in files] == [
        *(f"figure-{n}.html" for n in range(36)),
        "plotly.min.js",
        *(f"figure-{n}.json" for n in range(36)),
    ]
    assert sorted(files) == sorted(tmp_path.iterdir())
    pages = sum(path.stat().st_size for path in files[:36])
    assert pages < 36 * 50_000


def test_without_figures_there_is_no_script(tmp_path):
    assert written([], tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_titles_and_captions_are_text_and_never_markup(tmp_path):
    path, *_ = written([small("a", "<script>alert(1)</script>")], tmp_path)
    assert "<script>alert(1)" not in path.read_text()
    assert "&lt;script&gt;alert(1)" in path.read_text()


def test_without_a_browser_html_is_written_and_the_message_says_how_to_get_one(
    heatmaps, tmp_path, monkeypatch
):
    monkeypatch.setenv("BROWSER_PATH", "/nonexistent")
    exported = export(heatmaps, tmp_path, source=SOURCE, formats=["png"])
    assert [path.suffix for path in exported.files] == [".html", ".js", ".json"]
    assert "apt-get install chromium" in exported.missing
    assert "the HTML files are written" in exported.missing


@pytest.mark.slow
def test_a_browser_that_hangs_is_given_up_after_its_time_limit(heatmaps, tmp_path, monkeypatch):
    program = tmp_path / "hangs"
    program.write_text("#!/bin/sh\nexec sleep 3600\n")
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER_PATH", str(program))
    exported = export(heatmaps, tmp_path / "out", source=SOURCE, formats=["png"], start_seconds=0.5)
    assert [path.suffix for path in exported.files] == [".html", ".js", ".json"]
    assert "drew 0 of 1 static figures" in exported.missing
    assert "then failed or passed its time limit" in exported.missing


def test_a_browser_that_dies_is_reported(heatmaps, tmp_path, monkeypatch):
    program = tmp_path / "dies"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER_PATH", str(program))
    exported = export(heatmaps, tmp_path / "out", source=SOURCE, formats=["png"], start_seconds=5)
    assert [path.suffix for path in exported.files] == [".html", ".js", ".json"]
    assert "drew 0 of 1 static figures" in exported.missing


def test_an_unknown_format_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(RequestError, match=r"one of html, png, svg, pdf, got bmp"):
        export([small("a")], tmp_path, source=SOURCE, formats=["html", "bmp"])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_clear_message(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RequestError, match=r"must be writable, got .*; name another place"):
        export([small("a")], tmp_path / "file" / "figures", source=SOURCE)


def test_what_differs_between_two_drawings_is_taken_out():
    svg = '<g id="clipab12cd"/><g class="trace scatter traceff00aa" mask="#clipab12cd"/>'
    other = svg.replace("ab12cd", "112233").replace("ff00aa", "445566")
    assert finished(svg.encode(), "svg") == finished(other.encode(), "svg")
    pdf = b"/CreationDate (D:20260102030405+00'00')/ModDate (D:20260102030405+00'00')"
    assert finished(pdf, "pdf") == pdf.replace(b"20260102030405", b"20000101000000")


def test_a_repacked_picture_has_the_same_pixels_in_fewer_bytes():
    pixels = b"".join(b"\0" + bytes([row % 7] * 300) for row in range(100))

    def chunk(kind, body):
        sized = struct.pack(">I", len(body)) + kind + body
        return sized + struct.pack(">I", zlib.crc32(kind + body))

    stored = zlib.compress(pixels, 0)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 100, 100, 8, 2, 0, 0, 0))
    png = b"\x89PNG\r\n\x1a\n" + header
    png += chunk(b"IDAT", stored[:1000]) + chunk(b"IDAT", stored[1000:]) + chunk(b"IEND", b"")
    small_png = repacked(png)
    assert len(small_png) < len(png) / 10
    start = small_png.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", small_png[start - 8 : start - 4])
    assert zlib.decompress(small_png[start : start + length]) == pixels
    assert small_png.startswith(png[:33])
    assert small_png.endswith(chunk(b"IEND", b""))


def test_a_study_is_drawn_from_its_store(tmp_path):
    url = f"sqlite:///{tmp_path}/results.db"
    fill(url, tmp_path)
    exported, not_drawn = study_figures(
        url, "small", data_folder=tmp_path, folder=tmp_path / "figures"
    )
    # 18 cells: subsets none, Pos and Pos+Log, heads 1, 2 and per-embedding, 2 seeds. Two metrics
    # have a value in both protocols, each with a panel for each declared level of heads. Of the
    # other kinds curves (of the one level with complete trials), cost and the data are supported.
    names = [path.name.split("_")[0] for path in exported.files if path.suffix == ".html"]
    assert names == ["subsets"] * 9 + ["curves", "cost", "data"]
    assert not_drawn["time-unit"].startswith("it takes a study that sweeps tau")
    page = (tmp_path / "figures" / "subsets_tiny_test_ndcg-at-10_heads-1.html").read_text()
    assert "Test NDCG@10 on tiny, heads 1" in page
    assert "of 6 cells" in page


def test_a_study_that_the_store_lacks_is_refused(tmp_path):
    url = f"sqlite:///{tmp_path}/results.db"
    fill(url, tmp_path)
    with pytest.raises(RequestError, match="did you mean small"):
        study_figures(url, "smal", data_folder=tmp_path, folder=tmp_path)


@pytest.mark.browser
def test_one_session_draws_every_static_format_the_same_twice(heatmaps, tmp_path):
    browser()
    folders = (tmp_path / "a", tmp_path / "b")
    for folder in folders:
        written(heatmaps, folder, formats=["png", "svg", "pdf"])
    starts = {
        ".png": b"\x89PNG",
        ".svg": b"<svg",
        ".pdf": b"%PDF",
        ".html": b"<!doctype html>",
        ".js": b"/*",
        ".json": b"{",
    }
    assert set(starts) == {".js", ".json", *(f".{name}" for name in FigureFormat)}
    for first in sorted(folders[0].iterdir()):
        content = first.read_bytes()
        assert content.startswith(starts.pop(first.suffix))
        assert content == (folders[1] / first.name).read_bytes()
        if first.suffix == ".png":
            assert len(content) < 300_000
    assert starts == {}


@pytest.mark.browser
def test_a_figures_page_fits_phone_and_desktop(heatmaps, tmp_path):
    path, *_ = written(heatmaps, tmp_path)
    for seen in look(path, widths=(390, 1280)):
        assert seen.complaints == ()
        assert seen.figures_drawn == 1
        assert seen.page_width <= seen.width
        assert "keep it beside this page" not in seen.text


@pytest.mark.browser
def test_a_page_that_lost_its_script_says_what_it_needs(heatmaps, tmp_path):
    path, script, _ = written(heatmaps, tmp_path)
    script.unlink()
    (seen,) = look(path, widths=(1280,), wait_for_figures=False)
    assert "plotly.min.js, which is written into the same folder; keep it beside" in seen.text


@pytest.mark.browser
def test_the_browser_is_found_on_the_path():
    assert find_browser() == browser()
