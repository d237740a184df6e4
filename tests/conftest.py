"""One thread a process, and the same examples of hypothesis for everybody.

`make test` uses the profile "gate": hypothesis derives its examples from the test itself, so that
the gate is green for all or for nobody. `make test-search` uses the profile "search": other
examples every time, ten times as many. An example that fails there is kept as an explicit
`@example(...)` above the test.
"""

import gc
import os

import pytest
from hypothesis import settings

# On two cores, two workers of two threads each wait for each other. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SEARCH_FACTOR = 10

settings.register_profile("gate", derandomize=True, database=None, deadline=None)
settings.register_profile("search", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("gate")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Group tests that share an expensive fixture; in a free search, search freely."""
    searching = config.getoption("--hypothesis-profile") == "search"
    for item in items:
        if isinstance(item, pytest.Function):
            if _shares_a_module_fixture(item):
                item.add_marker(pytest.mark.xdist_group("-".join(item.path.parts[-2:])))
            if searching:
                _search(item)


def pytest_collection_finish() -> None:
    """What is imported by now stays: the garbage collector need not walk it again and again."""
    gc.collect()
    gc.freeze()


def _shares_a_module_fixture(item: pytest.Function) -> bool:
    """Such tests run in one worker (`--dist loadgroup`), so that the fixture is made once."""
    fixtures = item._fixtureinfo.name2fixturedefs.values()  # pyright: ignore[reportPrivateUsage]
    return any(
        d[-1].scope in ("module", "session") and d[-1].baseid.endswith(".py") for d in fixtures if d
    )


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
