"""attnlab assets: what it prints, and with which code it leaves."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attnlab.assets import cache as shelf
from attnlab.cli import assets as commands
from tests.cli.conftest import Said, call

from . import packing
from .server import Shop

HERE = Path(__file__).parent


def ask(*argv: str) -> Said:
    return call("assets", *argv)


def refused(said: Said, code: int, *words: str) -> None:
    assert (said.code, said.out) == (code, ""), said
    assert said.err.startswith("attnlab: ") and len(said.err.splitlines()) <= 3
    assert "Traceback" not in said.err and "internal error" not in said.err
    for word in words:
        assert word in said.err


def test_list(pebbles: Path, wheels: Path) -> None:
    ask("get", "sand", "--source", "path", "--path", str(wheels))
    said = ask("list")
    assert said.code == 0 and said.err == ""
    lines = [line.split() for line in said.out.splitlines()]
    assert lines[0] == ["asset", "cached", "size", "licence", "holds"]
    assert ["sand", "cached", "0.1", "MB", "MIT", "pebbles"] in lines
    assert ["pebbles", "no", "0.1", "MB", "MIT", "pebbles"] in lines
    value = json.loads(ask("list", "--json").out)
    assert value["cache"] == str(pebbles)
    assert [row["name"] for row in value["assets"]] == ["pebbles", "shells", "sand", "deep"]
    assert [row["cached"] for row in value["assets"]] == [False, False, True, False]


def test_get(shop: Shop, pebbles: Path) -> None:
    said = ask("get", "pebbles")
    assert (said.code, said.err) == (0, "")
    assert said.out == f"pebbles: 2 files, 0.1 MB\n{pebbles / 'pebbles'}\n"
    value = json.loads(ask("get", "shells", "--json").out)
    assert value == {
        "name": "shells",
        "path": str(pebbles / "shells"),
        "files": [str(pebbles / "shells" / "three.txt")],
    }


def test_verify_and_remove(shop: Shop, pebbles: Path) -> None:
    assert ask("verify").out == "nothing is cached\n"
    assert json.loads(ask("verify", "--json").out) == {"ok": True, "assets": []}
    ask("get", "pebbles")
    assert ask("verify").out == "pebbles: undamaged\nshells: undamaged\n"
    broken = pebbles / "pebbles" / "one.txt"
    broken.write_bytes(b"x" * len(packing.FILES["one.txt"]))
    said = ask("verify", "pebbles")
    assert (said.code, said.err) == (3, "")
    assert said.out == f"pebbles: DAMAGED\n  {broken}: SHA-256 differs\n"
    value = ask("verify", "--json")
    assert value.code == 3
    assert json.loads(value.out) == {
        "ok": False,
        "assets": [
            {"name": "pebbles", "ok": False, "problems": [f"{broken}: SHA-256 differs"]},
            {"name": "shells", "ok": True, "problems": []},
        ],
    }
    assert ask("verify", "shells").code == 0
    assert ask("remove", "pebbles").out == "removed pebbles\n"
    assert ask("remove", "pebbles").out == "pebbles was not cached\n"
    assert json.loads(ask("remove", "shells", "--json").out) == {"name": "shells", "removed": True}
    refused(ask("verify", "pebbles"), 6, "`attnlab assets get pebbles`")


def test_a_damaged_copy_is_mended_and_said_on_stderr(shop: Shop, pebbles: Path) -> None:
    ask("get", "pebbles")
    (pebbles / "pebbles" / "one.txt").unlink()
    said = ask("get", "pebbles")
    assert said.code == 0
    assert said.err.endswith("one.txt: missing; downloading pebbles again\n")


@pytest.mark.parametrize(
    ("argv", "code", "word"),
    [
        (("get",), 2, "Missing argument"),
        (("get", "pebles"), 2, "did you mean 'pebbles'"),
        (("get", "pebbles", "--source", "hbu"), 2, "did you mean 'hub'"),
        (("get", "pebbles", "--source", "path"), 2, "needs a path"),
        (("get", "pebbles", "--source", "path", "--path", "none"), 2, "no such file"),
        (("get", "pebbles", "--source", "path", "--path", "."), 3, "nor one.txt"),
        (("get", "pebbles"), 6, "`attnlab assets get pebbles`"),
        (("get", "sand", "--source", "hub"), 2, "not on a hub"),
        (("verify", "pebles"), 2, "did you mean"),
        (("verify", "pebbles"), 6, "not cached"),
        (("remove", "pebles"), 2, "did you mean"),
        (("remove", "\x1b[31m"), 2, "unknown asset"),
        (("lsit",), 2, "list"),
    ],
)
def test_refusals(
    pebbles: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    argv: tuple[str, ...],
    code: int,
    word: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(ask(*argv), code, word)


def test_without_a_command_it_helps(pebbles: Path) -> None:
    said = ask()
    assert said.code == 2 and said.out == ""
    for word in ("list", "get", "verify", "remove"):
        assert word in said.err


def test_a_cache_that_cannot_be_written_is_exit_4(
    pebbles: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNLAB_CACHE", "/proc/none")
    refused(ask("get", "pebbles", "--source", "path", "--path", str(wheels)), 4, "/proc/none")


def test_plain_progress_speaks_now_and_then(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = commands.PlainProgress()
    progress.start("pebbles.whl", 4_000_037, 1_000_003)
    progress.advance(1_000_003)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(commands, "PLAIN_SECONDS", 0.0)
    progress.advance(1_000_003)
    progress.stop()
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("pebbles.whl: 3.0 of 4.0 MB, ")


TERMINAL = """
import sys
from attnlab.cli import assets
bar = assets._progress()
assert isinstance(bar, assets.BarProgress) == (sys.argv[1] == "bar")
bar.start("pebbles.whl", 4_000_037, 0)
bar.advance(1_000_003)
bar.stop()
bar.note("again [red]")
bar.start("pebbles.whl", 4_000_037, 0)
bar.advance(4_000_037)
bar.stop()
"""


@pytest.mark.parametrize(("terminal", "kind"), [("xterm", "bar"), ("dumb", "plain")])
def test_a_bar_on_a_terminal(terminal: str, kind: str) -> None:
    main, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", TERMINAL, kind],
        stderr=side,
        stdout=subprocess.PIPE,
        env={**os.environ, "TERM": terminal, "COLUMNS": "100"},
    )
    os.close(side)
    seen = b""
    try:
        while chunk := os.read(main, 4096):
            seen += chunk
    except OSError:  # Linux says EIO when the last writer is gone
        pass
    os.close(main)
    assert process.communicate(timeout=60)[0] == b""
    assert process.returncode == 0, seen
    assert b"again [red]" in seen
    assert (b"4.0/4.0 MB" in seen) == (kind == "bar")


def test_the_commands_load_nothing_heavy(pebbles: Path) -> None:
    script = (
        "import sys\n"
        "from attnlab.cli.app import main\n"
        "sys.argv = ['attnlab', 'assets', 'list']\n"
        "try:\n    main()\n"
        "except SystemExit:\n    pass\n"
        "slow = {'torch', 'transformers', 'requests', 'huggingface_hub'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert not shelf.root().exists()  # looking creates nothing
