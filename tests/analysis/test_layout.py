import pytest

from analysis.formats import FigureSize
from analysis.layout import COLUMN_WIDTHS
from analysis.style import FONT
from tests.analysis.hand_made import figures_of, full_study


@pytest.fixture(scope="module")
def figure():
    return figures_of(*full_study(), "subsets")[0]


def test_a_page_figure_has_no_title_and_takes_its_pages_width(figure):
    assert figure.page.layout.width is None
    assert figure.page.layout.title.text is None
    assert figure.page.layout.template.layout.font.family == FONT


def test_a_whole_figure_carries_title_and_every_sentence_of_its_caption(figure):
    whole = figure.sized(FigureSize.whole)
    texts = " ".join(note.text.replace("<br>", " ") for note in whole.layout.annotations)
    assert "<b>Test NDCG@10 on ml-100k</b>" in texts
    assert len(figure.caption) > 3
    for sentence in figure.caption:
        assert sentence in texts
    assert "121 of 128 cells" in texts


def test_a_papers_figure_is_as_wide_as_its_columns_and_leaves_the_caption_to_the_paper(figure):
    # 96 pixels an inch: 3.5 and 7 inches.
    assert dict(COLUMN_WIDTHS) == {FigureSize.one: 3.5 * 96, FigureSize.two: 7 * 96}
    for size, width in COLUMN_WIDTHS.items():
        sized = figure.sized(size)
        assert sized.layout.width == width
        assert len(sized.layout.annotations) == len(figure.page.layout.annotations)


def test_drawing_one_size_leaves_the_others_alone(figure):
    before = figure.page.to_plotly_json()
    figure.sized(FigureSize.whole)
    assert figure.page.to_plotly_json() == before
