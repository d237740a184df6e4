"""`attnlab train`, killed again and again, ends in the weights of an undisturbed training."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .test_kill_run import verified

KILLS = 20


def command(out: Path, text: Path) -> list[str]:
    words = [
        sys.executable,
        "-m",
        "attnlab",
        "train",
        "--text",
        str(text),
        "--steps",
        "900",
        "--threads",
        "1",
        "--device",
        "cpu",
        "--quiet",
        "--out",
        str(out),
    ]
    for setting in ("block=32", "batch=4", "scored=10", "sample_tokens=9", "checkpoint_every=15"):
        words += ["--set", setting]
    return words


@pytest.mark.slow
def test_twenty_kills_and_two_stops_leave_the_same_weights(tmp_path: Path) -> None:
    """The digest covers the weights, the tokenizer, the curves and the sample."""
    text = tmp_path / "my.txt"
    draw = random.Random(11)
    words = ["king", "war", "home", "son", "was", "the", "came", "over", "and", "well"]
    text.write_text(
        "\n".join(" ".join(draw.choices(words, k=9)) + "." for _ in range(400)), encoding="utf-8"
    )
    began = time.monotonic()
    assert subprocess.run(command(tmp_path / "whole", text), check=False).returncode == 0
    length = time.monotonic() - began
    whole = verified(tmp_path / "whole")
    stopped, cut = 0, tmp_path / "cut"
    for number in range(KILLS + 2):
        signal_sent = signal.SIGTERM if number >= KILLS else signal.SIGKILL
        process = subprocess.Popen(command(cut, text), start_new_session=True)
        try:
            process.wait(timeout=draw.uniform(0.4, 0.8) * max(6.0, 0.4 * length))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal_sent)
            process.wait()
            stopped += 1
            if any(cut.glob("train-*/study.json")):
                verified(cut)
    assert subprocess.run(command(cut, text), check=False).returncode == 0
    again = verified(cut)
    assert stopped >= 3
    assert again["complete"] and again["digest"] == whole["digest"]
    (run,) = cut.glob("train-*")
    assert not list((run / "checkpoints").glob("*")), "gone once the model is stored"
