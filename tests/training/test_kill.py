"""Trainings killed at random, at every call of a save, or by a full disk end with the same bits."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attnlab.training.checkpoint import latest_checkpoint

from .conftest import HERE, crash
from .drive import training
from .tiny import digest

SEED = 43


def drive(folder: Path, steps: int, pause: float) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(HERE / "drive.py"), str(folder), str(steps), str(pause)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finished(folder: Path, steps: int, pause: float = 0.0) -> str:
    said, error = (process := drive(folder, steps, pause)).communicate(timeout=120)
    assert process.returncode == 0, error
    return said.split()[-1]


def test_eight_kills_change_no_bit(in_memory: Path) -> None:
    first, *kills, last = crash("random", str(in_memory), "8", str(SEED))
    assert last == {"again": 0, "digest": first["undisturbed"]}, f"seed {SEED}"
    middle = [kill for kill in kills if kill["code"] == -9 and kill["step"] < 48]
    assert len(kills) == 8 and len(middle) >= 4, "the kills must fall into the middle"
    assert max(kill["step"] for kill in middle) > 0, "and some after a checkpoint"


@pytest.mark.slow  # tests/faults tears the same save below Python
def test_every_call_of_a_save_may_be_the_last(in_memory: Path) -> None:
    """Kill, or fail once, at the Nth call for every N, also with half-written files."""
    first, *points = crash("points", str(in_memory), "kill", "refuse", "limit")
    for point in points:
        assert point["again"] == 0 and point["digest"] == first["undisturbed"], point
        assert point["step"] in (9, 10) and point["leftovers"] == [], point
    killed = {point["code"] for point in points if point["action"] == "kill" and point["hit"]}
    refused = {point["code"] for point in points if point["action"] == "refuse" and point["hit"]}
    limited = [point["code"] for point in points if point["action"] == "limit" and point["hit"]]
    assert killed == {-9} and refused <= {0, 4} and 4 in refused
    assert len(limited) > 5 and set(limited) == {4}, "a real limit on the size of files"
    for action in ("kill", "refuse"):
        hit = [point for point in points if point["action"] == action and point["hit"]]
        assert len(hit) > 40 and {point["step"] for point in hit} == {9, 10}


@pytest.mark.slow
def test_a_disk_that_stays_full(in_memory: Path) -> None:
    first, *points = crash("points", str(in_memory), "full")
    assert len(points) > 40 and {point["code"] for point in points if point["hit"]} == {4}
    assert {point["digest"] for point in points} == {first["undisturbed"]}


CALLS = ("openat", "write", "fsync", "rename", "unlink", "unlinkat", "mkdir", "rmdir", "chmod")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("action", ["kill", "refuse"])
def test_every_system_call_may_be_the_last(in_memory: Path, action: str) -> None:
    first, *points = crash("strace", str(in_memory), action, *CALLS)
    for point in points:
        assert point["again"] == 0 and point["digest"] == first["undisturbed"], point
        assert point["step"] in (9, 10) and point["leftovers"] == [], point
        assert point["code"] in ((0, -9) if action == "kill" else (0, 4)), point
    assert sum(point["hit"] for point in points) > 40


@pytest.mark.slow
def test_twenty_kills_of_the_same_command(tmp_path: Path) -> None:
    """SIGKILL whole processes that write to a real disk; a third of the kills hit a save."""
    kills, steps, pause = 20, 120, 0.01
    wanted = finished(tmp_path / "whole", steps, pause)
    rng, own, interrupted, inside = random.Random(SEED), tmp_path / "own", 0, 0
    for number in range(kills):
        process = drive(own, steps, pause)
        assert process.stdout is not None
        for _ in range(rng.randrange(0, 9)):
            process.stdout.readline()
        if number % 3 == 2:
            end = time.monotonic() + 5
            while time.monotonic() < end and not list(own.glob(".partial-step-*")):
                pass
        time.sleep(rng.uniform(0.0, 0.02))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        there = latest_checkpoint(own)
        interrupted += there is not None and there.state.step < steps
        inside += bool(list(own.glob(".partial-*")))
    assert finished(own, steps, pause) == wanted, f"seed {SEED}"
    assert interrupted >= kills // 2 and inside >= 1, (interrupted, inside)


def signalled(folder: Path, number: signal.Signals, after: int) -> int:
    """Send the signal after `after` printed steps; return the step of the saved checkpoint."""
    process = drive(folder, 14, 0.05)
    assert process.stdout is not None
    for _ in range(after):
        process.stdout.readline()
    process.send_signal(number)
    _, error = process.communicate(timeout=20)
    assert process.returncode == 128 + number and "Traceback" not in error, error
    there = latest_checkpoint(folder)
    assert there is not None
    assert len((folder / "log.jsonl").read_text().splitlines()) == there.state.step
    return there.state.step


def test_a_signal_stores_and_leaves(in_memory: Path) -> None:
    """130, then 143, then the rest; running it once more does nothing new."""
    own, whole = in_memory / "own", in_memory / "whole"
    first = signalled(own, signal.SIGINT, 4)
    second = signalled(own, signal.SIGTERM, 2)
    assert 4 <= first < second < 14
    training(whole, 14)
    assert finished(own, 14) == digest(whole)
    before = contents(own)
    training(own, 14)
    assert contents(own) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
