"""What is kept of a log or a traceback: its end, without the folders of the machine it ran on."""

import re

LINES = 30
NOISE = "Extension modules:"  # the list faulthandler ends with is longer than all before it
FOLDERS = re.compile(r'File "[^"\n]*?((?:[^/"\n]+/)?[^/"\n]+)"')


def tail(text: str) -> str:
    """The last lines, each file named by its last two parts only."""
    said = [line for line in text.strip().splitlines() if not line.startswith(NOISE)]
    kept = said[-LINES:]
    return FOLDERS.sub(r'File "\1"', "\n".join(kept))
