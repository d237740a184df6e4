"""The driver's end of one worker process: start, order, listen, end."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnlab.core.errors import StorageError, storage_errors
from attnlab.lab.engine.wire import Unpacker, pack, peak_bytes, tail
from attnlab.lab.trial import Trial

THREADS = {  # one thread a worker, or the number of workers would change the bits
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "PYTHONHASHSEED": "0",  # sets iterate in the same order in every worker
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
}
LOG_BYTES = 16_384
LOG_MOST = 1 << 24  # a trial may print without end: beyond this its log begins anew
UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


class WorkerProcess:
    """A worker in a session of its own: Ctrl-C reaches the driver alone, which then ends it."""

    def __init__(self, scratch: Path) -> None:
        self.trial: Trial | None = None
        self.deadline = time.monotonic() + 120.0  # for starting; then one for each trial
        self.ready = False
        self.handed_out = 0.0
        self.heard = 0  # bytes
        self._unpacker = Unpacker()
        self.seen_peak = 0  # bytes, as last looked at
        self.inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT
        with storage_errors(scratch):
            self._log = _log_file(scratch)
            orders, self._orders = os.pipe()
            self.results, answers = os.pipe()
        os.set_blocking(self.results, False)
        words = [sys.executable, "-P", "-m", "attnlab.lab.engine.worker", str(orders), str(answers)]
        try:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=(orders, answers),
                env={**os.environ, **THREADS},
                start_new_session=True,
            )
        except OSError as error:  # no more processes, no more memory
            for handle in (self._orders, self.results, self._log):
                os.close(handle)
            why = error.strerror or error
            raise StorageError(f"no worker could be started: {why}; use fewer workers") from None
        finally:
            os.close(orders)
            os.close(answers)

    def send(self, message: dict[str, Any]) -> None:
        """Give an order; a worker that is dead already is found out by `receive`."""
        data = memoryview(pack(message))
        with suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._orders, data) :]

    def assign(self, trial: Trial, seconds: float) -> None:
        """Give the worker a trial; its log and its time start now."""
        os.ftruncate(self._log, 0)
        self.trial = trial
        self.handed_out = time.monotonic()
        self.deadline = self.handed_out + seconds
        self.send({"config": dict(trial.config), "seed": trial.seed})

    @property
    def elapsed(self) -> float:
        """Seconds since the trial was handed out."""
        return time.monotonic() - self.handed_out

    def receive(self) -> list[tuple[dict[str, Any], bytes]] | None:
        """Messages that arrived, or None when the worker is gone or talks nonsense."""
        try:
            data = os.read(self.results, 1 << 20)
            self.heard += len(data)
            return self._unpacker.feed(data) if data else None
        except BlockingIOError:
            return []
        except (OSError, ValueError):
            return None

    def end(self) -> tuple[int, int]:
        """Kill what is left of its process group; exit code (minus signal) and peak bytes."""
        if self.process.returncode is not None:
            return self.process.returncode, 0
        # before reaping: until then the number names this group and nobody else's, and a worker
        # that died of something else keeps that as its status
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        # a process starts with the peak of the one that made it: only more than that is its own
        peak = used.ru_maxrss * UNIT
        return self.process.returncode, peak if peak > self.inherited else self.seen_peak

    @property
    def dead(self) -> bool:
        """It ended; that its pipe is closed may never be heard, if what it started holds it too."""
        if self.process.returncode is not None or not hasattr(os, "waitid"):
            return self.process.returncode is not None  # macOS: the trial's time limit must tell
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, how) is not None

    def check(self) -> None:
        """Note its peak memory so far, where the system tells it; empty a log that is too long."""
        self.seen_peak = max(self.seen_peak, peak_bytes(self.process.pid))
        with suppress(OSError):
            if os.fstat(self._log).st_size > LOG_MOST:
                os.ftruncate(self._log, 0)

    def log_tail(self) -> str:
        """The end of what the worker printed during its trial."""
        size = os.fstat(self._log).st_size
        data = os.pread(self._log, LOG_BYTES, max(0, size - LOG_BYTES))
        return tail(data.decode("utf-8", "replace"))

    def close(self) -> None:
        """End it and let go of its pipes and log."""
        self.end()
        for handle in (self._orders, self.results, self._log):
            os.close(handle)


def _log_file(scratch: Path) -> int:
    scratch.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=scratch, prefix="log-")
    os.close(handle)
    # append: the driver empties it before each trial, and writes must then start at its new end
    log = os.open(name, os.O_RDWR | os.O_APPEND)
    Path(name).unlink()
    return log
