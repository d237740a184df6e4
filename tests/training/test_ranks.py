"""Several processes compute the steps of one; killing one of them costs only time."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from attnlab.core.errors import UsageError
from attnlab.training.batch import fingerprint, tensors_of
from attnlab.training.checkpoint import CheckpointWarning, latest_checkpoint
from attnlab.training.determinism import environment, seed_step
from attnlab.training.ranks import ProcessGroup, Ranks, current_ranks
from attnlab.training.settings import TrainSettings
from attnlab.training.tensors import model_tensors

from .rank_script import training
from .tiny import ROWS, Batch, Endless, Tiny, digest

SCRIPT = Path(__file__).with_name("rank_script.py")
START = (
    "import sys; from attnlab.lab.supervise import supervise; "
    "sys.exit(supervise(sys.argv[2:], int(sys.argv[1]), lambda t: print('note', t, flush=True)))"
)
SEED = 53


class Some(ProcessGroup):
    """One rank of a group, without the other processes."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size


def started(processes: int, *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", START, str(processes), sys.executable, str(SCRIPT), *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def finished(process: "subprocess.Popen[str]", seconds: float = 240) -> list[str]:
    said, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, said
    return said.splitlines()


def distance(folder: Path, model: Tiny) -> float:
    """||ours - theirs|| / ||theirs|| over all weights."""
    found = latest_checkpoint(folder)
    assert found is not None
    other = Tiny(noisy=model.noisy, dtype=model.mix.weight.dtype)
    found.load_model(other)
    ours = torch.cat([t.detach().double().flatten() for t in model_tensors(other).values()])
    theirs = torch.cat([t.detach().double().flatten() for t in model_tensors(model).values()])
    return float((ours - theirs).norm() / theirs.norm())


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 11])
def test_the_rows_of_all_are_the_batch_whatever_their_number(size: int) -> None:
    batch = Endless().batch(17)
    parts = [Some(rank, size).local_rows(batch) for rank in range(size)]
    kept = [part for part in parts if part is not None]
    joined = [torch.cat(columns) for columns in zip(*map(tensors_of, kept), strict=True)]
    assert fingerprint(Batch(joined[0], joined[1])) == fingerprint(batch)
    assert len(kept) <= min(size, ROWS)
    assert Ranks().local_rows(batch) is batch and current_ranks().size == 1


def test_a_batch_that_cannot_be_cut_is_refused() -> None:
    with pytest.raises(UsageError, match="accumulate, processes"):
        Some(0, 2).local_rows({"a": torch.zeros(4), "b": torch.zeros(3)})


def test_each_process_draws_its_own_dropout_and_the_first_that_of_one() -> None:
    drawn = []
    with torch.random.fork_rng(devices=[]):
        for rank in (0, 1, 2):
            seed_step(7, 5, torch.device("cpu"), rank)
            drawn.append(torch.rand(3).tolist())
        seed_step(7, 5, torch.device("cpu"))
        assert torch.rand(3).tolist() == drawn[0]
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]
    assert "processes" not in environment(torch.device("cpu"))
    assert environment(torch.device("cpu"), 3)["processes"] == 3


@pytest.mark.parametrize(
    ("kind", "tolerance", "steps"),
    [
        ("adamw64", 1e-10, 40),
        pytest.param("adamw64", 1e-10, 200, marks=pytest.mark.slow),
        pytest.param("sgd32", 1e-6, 200, marks=pytest.mark.slow),
    ],
)
def test_two_processes_do_the_steps_of_one(
    tmp_path: Path, kind: str, tolerance: float, steps: int
) -> None:
    lines = finished(started(2, str(tmp_path / "two"), kind, str(steps)))
    assert lines.count(f"step {steps}") == 1, "the first process alone speaks"
    alone = training(tmp_path / "one", kind, steps, Ranks())
    assert distance(tmp_path / "two", alone) <= tolerance
    one, two = latest_checkpoint(tmp_path / "one"), latest_checkpoint(tmp_path / "two")
    assert one is not None and two is not None
    assert (one.state.data, one.state.tokens) == (two.state.data, two.state.tokens)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "tolerance"), [("adamw64", 1e-10), ("sgd32", 1e-6)])
def test_three_processes_share_eight_rows(tmp_path: Path, kind: str, tolerance: float) -> None:
    finished(started(3, str(tmp_path / "three"), kind, "200"))
    alone = training(tmp_path / "one", kind, 200, Ranks())
    assert distance(tmp_path / "three", alone) <= tolerance


@pytest.mark.slow
def test_a_checkpoint_of_two_goes_on_in_one(tmp_path: Path) -> None:
    finished(started(2, str(tmp_path / "run"), "adamw64", "20"))
    before = latest_checkpoint(tmp_path / "run")
    assert before is not None
    stored, loaded = Tiny(noisy=False, dtype=torch.float64), before.read("model.safetensors")
    before.load_model(stored)
    with pytest.warns(CheckpointWarning, match="processes 2 -> 1"):
        model = training(tmp_path / "run", "adamw64", 20, Ranks())  # nothing is left to do
    assert all(map(torch.equal, model.state_dict().values(), stored.state_dict().values()))
    after = latest_checkpoint(tmp_path / "run")
    assert after is not None and after.read("model.safetensors") == loaded


@pytest.mark.slow
def test_two_then_one_then_two(tmp_path: Path) -> None:
    """Kill a training and resume it with another number of processes: the result is the same."""
    folder = tmp_path / "run"
    for processes, until in ((2, 30), (1, 60), (3, 90)):
        process = started(processes, str(folder), "adamw64", "120", "0.02")
        wait_for_step(process, until)
        process.kill()  # the supervisor: its processes end with it
        process.communicate()
    finished(started(2, str(folder), "adamw64", "120"))
    alone = training(tmp_path / "one", "adamw64", 120, Ranks())
    assert distance(folder, alone) <= 1e-10


def wait_for_step(process: "subprocess.Popen[str]", step: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step") and int(line.split()[1]) >= step:
            return
    raise AssertionError("it ended before")


def rank_process(folder: Path, rank: int) -> psutil.Process:
    """Return the id of the process of this rank that trains in the folder."""
    for _ in range(600):
        for found in psutil.process_iter():
            try:
                words, surroundings = found.cmdline(), found.environ()
            except psutil.Error:
                continue
            starter = "-c" in words or "torch.distributed.run" in words
            if str(folder) in words and not starter and surroundings.get("RANK") == str(rank):
                return found
        time.sleep(0.05)
    raise AssertionError(f"no process of rank {rank}")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_changes_no_bit(tmp_path: Path, rank: int) -> None:
    """Kill one rank five times; the model has dropout and a counting buffer."""
    finished(started(2, str(tmp_path / "calm"), "noisy", "90"))
    folder, rng = tmp_path / "killed", random.Random(SEED + rank)
    process = started(2, str(folder), "noisy", "90", "0.03")
    for at in sorted(rng.sample(range(5, 80), 5)):
        wait_for_step(process, at)
        time.sleep(rng.uniform(0, 0.05))
        rank_process(folder, rank).kill()
        began = time.monotonic()
        wait_for_step(process, 1)
        assert time.monotonic() - began < 60
    lines = finished(process)
    assert lines[-1] == f"digest {digest(tmp_path / 'calm')}", f"seed {SEED + rank}"


@pytest.mark.slow
def test_a_process_that_falls_silent_is_replaced_within_a_minute(tmp_path: Path) -> None:
    finished(started(2, str(tmp_path / "calm"), "noisy", "60"))
    process = started(2, str(tmp_path / "run"), "noisy", "60", "0.03")
    wait_for_step(process, 20)
    rank_process(tmp_path / "run", 1).send_signal(signal.SIGSTOP)
    began = time.monotonic()
    time.sleep(1)
    wait_for_step(process, 24)
    assert finished(process)[-1] == f"digest {digest(tmp_path / 'calm')}"
    assert time.monotonic() - began < 100  # 60, and what was left to train


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_torchrun_restarts_it_too(tmp_path: Path) -> None:
    finished(started(2, str(tmp_path / "calm"), "noisy", "60"))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--max-restarts", "3", "--standalone", str(SCRIPT), str(tmp_path / "run"), "noisy"]
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        [*command, "60", "0.03"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=surroundings,
    )
    wait_for_step(process, 20)
    rank_process(tmp_path / "run", 1).kill()
    assert finished(process)[-1] == f"digest {digest(tmp_path / 'calm')}"


def test_the_settings_do_not_know_of_processes() -> None:
    assert "processes" not in TrainSettings().identity(), "so that N processes go on in M"
