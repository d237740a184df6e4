"""`attnlab run`, killed again and again, ends in the table of an undisturbed run."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KILLS = 20


def command(out: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "attnlab",
        "run",
        "phase-transition",
        "--scale",
        "smoke",
        "--device",
        "cpu",
        "--quiet",
        "--out",
        str(out),
    ]


def verified(out: Path) -> dict[str, object]:
    (run,) = [p for p in out.iterdir() if p.is_dir()]
    said = subprocess.run(
        [sys.executable, "-m", "attnlab", "verify", str(run), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(said.stdout)
    assert said.returncode == 0, found
    return found


@pytest.mark.slow
def test_twenty_kills_of_a_smoke_run_lose_nothing(tmp_path: Path) -> None:
    """Instants are drawn from the length of an undisturbed run; the group is killed at once."""
    began = time.monotonic()
    assert subprocess.run(command(tmp_path / "whole"), check=False).returncode in (0, 1)
    length = time.monotonic() - began
    whole, draw = verified(tmp_path / "whole"), random.Random(7)
    killed = 0
    for _ in range(KILLS):
        process = subprocess.Popen(command(tmp_path / "cut"), start_new_session=True)
        try:
            process.wait(timeout=draw.uniform(0.5, 0.35 * length))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
            if any((tmp_path / "cut").glob("phase-*/study.json")):
                verified(tmp_path / "cut")
    assert subprocess.run(command(tmp_path / "cut"), check=False).returncode in (0, 1)
    again = verified(tmp_path / "cut")
    assert killed >= KILLS // 2
    assert again["complete"] and again["digest"] == whole["digest"]
