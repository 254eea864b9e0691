import html
import io
import json
import re

import pandas as pd
import plotly.graph_objects as go
import pypdf
import pytest

from analysis.export import export
from analysis.figures import check_figures, study_figures
from analysis.layout import Area, NamedFigure
from analysis.query import sql
from analysis.stamp import Source, compare, rows_sha256, source, stamp, stamped
from model.errors import RequestError
from tests.analysis.browser import browser
from tests.stored import ENVIRONMENT, fill, opened, prepared, result

SOURCE = Source("by-hand", "sqlite:///results.db", "0123abc", (("plotly", "7.1.0"),))


def drawn(name="a", values=(0.1, 0.2)):
    rows = pd.DataFrame({"trial": ["x", "y"], "test_ndcg@10": values, "commit": ["c1", None]})
    figure = go.Figure(go.Scatter(x=[1, 2], y=values))
    return NamedFigure("small", name, "A title", ("A caption.",), figure, Area(200), rows, "SELECT")


def test_a_stamp_names_study_store_query_rows_and_code():
    told = stamp(drawn(), SOURCE)
    assert told == {
        "figure": "a",
        "kind": "small",
        "study": "by-hand",
        "store": "sqlite:///results.db",
        "query": "SELECT",
        "rows": 2,
        "rows_sha256": rows_sha256(drawn().rows),
        "trained_at_commits": ["c1"],
        "drawn_at_commit": "0123abc",
        "versions": {"plotly": "7.1.0"},
    }


def test_the_hash_of_rows_sees_the_last_digit_and_the_order():
    rows = pd.DataFrame({"value": [0.1, 0.2]})
    assert rows_sha256(rows) == rows_sha256(rows.copy())
    assert rows_sha256(rows) != rows_sha256(pd.DataFrame({"value": [0.1, 0.2 + 1e-16 * 4]}))
    assert rows_sha256(rows) != rows_sha256(rows[::-1])


def test_this_process_says_what_it_draws_with():
    versions = dict(source("s", "sqlite:///a.db").versions)
    assert versions["plotly"].startswith("7.")
    assert len(versions) == 6


def test_a_page_carries_its_provenance_and_stays_whole(tmp_path):
    hostile = NamedFigure(
        "small", "a", "t", (), go.Figure(), Area(100), drawn().rows, "</script><script>alert(1)"
    )
    export([hostile], tmp_path, source=SOURCE)
    page = (tmp_path / "a.html").read_text()
    assert "</script><script>alert" not in page
    (text,) = re.findall(r'<script type="application/json" id="provenance">(.*?)</script>', page)
    assert json.loads(text)["query"] == "</script><script>alert(1)"


def test_svg_carries_its_provenance_as_metadata():
    svg = stamped(b'<svg class="a"><g/></svg>', "svg", {"figure": "a<b"})
    (text,) = re.findall(r'<metadata id="provenance">(.*?)</metadata>', svg.decode())
    assert json.loads(html.unescape(text)) == {"figure": "a<b"}
    assert svg.startswith(b'<svg class="a"><metadata')


@pytest.mark.browser
def test_every_static_file_carries_its_provenance_and_pdf_its_fonts(tmp_path):
    browser()
    exported = export([drawn()], tmp_path, source=SOURCE, formats=["png", "svg", "pdf"])
    assert exported.missing == ""
    told = stamp(drawn(), SOURCE)
    png = (tmp_path / "a.png").read_bytes()
    chunk = png[png.index(b"iTXtprovenance") : png.index(b"IEND") - 8]
    assert json.loads(chunk.split(b"\0\0\0\0\0")[1]) == told
    assert json.dumps(told["rows_sha256"]) in html.unescape((tmp_path / "a.svg").read_text())
    pdf = pypdf.PdfReader(io.BytesIO((tmp_path / "a.pdf").read_bytes()))
    assert json.loads(pdf.metadata["/provenance"]) == told
    fonts = pdf.pages[0]["/Resources"]["/Font"].values()
    assert len(fonts) > 0
    for font in fonts:
        described = font.get_object()["/DescendantFonts"][0].get_object()["/FontDescriptor"]
        assert any(key.startswith("/FontFile") for key in described.get_object())


def test_what_changed_since_is_found_figure_by_figure(tmp_path):
    export([drawn("a"), drawn("b"), drawn("c"), drawn("d"), drawn("e")], tmp_path, source=SOURCE)
    (tmp_path / "c.html").unlink()
    (tmp_path / "e.html").write_text("edited")
    (tmp_path / "other.json").write_text("[not json")
    found = compare(
        tmp_path, [drawn("a"), drawn("b", (0.1, 0.3)), drawn("c"), drawn("e")], "by-hand"
    )
    assert [(finding.figure, finding.state) for finding in found] == [
        ("a", "current"), ("b", "outdated"), ("c", "missing"), ("d", "gone"), ("e", "altered"),
    ]  # fmt: skip
    assert found[1].detail.startswith("drawn from 2 rows (")


def test_a_folder_without_figures_of_the_study_is_refused(tmp_path):
    export([drawn()], tmp_path, source=SOURCE)
    with pytest.raises(RequestError, match="must hold figures of another"):
        compare(tmp_path, [drawn()], "another")


def checked(url, folder):
    return check_figures(url, "small", folder=folder / "figures", data_folder=folder)


def test_figures_of_a_store_are_current_until_a_trial_completes(tmp_path):
    url = f"sqlite:///{tmp_path}/results.db"
    what = fill(url, tmp_path)
    study_figures(url, "small", data_folder=tmp_path, folder=tmp_path / "figures")
    assert {
        found.state
        for found in check_figures(url, "small", folder=tmp_path / "figures", data_folder=tmp_path)
    } == {"current"}
    data, _ = prepared(what, tmp_path)
    with opened(url) as store, store.claim():
        trial = list(what.trials)[6]
        attempt = store.begin_attempt(trial, ENVIRONMENT)
        store.complete(trial, attempt, result(0.3), fingerprint=data.fingerprint)
    heads = what.trials[trial].factors["heads"]
    states = {
        found.figure: found.state
        for found in check_figures(url, "small", folder=tmp_path / "figures", data_folder=tmp_path)
    }
    assert states[f"subsets_tiny_test_ndcg-at-10_heads-{heads}"] == "outdated"
    assert set(states.values()) == {"current", "outdated"}


def test_the_query_of_a_stamp_returns_the_rows_that_it_counts(tmp_path):
    from analysis.frames import open_reader

    url = f"sqlite:///{tmp_path}/results.db"
    fill(url, tmp_path)
    study_figures(
        url, "small", data_folder=tmp_path, folder=tmp_path / "figures", only=["subsets", "cost"]
    )
    asked = 0
    for path in (tmp_path / "figures").glob("*.json"):
        told = json.loads(path.read_text())
        assert len(sql(open_reader(url), told["query"])) == told["rows"]
        asked += 1
    assert asked == 9 + 1
