"""One thread a process, the same examples of hypothesis for everybody, shapes checked where due.

`make test` uses the profile "gate": hypothesis derives its examples from the test itself, so that
the gate is green for all or for nobody. `make test-search` uses the profile "search": other
examples every time, ten times as many. An example that fails there is kept as an explicit
`@example(...)` above the test.

jaxtyping and beartype check the shapes in every call of attnlab.solvable, parts and models. That
triples the time of a small model, so they do it only in the tests of these packages.
"""

import gc
import os

import pytest
from hypothesis import settings
from jaxtyping import config as jaxtyping_config

# On two cores, two workers of two threads each wait for each other. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SEARCH_FACTOR = 10
SHAPES_CHECKED = {"solvable", "parts", "models"}

settings.register_profile("gate", derandomize=True, database=None, deadline=None)
settings.register_profile("search", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("gate")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a free search, search freely."""
    if config.getoption("--hypothesis-profile") == "search":
        for item in items:
            if isinstance(item, pytest.Function):
                _search(item)


@pytest.hookimpl(tryfirst=True)  # before the fixtures of the test are made
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check shapes in tests of the packages that declare them, and in slow tests."""
    audits = "audits" in item.name  # an audit asks a model some hundred times
    checked = SHAPES_CHECKED & set(item.path.parts) and not audits
    jaxtyping_config.update("jaxtyping_disable", not checked)


def pytest_collection_finish() -> None:
    """What is imported by now stays: the garbage collector need not walk it again and again."""
    gc.collect()
    gc.freeze()


def _search(item: pytest.Function) -> None:
    """Override what the test sets for itself."""
    attribute = "_hypothesis_internal_use_settings"
    chosen = getattr(item.function, attribute, None)
    if chosen is not None:
        free = settings(
            chosen,
            derandomize=False,
            database=settings.get_profile("search").database,
            max_examples=SEARCH_FACTOR * chosen.max_examples,
        )
        setattr(item.function, attribute, free)
