"""Processes that belong together: whoever is lost, all start again, and nobody is left over."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from attnlab.core.errors import AttnlabError
from attnlab.lab import supervise as module
from attnlab.lab.supervise import supervise

HEAD = "import os, signal, sys, time; rank = int(os.environ['RANK']); where = sys.argv[1]\n"


def team(folder: Path, code: str, processes: int = 3, notes: list[str] | None = None) -> int:
    said = notes if notes is not None else []
    command = [sys.executable, "-c", HEAD + textwrap.dedent(code), str(folder)]
    return supervise(command, processes, said.append)


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5, 6])
def test_the_first_process_decides_the_exit_code(tmp_path: Path, code: int) -> None:
    assert team(tmp_path, f"sys.exit({code} if rank == 0 else 0)") == code


def test_they_are_told_who_they_are(tmp_path: Path) -> None:
    code = """
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
    open(f"{where}/{rank}", "w").write(" ".join(os.environ[n] for n in names))
    """
    assert team(tmp_path, code) == 0
    told = [(tmp_path / str(rank)).read_text() for rank in range(3)]
    assert told == [f"{rank} {rank} 3 3 127.0.0.1" for rank in range(3)]


@pytest.mark.parametrize("rank", [0, 2])
def test_one_that_is_killed_restarts_all(tmp_path: Path, rank: int) -> None:
    # the others wait for the one that is killed, or it might be gone before they have begun
    code = f"""
    tries = f"{{where}}/tries"
    def count():
        return len(open(tries).read()) if os.path.exists(tries) else 0
    if rank == {rank}:
        open(tries, "a").write("x")
        if count() < 3:
            os.kill(os.getpid(), signal.SIGKILL)
    while count() < 3:
        time.sleep(0.02)
    """
    notes: list[str] = []
    assert team(tmp_path, code, notes=notes) == 0
    assert (tmp_path / "tries").read_text() == "xxx"
    assert len(notes) == 2 and f"process {rank} of the training ended (SIGKILL)" in notes[0]


def test_a_follower_that_gives_up_restarts_all_and_ten_times_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESTARTS", 2)
    with pytest.raises(AttnlabError, match=r"process 1 .* \(exit code 1\), and 2 restarts"):
        team(tmp_path, "sys.exit(1 if rank == 1 else 0)", 2)


def test_restarts_of_those_that_lasted_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESTARTS", 1)
    monkeypatch.setattr(module, "STEADY_SECONDS", 0.0)
    code = """
    open(f"{where}/{rank}", "a").write("x")
    sys.exit(1 if rank == 1 and len(open(f"{where}/1").read()) < 5 else 0)
    """
    assert team(tmp_path, code, 2) == 0
    assert (tmp_path / "1").read_text() == "x" * 5


def test_one_that_does_not_follow_the_first_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(module, "RESTARTS", 0)
    assert team(tmp_path, "time.sleep(30 * rank)", 2) == 0, "what the first did is done"
    with pytest.raises(AttnlabError, match="does not answer"):
        team(tmp_path, "time.sleep(30 * rank); sys.exit(1)", 2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_all_and_nobody_outlives_the_supervisor(
    tmp_path: Path, number: signal.Signals
) -> None:
    code = """
    from attnlab.lab.supervise import end_with_supervisor
    end_with_supervisor()
    def leave(number, frame):
        open(f"{where}/told-{rank}", "w").write(str(number))
        sys.exit(128 + number)
    signal.signal(signal.SIGINT, leave)
    signal.signal(signal.SIGTERM, leave)
    open(f"{where}/{rank}", "w").write(str(os.getpid()))
    time.sleep(60)
    """
    start = (
        "import sys; from attnlab.lab.supervise import supervise; "
        "sys.exit(supervise(sys.argv[1:], 2, print))"
    )
    words = [sys.executable, "-c", HEAD + textwrap.dedent(code), str(tmp_path)]
    process = subprocess.Popen([sys.executable, "-c", start, *words])
    pids = [int(waited_for(tmp_path / str(rank))) for rank in range(2)]
    os.kill(process.pid, number)
    returned = process.wait(timeout=20)
    if number == signal.SIGKILL:
        assert returned == -number
    else:
        assert returned == 128 + number
        assert [(tmp_path / f"told-{rank}").read_text() for rank in range(2)] == [
            str(int(number))
        ] * 2
    _, alive = psutil.wait_procs([psutil.Process(p) for p in pids if psutil.pid_exists(p)], 10)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


def waited_for(path: Path) -> str:
    for _ in range(400):
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.05)
    raise AssertionError(f"{path.name} was never written")
