"""Contexts are searched up to 601 tokens: attention over 2048 costs more than most audits."""

import pytest

from attnlab.audit.probing import output


@pytest.fixture(autouse=True)
def short_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = [length for length in output.TRIED_CONTEXTS if length < 601]
    monkeypatch.setattr(output, "TRIED_CONTEXTS", (601, *lengths))
