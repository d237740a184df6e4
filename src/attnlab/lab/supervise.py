"""One command as several processes that belong together: if one is lost, all start again.

    code = supervise([sys.executable, "-m", "attnlab", …], 4, say)

Each copy finds RANK and WORLD_SIZE in its environment, as torchrun would set them, and goes on from
the last checkpoint. torchrun starts the same command on several machines. On one machine its agent
(torch 2.13) cannot replace this module:

- It restarts after every exit code, wrong usage included, and then leaves with 1 instead of the
  documented code of the first process.
- It waits for as long as a process hangs, even when the first one is done.
- If the agent is killed, its processes run on. Here each holds a pipe, the leash, and ends when the
  other end is closed; torch's agent closes every inherited pipe.
- It never counts restarts anew, however long an attempt has lasted.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from attnlab.core.errors import AttnlabError
from attnlab.lab.stop import Stop, end_process_group, stop_on_signals

RESTARTS = 10  # one after the other
STEADY_SECONDS = 600.0  # after so long an attempt, restarts are counted from 0 again
GRACE_SECONDS = 10.0  # for the others, once one has ended
STOP_SECONDS = 30.0  # for all, once a signal was passed on
POLL_SECONDS = 0.05
SUPERVISOR = "ATTNLAB_LEASH"
FINAL_CODES = frozenset({2, 3, 4, 5, 6, 130, 143})  # codes that starting again would not change


def supervise(command: Sequence[str], processes: int, say: Callable[[str], None]) -> int:
    """The exit code of the first process, after restarts: at most 10 that did not last."""
    restart = 0
    with stop_on_signals() as stop:
        while True:
            began = time.monotonic()
            team = _Team(command, processes)
            try:
                code = team.watch(stop)
            finally:
                team.close()
            if code is not None:
                return code
            restart = 1 if time.monotonic() - began > STEADY_SECONDS else restart + 1
            if restart > RESTARTS:
                raise AttnlabError(f"{team.problem}, and {RESTARTS} restarts did not help")
            say(f"{team.problem}: all start again from the last checkpoint ({restart})")


class _Team:
    """The processes of one attempt; only the first one prints."""

    def __init__(self, command: Sequence[str], processes: int) -> None:
        self.problem = ""
        leash, self._held = os.pipe()
        shared = {
            "WORLD_SIZE": str(processes),
            "LOCAL_WORLD_SIZE": str(processes),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(_free_port()),
            SUPERVISOR: str(leash),
        }
        if sys.platform == "linux":
            shared["GLOO_SOCKET_IFNAME"] = "lo"  # they are all on this machine
        self._processes = [
            subprocess.Popen(
                command,
                stdout=None if rank == 0 else subprocess.DEVNULL,
                stderr=None if rank == 0 else subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                pass_fds=(leash,),
                start_new_session=True,
            )
            for rank in range(processes)
        ]
        os.close(leash)

    def watch(self, stop: Stop) -> int | None:
        """The exit code to leave with, or None when one was lost and all must start again."""
        passed_on, until = False, 0.0
        while True:
            codes = [process.poll() for process in self._processes]
            ended = [code for code in codes if code is not None]
            if stop.signal_number and not passed_on:
                passed_on, until = True, time.monotonic() + STOP_SECONDS
                self._signal(stop.signal_number)
            elif ended and not until:
                until = time.monotonic() + GRACE_SECONDS
            if len(ended) == len(codes) or (until and time.monotonic() > until):
                return self._verdict(codes, stop)
            if self._is_lost(codes) and not passed_on:
                return None
            if codes[0] in FINAL_CODES:
                return codes[0]
            time.sleep(POLL_SECONDS)

    def _is_lost(self, codes: Sequence[int | None]) -> bool:
        for rank, code in enumerate(codes):
            if code is not None and (code < 0 or (rank and code and code not in FINAL_CODES)):
                how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                self.problem = f"process {rank} of the training ended ({how})"
                return True
        return False

    def _verdict(self, codes: Sequence[int | None], stop: Stop) -> int | None:
        if stop.signal_number:
            return 128 + stop.signal_number
        if self._is_lost(codes):
            return None
        if codes[0] == 0 or (codes[0] is not None and None not in codes):
            return codes[0]
        self.problem = "a process of the training does not answer"
        return None

    def _signal(self, number: int) -> None:
        for process in self._processes:
            if process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number)

    def close(self) -> None:
        """Kill what still runs, and wait until every process is gone."""
        self._signal(signal.SIGKILL)
        for process in self._processes:
            process.wait()
        os.close(self._held)


def end_with_supervisor() -> None:
    """In a supervised process: end, with everything started from here, when the supervisor does."""
    text = os.environ.pop(SUPERVISOR, "")
    if text.isdecimal():
        os.set_inheritable(int(text), False)
        threading.Thread(target=_kill_when_it_ends, args=(int(text),), daemon=True).start()


def _kill_when_it_ends(leash: int) -> None:
    os.read(leash, 1)  # nothing is ever written: it returns when the other end is gone
    end_process_group()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
