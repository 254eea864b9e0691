"""The examples in the docstrings of definition and plan are true."""

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("module", "n_examples"), [("space", 5), ("trial", 2), ("located", 1), ("mistakes", 3)]
)
def test_every_example_gives_what_it_says(module, n_examples):
    result = doctest.testmod(import_module(f"study.{module}"))
    assert (result.failed, result.attempted) == (0, n_examples)
