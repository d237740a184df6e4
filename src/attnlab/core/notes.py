"""Remarks for a person at the terminal: always on stderr, never part of a result."""

import sys
from contextlib import suppress


def note(text: str) -> None:
    """One line on stderr, at once; where nobody can read it, it is dropped."""
    with suppress(OSError, ValueError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
