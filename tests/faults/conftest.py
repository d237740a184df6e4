"""What the faults share: a folder in memory, a skip with its reason, a ledger of what was tried.

Every test notes (what, tried, found, lost); the sums are printed at the end of a session.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .harness import why_not

LEDGER = "ATTNLAB_FAULTS_LEDGER"
Note = Callable[..., None]


def pytest_configure(config: pytest.Config) -> None:
    """One file for all workers of a session; emptied by the process that starts them."""
    if not hasattr(config, "workerinput"):
        given = os.environ.get(LEDGER)
        path = Path(given) if given else Path(tempfile.mkdtemp()) / "ledger.jsonl"
        path.write_text("")
        os.environ[LEDGER] = str(path)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    path = Path(os.environ.get(LEDGER, os.devnull))  # not set where others start the workers
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    if not lines:
        return
    terminalreporter.section("faults")
    sums: dict[str, list[int]] = {}
    for line in lines:
        row = sums.setdefault(line["what"], [0, 0, 0])
        for place, name in enumerate(("tried", "found", "lost")):
            row[place] += line[name]
    terminalreporter.write_line(f"{'':44}{'tried':>8}{'found':>8}{'lost':>6}")
    for what, (tried, found, lost) in sums.items():
        terminalreporter.write_line(f"{what:44}{tried:8,}{found:8,}{lost:6,}")


@pytest.fixture
def note() -> Note:
    """Put a line into the ledger: `found` is how many were noticed, or hit; `lost` must be 0."""

    def write(what: str, tried: int, found: int, lost: int = 0) -> None:
        line = json.dumps({"what": what, "tried": tried, "found": found, "lost": lost})
        with open(os.environ.get(LEDGER, os.devnull), "a") as file:
            file.write(line + "\n")

    return write


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Path]:
    """A folder where fsync costs nothing: these tests kill processes, not machines."""
    memory = Path("/dev/shm")
    if sys.platform != "linux" or not os.access(memory, os.W_OK):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir=memory, prefix="attnlab-faults-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def strace() -> None:
    """Skips, and says why, where strace cannot be used."""
    reason = why_not()
    if reason:
        print(reason)
        pytest.skip(reason)
