import hashlib

import pytest

from model.data.interactions import content_sha256


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_hash_is_that_of_the_rows_as_tab_separated_text(interactions_of):
    rows = interactions_of([("u", "é", 5, 4.0), ("v", "b", 6, 3.5)])
    assert content_sha256(rows) == sha256("u\té\t4\t5\nv\tb\t3.5\t6\n")


def test_without_ratings_the_field_is_empty(interactions_of):
    assert content_sha256(interactions_of([("u", "a", 5)])) == sha256("u\ta\t\t5\n")


def test_the_row_order_is_content(interactions_of):
    rows = [("u", "a", 5), ("u", "b", 5)]
    assert content_sha256(interactions_of(rows)) != content_sha256(interactions_of(rows[::-1]))


@pytest.mark.parametrize("n_rows", [99_999, 100_000, 100_001])
def test_many_rows_hash_as_one_text(interactions_of, n_rows):
    rows = interactions_of([(n % 7, n % 11, n) for n in range(n_rows)])
    text = "".join(f"{n % 7}\t{n % 11}\t\t{n}\n" for n in range(n_rows))
    assert content_sha256(rows) == sha256(text)
