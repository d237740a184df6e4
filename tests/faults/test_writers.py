"""Killed, or refused by the disk, at every system call; and the order in which things reach it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import Note
from .order import judged

pytestmark = pytest.mark.usefixtures("strace")
HERE = Path(__file__).parent
WRITERS = ("run", "report", "checkpoint", "asset")
WHATS = ("ENOSPC", "EDQUOT", "EIO", "EMFILE")
# rebuilt from the newest checkpoint, which holds a copy: it counts for nothing by itself
REBUILT = {"checkpoint": ("log.jsonl",)}


def swept(*words: str) -> list[dict[str, Any]]:
    """The lines of sweep.py; a traceback anywhere in it is a failure."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / "sweep.py"), *words],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def clean(points: list[dict[str, Any]]) -> int:
    """How many were hit; none may have a problem."""
    wrong = [point for point in points if point["problem"]]
    assert not wrong, f"{len(wrong)} of {len(points)}, the first: {wrong[0]}"
    return sum(point["hit"] for point in points)


def test_the_harness_finds_what_people_write(room: Path) -> None:
    """A file opened and dumped into: killed at its one write, it is neither old nor new."""
    points = swept("plain", str(room), "SIGKILL", "write")
    assert [point["problem"] for point in points] == ["neither old nor new", ""]


def test_the_order_finds_what_people_forget(room: Path) -> None:
    (said,) = swept("hasty", str(room), "trace")
    found = judged((room / "trace.log").read_text(), str(room))
    assert found.shown == [f"{said['own']}/value.json"]
    assert [p.replace("/case-0/", "") for p in found.problems] == [
        "value.json is shown before new is on the disk",
        "the name value.json is not on the disk at the end",
        "value.json is not on the disk at the end",
    ]


def test_renames_of_a_run_may_be_the_last(room: Path, note: Note) -> None:
    points = swept("run", str(room), "SIGKILL", "rename")
    hit = clean(points)
    assert hit >= 8
    note("run: SIGKILL at every rename", len(points), hit)


@pytest.mark.parametrize(
    "writer",
    ["run", *(pytest.param(w, marks=[pytest.mark.slow, pytest.mark.faults]) for w in WRITERS[1:])],
)
def test_everything_is_on_the_disk_before_it_counts(room: Path, writer: str, note: Note) -> None:
    swept(writer, str(room), "trace")
    found = judged((room / "trace.log").read_text(), str(room))
    rebuilt = REBUILT.get(writer, ())
    problems = [p for p in found.problems if not any(name in p for name in rebuilt)]
    assert problems == [] and len(found.shown) >= 2
    note("order write, fsync, rename, fsync folder", len(found.shown), len(found.shown))


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("writer", WRITERS)
def test_every_call_may_be_the_last(room: Path, writer: str, note: Note) -> None:
    points = swept(writer, str(room), "SIGKILL")
    hit = clean(points)
    assert hit > 40
    note(f"{writer}: SIGKILL at every call", len(points), hit)


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("when", ["once", "on"])
@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("writer", WRITERS)
def test_every_call_may_be_refused(
    room: Path, writer: str, what: str, when: str, note: Note
) -> None:
    """Nothing stored is damaged, one line says why, exit 4; with room again, the rest runs."""
    points = swept(writer, str(room), what, when)
    hit = clean(points)
    assert hit > 10 and any(point["code"] == 4 for point in points)
    note(f"{writer}: {what} at every call", len(points), hit)
