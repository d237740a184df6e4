"""Ctrl-C and SIGTERM set a flag that the driver checks when it can stop cleanly."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from attnlab.core.errors import StoppedError

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHOW_CURSOR = b"\x1b[?25h\n"
ECHO_SECONDS = 0.1  # who passes a signal on does so at once; no person is as quick


class Stop:
    """The first signal is remembered; a second one ends the process at once.

    `timeout` and other starters signal the process and then its group: an echo is no second one.
    """

    def __init__(self) -> None:
        self.signal_number = 0
        self._came = 0.0

    def note(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        now, before = time.monotonic(), self._came
        self._came = now
        if number == self.signal_number and now - before < ECHO_SECONDS:
            return
        if self.signal_number:
            with suppress(OSError):
                if os.isatty(2):
                    os.write(2, SHOW_CURSOR)  # a progress bar has hidden it
            os._exit(128 + number)  # workers see their pipe close and end too
        self.signal_number = number

    def raise_if_asked(self, message: str) -> None:
        """StoppedError when a signal came."""
        if self.signal_number:
            name = signal.Signals(self.signal_number).name
            raise StoppedError(self.signal_number, f"stopped by {name}: {message}")


def end_process_group() -> None:
    """End this process at once, with all that it started if it leads a group of its own."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Handlers for the time of the block; only the main thread can have them."""
    stop = Stop()
    with restored_handlers(*SIGNALS, signal.SIGCHLD) as can_have_them:
        if can_have_them:
            for number in SIGNALS:
                signal.signal(number, stop.note)
            if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:  # left by who started us:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # it would hide how a worker ended
        yield stop


@contextmanager
def restored_handlers(*numbers: int) -> Iterator[bool]:
    """Put the handlers of these signals back after the block; False outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield False
        return
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield True
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
