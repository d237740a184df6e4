"""Trainings that are killed; each is a fork of this process, so that torch is loaded once.

python crash.py points FOLDER kill|refuse|full|limit …   the Nth call of a save is the last
python crash.py strace FOLDER kill|refuse CALL …         the same by system call
python crash.py random FOLDER KILLS SEED                 SIGKILL at random instants

Prints JSON lines; the tests judge them.
"""

import errno
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from drive import training
from tiny import Tiny, dev_loss, digest, one_thread, settings

from attnlab.core.errors import AttnlabError, exit_code_of
from attnlab.training.checkpoint import latest_checkpoint
from attnlab.training.optimizer import build_optimizer
from attnlab.training.result import Hooks

BEFORE, STEPS = 9, 10  # steps 5, 6 and 9 are stored; one save is to come, and one removal
UNHIT = 71
CALLS = ("open", "fsync", "rename", "replace", "unlink", "rmdir", "mkdir", "chmod")


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def forked(work: Callable[[], object]) -> int:
    """Fork this process to do the work and exit; return the process id of the fork.

    Exit code: 0, or what the work says if that is a number, or an error's own.
    """
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        found = work()
        code = found if isinstance(found, int) else 0
    except AttnlabError as error:
        print(error, file=sys.stderr)
        code = exit_code_of(error)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(process: int) -> int:
    """Wait for a process; return its exit code, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def judged(folder: Path) -> dict[str, Any]:
    """Return the newest valid step, and the digest after the same training was run again."""
    there = latest_checkpoint(folder)
    step = there.state.step if there else 0
    code = ended(forked(lambda: training(folder, STEPS)))
    leftovers = [name for name in os.listdir(folder) if name.startswith(".partial")]
    return {"step": step, "again": code, "digest": digest(folder), "leftovers": leftovers}


class Fuse:
    """Counts calls of functions that touch the disk; the Nth call kills or fails."""

    def __init__(self, number: int, action: str) -> None:
        self.left, self.action = number, action

    def burn(self, half: Callable[[], object]) -> None:
        self.left -= 1
        if self.left > 0 or (self.left < 0 and self.action != "full"):
            return
        if self.action == "kill":
            half()
            os.kill(os.getpid(), signal.SIGKILL)
        half()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def guard(self, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def guarded(*args: Any, **more: Any) -> Any:
            self.burn(lambda: None)
            return real(*args, **more)

        setattr(owner, name, guarded)

    def guard_writing(self) -> None:
        """Guard writes; an interrupted write leaves half of its bytes."""
        real = Path.write_bytes

        def guarded(path: Path, data: bytes) -> int:
            self.burn(lambda: real(path, data[: len(data) // 2]))
            return real(path, data)

        setattr(Path, "write_bytes", guarded)  # noqa: B010

    def live(self, folder: Path) -> int:
        """Train with the guards on; UNHIT if there were fewer calls.

        `limit` is the kernel's own refusal: no file may grow beyond so many bytes.
        """
        if self.action == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.left * 200, resource.RLIM_INFINITY))
            training(folder, STEPS)
            return UNHIT
        for name in CALLS:
            if self.action != "full" or name not in ("unlink", "rmdir"):  # a full disk lets go
                self.guard(os, name)
        self.guard(Path, "open")
        self.guard_writing()
        training(folder, STEPS)
        return UNHIT if self.left > 0 else 0


def points(folder: Path, action: str) -> None:
    """Interrupt every call that touches the disk, from resuming to the last checkpoint."""
    for number in range(1, 1000):
        own = fresh(folder, number)
        fuse = Fuse(number, action)
        code = ended(forked(lambda own=own, fuse=fuse: fuse.live(own)))
        say(point=number, action=action, code=code, hit=code != UNHIT, **judged(own))
        shutil.rmtree(own)
        if code == UNHIT:
            return


def strace(folder: Path, action: str, calls: list[str]) -> None:
    """Interrupt every system call: strace is attached to the fork before it begins."""
    what = {"kill": "signal=SIGKILL", "refuse": "error=ENOSPC"}[action]
    for call in calls:
        for number in range(1, 1000):
            own = fresh(folder, number)
            log = folder / "strace.log"
            code = traced(own, log, f"inject={call}:{what}:when={number}")
            hit = "INJECTED" in log.read_text() or code == -signal.SIGKILL
            say(point=number, call=call, code=code, hit=hit, **judged(own))
            shutil.rmtree(own)
            if not hit:
                break


def traced(own: Path, log: Path, injection: str) -> int:
    go_read, go_write = os.pipe()

    def work() -> None:
        os.read(go_read, 1)
        training(own, STEPS)

    process = forked(work)
    words = ["strace", "-p", str(process), "-o", str(log), "-e", injection]
    tracer = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    assert re.search("attached", tracer.stderr.readline())
    os.write(go_write, b"x")
    code = ended(process)
    tracer.communicate()
    os.close(go_read)
    os.close(go_write)
    return code


def fresh(folder: Path, number: int) -> Path:
    own = folder / f"point-{number}"
    shutil.copytree(folder / "before", own)
    return own


def undisturbed(folder: Path) -> None:
    """Print the digest to reach, and prepare a training stopped after step 9 to resume from."""
    assert ended(forked(lambda: training(folder / "whole", STEPS))) == 0
    say(undisturbed=digest(folder / "whole"))
    asked = iter([False] * BEFORE + [True])
    hooks = Hooks(evaluate=dev_loss, stop=lambda: next(asked))
    assert ended(forked(lambda: training(folder / "before", STEPS, hooks=hooks))) == 0


def random_kills(folder: Path, kills: int, seed: int) -> None:
    """Of every four kills two come a few steps later, one inside a save, one at a random time.

    Counted in steps, not seconds: the machine may be busy with other things.
    """
    steps, pause, own = 6 * kills, 0.004, folder / "own"
    began = time.monotonic()
    assert ended(forked(lambda: training(folder / "whole", steps, pause))) == 0
    say(undisturbed=digest(folder / "whole"))
    step_seconds, rng = (time.monotonic() - began) / steps, random.Random(seed)
    for number in range(kills):
        process = forked(lambda: training(own, steps, pause))
        if number % 4 == 3:
            time.sleep(rng.uniform(0, 8 * step_seconds))
        else:
            wanted = lines(own) + rng.randrange(1, 8)
            wait(process, lambda wanted=wanted: lines(own) >= wanted)
        if number % 4 == 2:
            wait(process, lambda: bool(list(own.glob(".partial-step-*"))))
            time.sleep(rng.uniform(0, 0.002))
        else:
            time.sleep(rng.uniform(0, step_seconds))
        os.kill(process, signal.SIGKILL)
        code, there = ended(process), latest_checkpoint(own)
        inside = bool(list(own.glob(".partial-*")))
        say(kill=number, code=code, step=there.state.step if there else 0, inside=inside)
    code = ended(forked(lambda: training(own, steps, pause)))
    say(again=code, digest=digest(own))


def lines(folder: Path) -> int:
    log = folder / "log.jsonl"
    return len(log.read_bytes().splitlines()) if log.exists() else 0


def wait(process: int, until: Callable[[], bool]) -> None:
    """Wait until the condition holds, the process has ended, or half a minute has passed."""
    end = time.monotonic() + 30
    while time.monotonic() < end and not until():
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.0005)


def main() -> None:
    one_thread()
    build_optimizer(Tiny(), settings())  # loads what torch loads late, before the forks
    what, folder, rest = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    if what == "random":
        random_kills(folder, int(rest[0]), int(rest[1]))
        return
    undisturbed(folder)
    if what == "points":
        for action in rest:
            points(folder, action)
    else:
        strace(folder, rest[0], rest[1:])


if __name__ == "__main__":
    main()
