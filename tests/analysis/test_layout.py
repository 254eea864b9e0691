import pytest

from analysis.formats import FigureSize
from analysis.gallery.labels import CHARACTER
from analysis.layout import COLUMN_WIDTHS, shrinking
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
        assert sized.layout.width * shrinking(size) == width
        assert len(sized.layout.annotations) == len(figure.page.layout.annotations)


def test_in_a_column_of_a_paper_no_text_is_smaller_than_six_points():
    figures = figures_of(*full_study(gaps=False))
    # 72 points and 96 pixels an inch; what names no size has the template's.
    smallest = 6 / (0.75 * shrinking(FigureSize.one))
    assert len({figure.kind for figure in figures}) >= 8
    for figure in figures:
        sizes = set(font_sizes(figure.sized(FigureSize.one).to_plotly_json()))
        assert sizes
        assert min(sizes) >= smallest, figure.name


def font_sizes(part, name=""):
    if isinstance(part, dict):
        if name.endswith("font") and isinstance(part.get("size"), int | float):
            yield part["size"]
        for key, inner in part.items():
            yield from font_sizes(inner, key)
    elif isinstance(part, list | tuple):
        for inner in part:
            yield from font_sizes(inner, name)


def test_eight_heatmap_columns_are_wider_than_their_numbers_in_one_column(figure):
    sized = figure.sized(FigureSize.one)
    column = (sized.layout.width - sized.layout.margin.l - sized.layout.margin.r) / 8
    (texts,) = sized.select_traces({"mode": "text"})
    longest = max(len(line) for text in texts.text for line in text.split("<br>"))
    assert texts.textfont.size == 11
    assert longest * CHARACTER < column


def test_only_a_narrow_page_keeps_room_for_a_legend_that_wraps(figure):
    heights = {size: figure.sized(size).layout.height for size in COLUMN_WIDTHS}
    assert figure.area.spare > 0
    assert heights[FigureSize.one] - heights[FigureSize.two] == figure.area.spare


def test_heatmaps_without_hatches_leave_no_room_for_their_legend(figure):
    (complete, *_) = figures_of(*full_study(gaps=False), "subsets")
    assert complete.area.below < figure.area.below


def test_drawing_one_size_leaves_the_others_alone(figure):
    before = figure.page.to_plotly_json()
    figure.sized(FigureSize.whole)
    assert figure.page.to_plotly_json() == before
