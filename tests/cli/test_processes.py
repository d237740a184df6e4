"""`attnlab train --processes 2`: killed, stopped and torchrun, it ends in the same table."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from attnlab.core.seeds import Seed
from attnlab.lab.record import Record

ASKED = {
    "steps": 40,
    "threads": 1,
    "device": "cpu",
    "seed": 3,
    "tokenizer": "char",
}
SET = {"block": 17, "batch": 7, "scored": 5, "evaluations": 2, "checkpoint_every": 5}
SET |= {"layers": 1, "heads": 1, "d_model": 11, "sample_tokens": 5}


def text_file(folder: Path) -> Path:
    rng = Seed(5).numpy_generator()
    words = ["".join(rng.choice(list("abcdefg"), 4)) for _ in range(41)]
    path = folder / "text.txt"
    path.write_text("\n".join(" ".join(rng.choice(words, 11)) + "." for _ in range(301)))
    return path


def words(text: Path, out: Path, *more: str) -> list[str]:
    asked = [f"--{name}={value}" for name, value in ASKED.items()]
    asked += [f"--set={name}={value}" for name, value in SET.items()]
    return ["train", f"--text={text}", f"--out={out}", *asked, *more]


def started(text: Path, out: Path, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "attnlab", *words(text, out, *more)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def digest(out: Path) -> str:
    (path,) = out.iterdir()
    record = Record.open(path)
    assert record.verify().ok and record.complete
    return record.digest()


def training_rank(out: Path, rank: int) -> psutil.Process:
    """The process of this rank, once a checkpoint is there."""
    for _ in range(1200):
        for found in psutil.process_iter():
            try:
                ours = f"--out={out}" in found.cmdline() and found.environ().get("RANK")
            except psutil.Error:
                continue
            if ours == str(rank) and list(out.glob("*/checkpoints/*/step-*")):
                return found
        time.sleep(0.05)
    raise AssertionError(f"no process of rank {rank}")


def test_torchrun_and_processes_exclude_each_other(
    attnlab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    said = attnlab("train", "--text", "x", "--processes", "2")
    assert said.code == 2 and "torchrun has already started" in said.err
    assert attnlab("train", "--text", "x", "--processes", "0").code == 2


def test_one_process_cannot_be_sharded(attnlab: Any) -> None:
    said = attnlab("train", "--text", "x", "--sharded")
    assert said.code == 2 and "--sharded needs several processes" in said.err
    assert len(said.err.strip().splitlines()) == 1


def test_sharded_and_compiled_is_refused_before_a_run_is_begun(tmp_path: Path) -> None:
    process = started(
        text_file(tmp_path), tmp_path / "out", "--processes=2", "--sharded", "--set=compile=true"
    )
    _, said = process.communicate(timeout=120)
    assert process.returncode == 2 and said.startswith(
        "attnlab: --sharded does not work with compile"
    ), said
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_and_stopped_it_ends_in_the_same_table(tmp_path: Path) -> None:
    text = text_file(tmp_path)
    calm = started(text, tmp_path / "calm", "--processes=2")
    _, said = calm.communicate(timeout=300)
    assert calm.returncode == 0, said
    assert said.count("step 40/40") == 1, "the first process alone speaks"

    out = tmp_path / "disturbed"
    process = started(text, out, "--processes=2")
    training_rank(out, 1).kill()
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert "process 1 of the training ended (SIGKILL): all start again" in said
    assert digest(out) == digest(tmp_path / "calm")

    out = tmp_path / "stopped"
    process = started(text, out, "--processes=2")
    training_rank(out, 0)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode in (0, 130), said
    assert not [p for p in psutil.process_iter() if f"--out={out}" in _words(p)]
    again = started(text, out, "--processes=2")
    _, said = again.communicate(timeout=300)
    assert again.returncode == 0, said
    assert digest(out) == digest(tmp_path / "calm")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_torchrun_runs_the_same_command(tmp_path: Path) -> None:
    text = text_file(tmp_path)
    calm = started(text, tmp_path / "calm", "--processes=2")
    _, said = calm.communicate(timeout=300)
    assert calm.returncode == 0, said
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["--max-restarts=3", "-m", "attnlab", *words(text, tmp_path / "torchrun")]
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=surroundings)
    assert done.returncode == 0, done.stderr[-2000:]
    assert digest(tmp_path / "torchrun") == digest(tmp_path / "calm")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sharded_it_ends_in_the_same_table_and_goes_on_in_other_numbers(tmp_path: Path) -> None:
    text = text_file(tmp_path)
    calm = started(text, tmp_path / "calm", "--processes=2", "--sharded")
    _, said = calm.communicate(timeout=300)
    assert calm.returncode == 0, said

    out = tmp_path / "killed"
    process = started(text, out, "--processes=2", "--sharded")
    training_rank(out, 1).kill()
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert "process 1 of the training ended (SIGKILL): all start again" in said
    assert digest(out) == digest(tmp_path / "calm")

    out = tmp_path / "moved"
    for processes in (2, 3):
        process = started(text, out, f"--processes={processes}", "--sharded")
        training_rank(out, 0)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert process.returncode in (0, 143), said
    alone = started(text, out)
    _, said = alone.communicate(timeout=300)
    assert alone.returncode == 0, said
    digest(out)  # complete, undamaged
    assert dev_perplexity(out) == pytest.approx(dev_perplexity(tmp_path / "calm"), rel=1e-4)


def dev_perplexity(out: Path) -> float:
    """float32: 40 steps in other orders of addition differ by rounding, measured about 1e-6."""
    (path,) = out.iterdir()
    return next(iter(Record.open(path).table()))["dev_perplexity"]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
