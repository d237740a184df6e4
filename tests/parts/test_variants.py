"""Every variant of every seam goes through every shared check, before anyone writes a test."""

import pytest

from tests.parts.cases import Case, cases
from tests.parts.registry import every_check

CHECKS = every_check()


@pytest.mark.parametrize("case", cases(), ids=str)
@pytest.mark.parametrize("name", CHECKS)
def test_check(name: str, case: Case) -> None:
    reason = case.expected_failures().get(name)
    if reason is None:
        CHECKS[name](case)
        return
    assert len(reason) > 10, "say why"
    with pytest.raises(AssertionError):
        CHECKS[name](case)


def test_what_a_part_declares_is_the_name_of_a_check() -> None:
    assert {name for case in cases() for name in case.expected_failures()} <= set(CHECKS)
    assert len(CHECKS) == 18
