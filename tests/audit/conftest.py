"""Searches are short: contexts up to 601 tokens, a sixth of the positions; whole in slow tests."""

import pytest

from attnlab.audit.probing import call_convention, leaks


@pytest.fixture(autouse=True)
def short_searches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = [length for length in call_convention.TRIED_CONTEXTS if length < 601]
    monkeypatch.setattr(call_convention, "TRIED_CONTEXTS", (601, *lengths))
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(leaks, "BUDGET", leaks.BUDGET / 6)
        monkeypatch.setattr(leaks, "VOCABULARY", leaks.VOCABULARY / 6)
