"""Remarks for a person at the terminal: always on stderr, never part of a result."""

import os
import sys
from contextlib import suppress


def note(text: str) -> None:
    """One line on stderr, at once; where nobody can read it, it is dropped."""
    with suppress(OSError, ValueError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def draws_bars() -> bool:
    """Whether stderr is a terminal that can draw progress bars."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
