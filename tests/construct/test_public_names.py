"""The Python interface of the package: its names and its example."""

import doctest

from attnlab import construct


def test_every_public_name_exists() -> None:
    for name in construct.__all__:
        assert getattr(construct, name).__name__ == name


def test_the_example_of_the_docstring_runs() -> None:
    result = doctest.testmod(construct)
    assert result.attempted >= 4
    assert result.failed == 0
