import itertools

import pytest
from plotly.colors import hex_to_rgb, sample_colorscale

from analysis.colour import balanced_limits, limits, luminance, readable_on
from analysis.style import DIVERGING, INK, PAPER, SEQUENTIAL, SERIES


def light_of(colour):
    return luminance(tuple(c / 255 for c in hex_to_rgb(colour)))


def test_limits_leave_a_far_value_outside_and_mark_it():
    span = limits([0.20, 0.21, 0.22, 0.23, 0.24, 0.25, 0.26, 0.90, float("nan")])
    # Quartiles of the eight are .2175 and .2525: the upper fence is .2525 + 1.5 * .035 = .305.
    assert span[:2] == (0.20, 0.26)
    assert [span.mark(value) for value in (0.9, 0.25, 0.1)] == ["▲", "", "▼"]
    assert (span.position(0.9), span.position(0.23), span.position(0.1)) == (1, 0.5, 0)


def test_a_few_values_are_all_inside():
    assert limits([0.2, 0.21, 0.9])[:2] == (0.2, 0.9)


def test_no_value_and_one_value_still_have_a_scale():
    assert limits([])[:2] == (0, 1)
    assert limits([0.25])[:2] == pytest.approx((0.245, 0.255))


def test_differences_have_white_at_zero():
    span = balanced_limits([-0.01, 0.03])
    assert span[:2] == (-0.03, 0.03)
    assert DIVERGING[round(span.position(0) * 8)] == PAPER
    assert balanced_limits([0.0])[:2] == (-0.005, 0.005)


def test_colours_darken_at_every_step_so_that_they_survive_grey_print():
    light = [light_of(colour) for colour in SEQUENTIAL]
    assert all(a > b for a, b in itertools.pairwise(light))
    assert light[0] - light[-1] > 0.8
    both = [light_of(colour) for colour in DIVERGING]
    assert all(a < b for a, b in itertools.pairwise(both[:5]))
    assert all(a > b for a, b in itertools.pairwise(both[4:]))


def test_every_value_is_readable_on_its_colour():
    # WCAG 2.2 asks 4.5 of body text and 3 of large text; the middle of any scale is the worst.
    for scale in (SEQUENTIAL, DIVERGING):
        for ground in sample_colorscale(list(scale), 101, colortype="tuple"):
            dark, light = sorted([light_of(readable_on(ground)), luminance(ground)])
            assert (light + 0.05) / (dark + 0.05) > 4.0
    assert readable_on((0, 0, 0)) == PAPER
    assert readable_on((1, 1, 1)) == INK


def test_luminance_is_that_of_the_standard():
    assert luminance((1, 1, 1)) == pytest.approx(1)
    assert luminance((0, 1, 0)) == pytest.approx(0.7152)
    assert luminance((0.5, 0.5, 0.5)) == pytest.approx(((0.5 + 0.055) / 1.055) ** 2.4)


def test_series_are_told_apart_without_colour():
    assert len(SERIES) == len({dash for _, dash, _ in SERIES}) == 6
    assert len({marker for _, _, marker in SERIES}) == 6
