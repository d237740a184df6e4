"""What a real process sends where: pipes, closed and full outputs, terminals, start-up time."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CONTROL = re.compile(r"\x1b")


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "attnlab", *argv]


def shell(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a bash script in which $A is attnlab."""
    quoted = " ".join([sys.executable, "-m", "attnlab"])
    return subprocess.run(
        ["bash", "-c", f'A="{quoted}"\n{script}'],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=60,
    )


def on_terminal(*argv: str, folder: Path, **environment: str) -> str:
    """What a person sees in a terminal of 80 columns."""
    main, side = pty.openpty()
    fixed = {"COLUMNS": "80", "LINES": "24", "TERM": "xterm"}
    process = subprocess.Popen(
        command(*argv),
        stdin=side,
        stdout=side,
        stderr=side,
        cwd=folder,
        env={**os.environ, **fixed, **environment},
    )
    os.close(side)
    seen = b""
    try:
        while chunk := os.read(main, 4096):
            seen += chunk
    except OSError:  # Linux says EIO when the last writer is gone
        pass
    os.close(main)
    assert process.wait(timeout=60) == 0
    return seen.decode().replace("\r\n", "\n")


def test_a_closed_pipe_is_not_an_error(stored: Path, tmp_path: Path) -> None:
    script = "".join(
        f"$A {argv} | {reader} > /dev/null; echo ${{PIPESTATUS[0]}}\n"
        for argv in (f"table {stored} --csv", f"table {stored} --json")
        for reader in ("head -1", "true")
    )
    done = shell(script, tmp_path)
    assert done.stdout.split() == ["0"] * 4
    assert done.stderr == ""


def test_a_closed_pipe_keeps_the_exit_code_of_a_failure(stored: Path, tmp_path: Path) -> None:
    damaged = tmp_path / stored.name
    shutil.copytree(stored, damaged)
    (damaged / "results.json").write_bytes(b"{}")
    done = shell(f"$A verify {damaged} | true; echo ${{PIPESTATUS[0]}}", tmp_path)
    assert done.stdout.split() == ["3"], done.stderr


def test_full_and_closed_outputs(tmp_path: Path) -> None:
    full = shell("$A list > /dev/full", tmp_path)
    assert full.returncode == 4
    assert full.stderr == "attnlab: output: No space left on device\n"
    assert shell("$A list >&-", tmp_path).returncode == 0
    assert shell("$A nope 2>&-", tmp_path).returncode == 2


def test_a_stream_that_cannot_encode_omega(tmp_path: Path) -> None:
    done = shell("$A show phase-transition", tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u03c9" in done.stdout


def test_a_pipe_has_no_control_codes_and_a_terminal_fits(stored: Path, tmp_path: Path) -> None:
    piped = subprocess.run(
        command("table", str(stored)), capture_output=True, text=True, timeout=60
    )
    assert piped.returncode == 0 and not CONTROL.search(piped.stdout + piped.stderr)
    seen = on_terminal("table", str(stored), folder=tmp_path)
    assert CONTROL.search(seen)
    text = re.sub(r"\x1b\[[0-9;]*m", "", seen)
    assert max(map(len, text.splitlines())) <= 80
    assert "of 6 columns; --csv and --json print all" in text  # size and none are the same in all


def test_the_claims_fit_a_terminal_and_colour_can_be_refused(stored: Path, tmp_path: Path) -> None:
    argv = (
        "run",
        str(stored.parents[1] / "pebbles.py"),
        "--device",
        "cpu",
        "--quiet",
        "--out",
        str(stored.parent),
    )
    seen = on_terminal(*argv, folder=tmp_path)
    assert "\x1b[32m✓ holds" in seen and "\x1b[31m✗ fails" in seen
    assert seen.splitlines()[-1] == str(stored / "report.html")
    plain = on_terminal(*argv, folder=tmp_path, NO_COLOR="1")
    assert not re.search(r"\x1b\[3[0-7]m", plain)
    dumb = on_terminal(*argv, folder=tmp_path, TERM="dumb")
    assert not CONTROL.search(dumb)


def test_json_is_alone_on_stdout(stored: Path, tmp_path: Path) -> None:
    argv = (
        "run",
        str(stored.parents[1] / "pebbles.py"),
        "--device",
        "cpu",
        "--json",
        "--out",
        str(stored.parent),
    )
    done = subprocess.run(command(*argv), capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert json.loads(done.stdout)["run"] == stored.name
    assert "Are pebbles round?" in done.stderr


LOUD = """
import torch
print("at import")
def f(ids):
    print("while it is asked")
    return torch.nn.functional.one_hot(ids, 11).float()
"""


def test_what_a_persons_own_code_prints_is_not_in_the_json(attnlab: Any, here: Path) -> None:
    text = (here / "pebbles.py").read_text(encoding="utf-8")
    told = text.replace("def trials(self):", "def trials(self):\n        print('in trials')")
    told = told.replace("def claims(self, table):", "def claims(self, table):\n        print('so')")
    (here / "loud.py").write_text("print('at import')\n" + told, encoding="utf-8")
    (here / "model.py").write_text(LOUD, encoding="utf-8")
    for argv, printed in (
        (("run", "./loud.py", "--device", "cpu", "--json"), ("at import", "in trials", "so")),
        (("run", "./loud.py", "--device", "cpu", "--json", "--dry-run"), ("in trials",)),
        (("show", "./loud.py", "--json"), ("at import", "in trials")),
        (("audit", "model:f", "--only", "non-finite", "--json"), ("at import", "while it is")),
        (("compare", "model:f", "model:f", "--device", "cpu", "--json"), ("at import",)),
    ):
        said = attnlab(*argv)
        assert said.code == 0, said
        assert json.loads(said.out), said.out
        assert all(words in said.err for words in printed), said.err


@pytest.mark.parametrize("argv", [("--help",), ("list",), ("run", "--help")])
def test_answers_at_once(argv: tuple[str, ...]) -> None:
    """Nothing that takes long to import is imported."""
    words = [sys.executable, "-X", "importtime", "-m", "attnlab", *argv]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "attnlab.cli.app" in imported
    assert not imported & {"torch", "transformers", "scipy", "matplotlib", "cvxpy", "peft"}
