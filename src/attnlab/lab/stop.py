"""Ctrl-C and SIGTERM become a question the driver asks when it is ready to answer it."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from attnlab.core.errors import StoppedError

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """The first signal is remembered; a second one ends the process at once."""

    def __init__(self) -> None:
        self.signal_number = 0

    def note(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        if self.signal_number:
            os._exit(128 + number)  # workers see their pipe close and end too
        self.signal_number = number

    def raise_if_asked(self, message: str) -> None:
        """StoppedError when a signal came."""
        if self.signal_number:
            name = signal.Signals(self.signal_number).name
            raise StoppedError(self.signal_number, f"stopped by {name}: {message}")


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Handlers for the time of the block; only the main thread can have them."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.note) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
