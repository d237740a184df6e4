"""A worker process: builds the study from its source, then runs trials until the driver is gone.

    python -P -m attnlab.lab.engine.worker READ_FD WRITE_FD

Standard output and error are a log file, so nothing a study prints can reach the protocol.
"""

import contextlib
import faulthandler
import math
import os
import queue
import resource
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnlab.core.config import build
from attnlab.core.errors import AttnlabError
from attnlab.lab.artefacts import encode_arrays
from attnlab.lab.engine.wire import Unpacker, pack, peak_bytes, tail
from attnlab.lab.findings import stored_finding
from attnlab.lab.source import Source, load_study_class
from attnlab.lab.stop import end_process_group
from attnlab.lab.study import Study
from attnlab.lab.trial import Outcome, Trial, TrialContext

Message = dict[str, Any]
Send = Callable[[Message, bytes], None]
OOM_SCORE = "500"  # the kernel should end a worker before the driver or anybody's editor


def main() -> None:
    """Serve the driver at the other end of two pipes."""
    read, write = int(sys.argv[1]), int(sys.argv[2])
    for handle in (read, write):
        os.set_inheritable(handle, False)  # a study's own subprocesses must not hold them open
    faulthandler.enable()  # a segfault leaves its Python stack in the log
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(read, inbox), daemon=True).start()
    with os.fdopen(write, "wb", closefd=False) as pipe:

        def send(message: Message, blob: bytes = b"") -> None:
            pipe.write(pack(message, blob))
            pipe.flush()

        _serve(inbox, send)


def _listen(read: int, inbox: "queue.SimpleQueue[Message]") -> None:
    """Pass orders on; when the driver is gone, however it went, so is this process group."""
    unpacker = Unpacker()
    while data := os.read(read, 1 << 16):
        for message, _ in unpacker.feed(data):
            inbox.put(message)
    end_process_group()


def _serve(inbox: "queue.SimpleQueue[Message]", send: Send) -> None:
    order = inbox.get()
    try:
        kind = load_study_class(Source(**order["source"]))
        study = kind(build(kind.Settings, order["settings"]))
    except AttnlabError as error:
        send({"unfit": str(error)}, b"")
        return
    if limit := order["memory_bytes"]:  # 0 for a GPU, whose driver reserves far more
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    scratch = Path(order["scratch"]) / str(os.getpid())
    device, checkpoints = order["device"], Path(order["checkpoints"])
    send({"ready": True}, b"")
    while True:
        order = inbox.get()
        trial = Trial(study.name, study.version, order["config"], order["seed"])
        _clear(scratch)
        message, blob = attempt(study, trial, TrialContext(device, scratch, checkpoints / trial.id))
        _clear(scratch)
        send(message, blob)


def _clear(folder: Path) -> None:
    """Leave an empty folder; making and removing it each time would take milliseconds."""
    try:
        with os.scandir(folder) as entries:
            clean = not any(entries)
    except FileNotFoundError:
        clean = False
    if not clean:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)


def attempt(
    study: Study, trial: Trial, context: TrialContext, passing: tuple[type[Exception], ...] = ()
) -> tuple[Message, bytes]:
    """Run one trial: its outcome or what went wrong, as a message, and its arrays as bytes.

    Exceptions in `passing` are not the trial's fault and go on to the caller.
    """
    with contextlib.suppress(OSError):  # Linux: start the high-water mark anew
        Path("/proc/self/clear_refs").write_text("5")
    started, used = time.perf_counter(), time.process_time()
    message: Message
    try:
        outcome = study.run(trial, context)
        message, blob = _message_of(outcome)
    except passing:
        raise
    except BaseException as error:  # sys.exit in a study is its failure, not ours
        state = "oom" if _is_out_of_memory(error) else "failed"
        message, blob = {"state": state, "error": tail(_traceback_text(error)), "cost": {}}, b""
    peak = peak_bytes() or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS: in bytes
    measured = {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - used,
        "peak_memory_mb": peak / (1 << 20),
    }
    message["cost"] = {**measured, **message["cost"]}
    return message, blob


def _message_of(outcome: object) -> tuple[Message, bytes]:
    """An outcome as a message; a number that is not finite becomes null with a reason."""
    if not isinstance(outcome, Outcome):
        raise TypeError(f"run must return an Outcome, got {type(outcome).__name__}")
    metrics, reasons = {}, {str(name): str(why) for name, why in outcome.reasons.items()}
    diverged = False
    for name, value in outcome.metrics.items():
        plain = _as_scalar(name, value)
        if isinstance(plain, float) and not math.isfinite(plain):
            diverged = True
            plain, reasons[name] = None, reasons.get(name, f"not finite: {plain}")
        metrics[str(name)] = plain
    message: Message = {
        "state": "diverged" if diverged else "done",
        "metrics": metrics,
        "reasons": reasons,
        "curves": {str(key): [float(v) for v in values] for key, values in outcome.curves.items()},
        "samples": [str(text) for text in outcome.samples],
        "documents": {str(name): str(text) for name, text in outcome.documents.items()},
        "findings": [stored_finding(finding) for finding in outcome.findings],
        "cost": {name: float(v) for name, v in outcome.cost.items() if math.isfinite(v)},
    }
    return message, encode_arrays(outcome.arrays) if outcome.arrays else b""


def _as_scalar(name: str, value: Any) -> float | int | str | bool | None:
    """A Python scalar out of whatever torch or numpy gave."""
    plain = value.item() if hasattr(value, "item") else value
    if plain is None or isinstance(plain, str | bool | int | float):
        return plain
    raise TypeError(f"metric {name!r} must be a number, a text or None, got {type(plain).__name__}")


def _is_out_of_memory(error: BaseException) -> bool:
    """Python's, numpy's, torch's on the CPU, torch's on a GPU."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))
    )


def _traceback_text(error: BaseException) -> str:
    """The traceback without our own first frame."""
    inner = error.__traceback__.tb_next if error.__traceback__ else None
    return "".join(traceback.format_exception(type(error), error, inner))


if __name__ == "__main__":
    main()
