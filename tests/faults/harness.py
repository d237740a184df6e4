"""Fail, or die at, the Nth system call of a writer, N = 1, 2, 3 … until none is hit.

    for point in sweep(writer, folder, Fault("rename", "SIGKILL")): …

The process that sweeps has everything loaded; each case is a fork of it that strace is attached to
before it begins, so a case costs milliseconds and only the writer's own calls are counted. After
each case the writer's judge looks at what is left, runs the same command again, and says what is
wrong: nothing, if all is well.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from attnlab.cli.app import _explain as explain  # pyright: ignore[reportPrivateUsage]

CHANGING = (
    "openat",
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "rename",
    "unlink",
    "unlinkat",
    "mkdir",
    "rmdir",
    "ftruncate",
    "chmod",
    "link",
)
# what the kernel may say to which call
REFUSED = {
    "ENOSPC": ("openat", "write", "pwrite64", "fsync", "fdatasync", "rename", "mkdir", "ftruncate"),
    "EDQUOT": ("openat", "write", "pwrite64", "fsync", "fdatasync", "rename", "mkdir", "ftruncate"),
    "EIO": (*CHANGING, "read", "pread64", "getdents64", "close"),
    "EMFILE": ("openat",),
}
MOST = 2000  # points of one call: a loop that does not end is a failure
SECONDS = 60  # of one case


class Writer(Protocol):
    """Something that stores, and knows what it must find afterwards."""

    def before(self, folder: Path) -> None:
        """Once: what every case begins with, and what it must come to."""
        ...

    def fresh(self, folder: Path, number: int) -> Path:
        """A place of its own for one case."""
        ...

    def work(self, own: Path) -> None:
        """The command that is disturbed."""
        ...

    def judge(self, own: Path) -> str:
        """What is wrong with what is left, and with the same command run again; '' if nothing."""
        ...


@dataclass(frozen=True)
class Fault:
    """SIGKILL, or an error of the kernel, at a call: at the Nth only, or from the Nth on."""

    call: str
    what: str
    onwards: bool = False

    def injection(self, nth: int) -> str:
        """As strace wants it."""
        doing = f"signal={self.what}" if self.what.startswith("SIG") else f"error={self.what}"
        return f"inject={self.call}:{doing}:when={nth}{'+' if self.onwards else ''}"


@dataclass(frozen=True)
class Point:
    """One case: how the process ended, whether the fault was hit, and what is wrong."""

    call: str
    what: str
    onwards: bool
    nth: int
    hit: bool
    code: int
    problem: str
    said: str

    def as_json(self) -> dict[str, Any]:
        """For a line of output."""
        return asdict(self)


def why_not() -> str:
    """Why strace cannot be attached to a process here; '' where it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    with subprocess.Popen(["sleep", "9"]) as other:
        words = ["strace", "-p", str(other.pid), "-o", os.devnull]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            line = tracer.stderr.readline()
            tracer.terminate()
        other.kill()
    return "" if "attached" in line else f"strace cannot attach: {line.strip()}"


def sweep(writer: Writer, folder: Path, fault: Fault, every: int = 1) -> Iterator[Point]:
    """Every point of a call (or every so many), the first that is not hit included."""
    for nth in range(1, MOST, every):
        own = writer.fresh(folder, nth)
        log, said = folder / "strace.log", folder / "stderr.txt"
        code = traced(lambda own=own: writer.work(own), log, said, fault.injection(nth))
        hit = code == -signal.SIGKILL or "INJECTED" in log.read_text()
        problem = judged(code, hit, fault, said.read_text()) or writer.judge(own)
        yield Point(
            fault.call, fault.what, fault.onwards, nth, hit, code, problem, said.read_text()[:300]
        )
        shutil.rmtree(own, ignore_errors=True)
        if not hit:
            return
    raise AssertionError(f"{fault}: more than {MOST} calls")


def judged(code: int, hit: bool, fault: Fault, said: str) -> str:
    """A documented end: killed, 0, or 4 with at most three lines that name the reason."""
    if "Traceback" in said or "internal error" in said:
        return f"a traceback: {said[-300:]}"
    if fault.what == "SIGKILL":
        return "" if code in ((-signal.SIGKILL,) if hit else (0,)) else f"exit code {code}"
    if code not in ((0, 4) if hit else (0,)):
        return f"exit code {code}: {said[:200]}"
    if code == 4 and fault.call != "write" and not 1 <= len(said.splitlines()) <= 3:
        return f"exit code 4 with {len(said.splitlines())} lines"
    return ""


def traced(work: Callable[[], None], log: Path, said: Path, *injections: str) -> int:
    """Do the work in a fork with strace attached; its exit code, negative for a signal."""
    go_read, go_write = os.pipe()
    process = forked(work, said, go_read)
    traced_calls = [f"trace={i.split('=')[1].split(':')[0]}" for i in injections if "inject" in i]
    words = ["strace", "-p", str(process), "-y", "-s", "0", "-o", str(log)]
    for words_of in (*traced_calls, *injections):
        words += ["-e", words_of]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        line = tracer.stderr.readline()
        assert re.search("attached", line), line
        os.write(go_write, b"x")
        code = ended(process)
    os.close(go_read)
    os.close(go_write)
    return code


def forked(work: Callable[[], None], said: Path, go: int) -> int:
    """The process id of a copy of this process that waits, does the work and leaves.

    It waits already when this returns: a fault is to hit the work, not what is prepared for it.
    """
    sys.stdout.flush()
    ready, here = os.pipe()
    process = os.fork()
    if process:
        os.close(here)
        os.read(ready, 1)
        os.close(ready)
        return process
    code = 70
    try:
        signal.alarm(SECONDS)  # nothing may hang
        os.close(ready)
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        os.write(here, b"x")
        os.close(here)
        select.select([go], [], [])  # not a read: those are refused, too
        code = command(work)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def command(work: Callable[[], None]) -> int:
    """As `attnlab` would end: an error is its line and its exit code."""
    try:
        work()
    except Exception as error:
        return explain(error)
    return 0


def ended(process: int) -> int:
    """Exit code, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
