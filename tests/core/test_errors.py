"""Every expected failure has one documented exit code."""

import errno
import os
import signal
from pathlib import Path

import pytest

from attnlab.core import errors
from attnlab.core.errors import AttnlabError, StoppedError, UsageError, exit_code_of, from_os_error

DOCUMENTED = {
    "AttnlabError": 1,
    "RankLostError": 1,  # the same command goes on, as after any trial that failed
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


@pytest.mark.parametrize(
    ("number", "code"),
    [("EMFILE", 4), ("EIO", 4), ("ENOSPC", 4), ("EDQUOT", 4), ("ENOENT", 2), ("EISDIR", 2)],
)
def test_a_refusal_of_the_disk_is_told_from_a_wrong_path(number: str, code: int) -> None:
    value = getattr(errno, number)
    found = from_os_error(Path("a/b"), OSError(value, os.strerror(value)), UsageError)
    assert exit_code_of(found) == code and str(found) == f"a/b: {os.strerror(value)}"
