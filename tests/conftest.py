"""One thread a process, and the same examples of hypothesis for everybody.

`make test` uses the profile "gate": hypothesis derives its examples from the test itself, so that
the gate is green for all or for nobody. `make test-search` uses the profile "search": other
examples every time, ten times as many. An example that fails there is kept as an explicit
`@example(...)` above the test.
"""

import os

import pytest
from hypothesis import settings

# On two cores, two workers of two threads each wait for each other. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SEARCH_FACTOR = 10

settings.register_profile("gate", derandomize=True, database=None, deadline=None)
settings.register_profile("search", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("gate")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a free search, override what the tests set for themselves."""
    if config.getoption("--hypothesis-profile") != "search":
        return
    free = settings.get_profile("search")
    for item in items:
        test = getattr(item, "obj", None)
        chosen = getattr(test, "_hypothesis_internal_use_settings", None)
        if isinstance(item, pytest.Function) and chosen is not None:
            searching = settings(
                chosen,
                derandomize=False,
                database=free.database,
                max_examples=SEARCH_FACTOR * chosen.max_examples,
            )
            setattr(item.function, "_hypothesis_internal_use_settings", searching)  # noqa: B010
