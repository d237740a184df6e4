"""One exception class for each documented exit code; the command line prints its message.

0 ok · 1 some trials or audits failed · 2 bad usage or settings · 3 damaged or unsafe file ·
4 disk or I/O · 5 run in use · 6 network or asset missing · 7 a model could not be judged by
`attnlab audit` · 130 / 143 stopped by a signal.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

# errors of the disk or the system; any other OSError means that the path itself is wrong
STORAGE_ERRNOS = frozenset(
    {
        errno.EIO,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)


class AttnlabError(Exception):
    """An expected failure: its text is the whole message a person needs, in one to three lines."""

    exit_code: ClassVar[int] = 1


class UsageError(AttnlabError):
    """An unknown or invalid setting, option or study."""

    exit_code = 2


class IntegrityError(AttnlabError):
    """A damaged file, or one that is not safe to open."""

    exit_code = 3


class StorageError(AttnlabError):
    """The disk is full, read-only or gone."""

    exit_code = 4


class RunInUseError(AttnlabError):
    """Another process is working on this run."""

    exit_code = 5


class MissingError(AttnlabError):
    """Data or weights that are not cached and cannot be downloaded here."""

    exit_code = 6


class RankLostError(AttnlabError):
    """Another process of this training died or does not answer; a restart resumes all of them."""


class StoppedError(AttnlabError):
    """Stopped by a signal; finished work is stored. Its exit code is 128 + the signal number."""

    def __init__(self, signal_number: int, message: str) -> None:
        super().__init__(message)
        self.signal_number = signal_number


def from_os_error(path: Path, error: OSError, otherwise: type[AttnlabError]) -> AttnlabError:
    """A StorageError if the disk or the system failed; else `otherwise`, say for a missing file.

    Too many open files, for example, must not be reported as a damaged file.
    """
    kind = StorageError if error.errno in STORAGE_ERRNOS else otherwise
    return kind(f"{path}: {error.strerror or error}")


@contextmanager
def storage_errors(path: Path, otherwise: type[AttnlabError] = StorageError) -> Iterator[None]:
    """Turn an OSError into an error that names the file; `otherwise` as in `from_os_error`."""
    try:
        yield
    except OSError as error:
        raise from_os_error(path, error, otherwise) from None


def exit_code_of(error: AttnlabError) -> int:
    """The exit code that the command line returns for this error."""
    return 128 + error.signal_number if isinstance(error, StoppedError) else error.exit_code
