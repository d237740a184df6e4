"""Sharded training over 200 steps: kills, a silent process, a save interrupted at every call."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attnlab.training.ranks import Ranks

from .rank_script import dtype_of, training
from .sharded_teams import distance
from .stack import content
from .test_fsdp import SCRIPT, named, said
from .test_ranks import finished, rank_process, started, wait_for_step

SEED = 61


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize(("kind", "tolerance"), [("adamw64", 1e-10), ("gentle32", 1e-6)])
def test_two_hundred_steps(tmp_path: Path, kind: str, tolerance: float, processes: int) -> None:
    lines = finished(started(processes, str(tmp_path / "several"), f"sharded-{kind}", "200"))
    assert lines.count("step 200") == 1, "the first process alone speaks"
    training(tmp_path / "one", f"sharded-{kind}", 200, Ranks())
    assert distance(tmp_path / "several", tmp_path / "one", dtype_of(kind)) <= tolerance


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("processes", "rank"), [(2, 0), (2, 1), (3, 1)])
def test_a_killed_process_changes_no_bit(tmp_path: Path, processes: int, rank: int) -> None:
    """Kill one rank five times; the model has dropout and a counting buffer."""
    finished(started(processes, str(tmp_path / "calm"), "sharded-noisy", "90"))
    folder, rng = tmp_path / "killed", random.Random(SEED + rank)
    process = started(processes, str(folder), "sharded-noisy", "90", "0.03")
    for at in sorted(rng.sample(range(5, 80), 5)):
        wait_for_step(process, at)
        time.sleep(rng.uniform(0, 0.05))
        rank_process(folder, rank).kill()
        began = time.monotonic()
        wait_for_step(process, 1)
        assert time.monotonic() - began < 60
    assert finished(process)[-1] == f"digest {content(tmp_path / 'calm')}", f"seed {SEED + rank}"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_process_that_falls_silent_is_replaced_within_a_minute(tmp_path: Path) -> None:
    finished(started(2, str(tmp_path / "calm"), "sharded-noisy", "60"))
    process = started(2, str(tmp_path / "run"), "sharded-noisy", "60", "0.03")
    wait_for_step(process, 20)
    rank_process(tmp_path / "run", 1).send_signal(signal.SIGSTOP)
    began = time.monotonic()
    time.sleep(1)
    wait_for_step(process, 24)
    assert time.monotonic() - began < 75  # 60, and the four steps
    assert finished(process)[-1] == f"digest {content(tmp_path / 'calm')}"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_save_torn_at_every_call_costs_no_bit(in_memory: Path) -> None:
    """Kill one of two processes, or fail its write, at each call: a valid checkpoint remains."""
    lines = said(in_memory, script=SCRIPT.with_name("torn.py"))
    (wanted,) = named(lines, "", "content")
    points = named(lines, "", "point")
    assert {(p["action"], p["rank"]) for p in points} == {
        (action, rank) for action in ("kill", "refuse") for rank in (0, 1)
    }
    for point in points:
        where = f"{point['action']} {point['rank']} {point['number']}"
        assert point["content"] == wanted["told"] and point["step"] in (9, 10), where
        assert not point["leftovers"], where
        errors = [told["error"].split(":")[0] for told in point["told"] if "error" in told]
        assert set(errors) <= {"silent", "StorageError", "RankLostError"}, where
    hit = [point for point in points if not point["told"][point["rank"]].get("found")]
    print(f"{len(hit)} points of a save in two processes: 0 lost")
    assert len(hit) > 80, "45 calls of the first process and 7 of the second, each twice"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_torchrun_restarts_it_too(tmp_path: Path) -> None:
    finished(started(2, str(tmp_path / "calm"), "sharded-noisy", "60"))
    script = SCRIPT.with_name("rank_script.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--max-restarts", "3", "--standalone", str(script), str(tmp_path / "run")]
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        [*command, "sharded-noisy", "60", "0.03"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=surroundings,
    )
    wait_for_step(process, 20)
    rank_process(tmp_path / "run", 1).kill()
    assert finished(process)[-1] == f"digest {content(tmp_path / 'calm')}"
