"""Every expected failure has one documented exit code, and no two mean the same."""

import signal

import pytest

from attnlab.core import errors
from attnlab.core.errors import AttnlabError, StoppedError, exit_code_of

DOCUMENTED = {
    "AttnlabError": 1,
    "UsageError": 2,
    "IntegrityError": 3,
    "StorageError": 4,
    "RunInUseError": 5,
    "MissingError": 6,
}


def test_codes_are_those_of_the_documentation() -> None:
    kinds = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, AttnlabError) and kind is not StoppedError
    }
    assert {name: exit_code_of(kind("why")) for name, kind in kinds.items()} == DOCUMENTED


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_128_and_its_number(number: int, code: int) -> None:
    stopped = StoppedError(number, "what was finished is stored")
    assert exit_code_of(stopped) == code
    assert str(stopped) == "what was finished is stored"
