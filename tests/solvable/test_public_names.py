"""The Python interface of the package: its names, its example, and errors that help."""

import doctest

import pytest

from attnlab import solvable
from attnlab.core.errors import UsageError


def test_every_public_name_exists_and_is_listed() -> None:
    assert dir(solvable) == sorted(solvable.__all__)
    for name in solvable.__all__:
        assert getattr(solvable, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'critical'"):
        _ = solvable.critical


def test_the_example_of_the_docstring_runs() -> None:
    result = doctest.testmod(solvable)
    assert result.attempted >= 5
    assert result.failed == 0


def test_an_unknown_start_is_an_error_with_the_nearest_name() -> None:
    settings = solvable.SimulationSettings(dim=20, test_samples=10)
    instance = solvable.simulate(settings, seed=0)
    assert instance.student("semantic").start == "semantic"
    with pytest.raises(UsageError, match="did you mean 'semantic'"):
        instance.student("semantc")
