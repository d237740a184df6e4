"""One exception a documented exit code; the command line prints its one line and leaves with it.

0 ok · 1 some trials or audits failed · 2 bad usage or settings · 3 damaged or unsafe file ·
4 disk or I/O · 5 run in use · 6 network or asset missing · 130 / 143 stopped by a signal.
"""

import errno
from pathlib import Path
from typing import ClassVar

# the disk or the system refused; any other error says that the path is not what it should be
REFUSED = frozenset(
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
    """A setting, an option or a study that does not exist or does not fit."""

    exit_code = 2


class IntegrityError(AttnlabError):
    """A file that is not what was written, or that must not be opened."""

    exit_code = 3


class StorageError(AttnlabError):
    """The disk refused: full, read-only, gone."""

    exit_code = 4


class RunInUseError(AttnlabError):
    """Another process owns this run."""

    exit_code = 5


class MissingError(AttnlabError):
    """Something that must be fetched first and cannot be fetched here."""

    exit_code = 6


class RankLostError(AttnlabError):
    """Another process of this training is gone or silent; started again, all go on together."""


class StoppedError(AttnlabError):
    """A signal asked us to stop; what was finished is stored. 128 + signal number."""

    def __init__(self, signal_number: int, message: str) -> None:
        super().__init__(message)
        self.signal_number = signal_number


def refusal(path: Path, error: OSError, otherwise: type[AttnlabError]) -> AttnlabError:
    """StorageError where the disk or the system refused, else `otherwise`: not there, no file.

    A full table of open files must not be told as damage: nobody would look for the limit.
    """
    kind = StorageError if error.errno in REFUSED else otherwise
    return kind(f"{path}: {error.strerror or error}")


def exit_code_of(error: AttnlabError) -> int:
    """128 + signal for a stop, otherwise the class's own code."""
    return 128 + error.signal_number if isinstance(error, StoppedError) else error.exit_code
