"""Usual spellings of a number are that number, what is ambiguous is text, lines are right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from study.located import key, read


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("64", 64),
        ("-3", -3),
        ("+3", 3),
        ("0", 0),
        ("1_000", 1000),
        ("0.2", 0.2),
        (".2", 0.2),
        ("2.", 2.0),
        ("1e-5", 1e-5),
        ("1E-05", 1e-5),
        ("1.0e-5", 1e-5),
        ("1.e-5", 1e-5),
        ("1e+3", 1000.0),
        ("1e3", 1000.0),
        ("-0.0", 0.0),
    ],
)
def test_a_number_in_a_usual_spelling_is_that_number(text, number):
    value = read(text).value
    assert (value, type(value)) == (number, type(number))


@pytest.mark.parametrize(
    "text", ["1e-5x", "010", "0x10", "0o7", "1:30", "1,5", "1__0", "1_000.5", ".", "e5", "+"]
)
def test_what_is_no_plain_number_stays_text(text):
    assert read(text).value == text


@pytest.mark.parametrize("text", ["'1e-5'", '"1e-5"', "!!str 1e-5"])
def test_a_number_in_quotes_is_text(text):
    assert read(text).value == "1e-5"


@pytest.mark.parametrize("text", ["1e999", "-1e999", ".inf", ".nan", "!!float .inf"])
def test_nothing_is_infinite_or_nan(text):
    assert not isinstance(read(text).value, float)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_python_writes_is_read_back(number):
    assert read(repr(number)).value == number


@given(st.integers(-(10**30), 10**30))
def test_every_whole_number_is_read_back_whole(number):
    value = read(str(number)).value
    assert (value, type(value)) == (number, int)


def test_words_that_yaml_1_1_makes_booleans_or_dates_stay_text():
    assert read("[yes, no, on, off, 2020-08-18, none]").value == (
        "yes",
        "no",
        "on",
        "off",
        "2020-08-18",
        "none",
    )
    assert read("[true, False, null, ~, ]").value == (True, False, None, None)


def test_every_key_and_item_has_its_line():
    document = read("a:\n  b: 1\n  c:\n    - x\n    - [y,\n       z]\n\n'd': {e: 2}\n")
    assert document.value == {"a": {"b": 1, "c": ("x", ("y", "z"))}, "d": {"e": 2}}
    assert document.lines == {
        ("a",): 1,
        ("a", "b"): 2,
        ("a", "c"): 3,
        ("a", "c", 0): 4,
        ("a", "c", 1): 5,
        ("a", "c", 1, 0): 5,
        ("a", "c", 1, 1): 6,
        ("d",): 8,
        ("d", "e"): 8,
    }
    assert document.line(("a", "c", 9, "unknown")) == 3
    assert document.line(("unknown",)) == 1


def test_a_path_is_written_as_a_reader_finds_it():
    assert key(("studies", "a", "grid", "hidden", 2)) == "studies.a.grid.hidden[2]"
    assert key(()) == ""


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "a key must be given once, got it again after line 1"),
        ("a: 1\n? [b, c]\n: 2\n", 2, "a key must be text"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", 3, "merge keys are not read"),
        ("a: 1\nb: !!python/name:os.system 1\n", 2, "YAML tags are not read"),
        ("a: &x\n  b: *x\n", 1, "an alias must not stand inside its own anchor"),
    ],
)
def test_what_cannot_be_read_is_a_mistake_and_the_rest_is_kept(text, line, what):
    document = read(text)
    (mistake,) = document.mistakes
    assert mistake.line == line
    assert what in mistake.message
    assert "; " in mistake.message
    assert "a" in document.value


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", 3, "not valid YAML: "),
        ("a:\n\tb: 1\n", 2, "indent with spaces, not tabs"),
        ("a: 1\n---\nb: 2\n", 2, "not valid YAML: "),
        ("a: *nowhere\n", 1, "not valid YAML: found undefined alias"),
        ("a: 1\nb: \x00\n", 2, "not valid YAML: control characters"),
        ("[" * 2_000, 1, "nest"),
    ],
)
def test_a_text_that_is_no_yaml_is_one_mistake_with_its_line(text, line, what):
    document = read(text)
    (mistake,) = document.mistakes
    assert document.value is None
    assert mistake.line == line
    assert what in mistake.message
    assert "\n" not in mistake.message


def test_an_alias_repeats_what_its_anchor_says():
    assert read("a: &grid {hidden: [16, 32]}\nb: *grid\n").value["b"] == {"hidden": (16, 32)}


def test_an_empty_text_is_nothing_and_no_mistake():
    document = read("# only a comment\n")
    assert (document.value, document.mistakes) == (None, [])
