"""Fetches in a process of its own, so that it can be killed.

drive.py CATALOGUE get NAME        prints the digest of the files
drive.py CATALOGUE hub NAME        prints the names of the files that a hub gives
drive.py CATALOGUE sweep NAME      kills itself at every step of a fetch in turn, and reports
"""

import hashlib
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from attnlab import assets
from attnlab.assets import archive, cache, catalogue, fetch, registry

STEPS = {
    "open",
    "os.rename",
    "os.mkdir",
    "os.remove",
    "os.rmdir",
    "os.link",
    "os.truncate",
    "fsync",
}
LONGEST = 500
LOADED = (archive, registry)  # before the steps are counted


def digest(name: str) -> str:
    found = hashlib.sha256()
    for file in assets.get(name).files:
        found.update(file.name.encode() + file.read_bytes())
    return found.hexdigest()


def child(work: Any) -> int:
    """Do it in a child; its exit code, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_at(step: int, name: str) -> None:
    """Fetch, and die in front of the given step."""
    seen, here = 0, str(cache.root())

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in STEPS and (event == "fsync" or str(arguments[0]).startswith(here)):
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)

    real = os.fsync

    def fsync(handle: int) -> None:
        count("fsync", ())
        real(handle)

    os.fsync = fsync
    sys.addaudithook(count)
    assets.get(name)


def whole_or_absent() -> None:
    for each in assets.listing():
        assert each.state in ("cached", "no"), each
        assert each.state == "no" or not assets.verify(each.entry.name)


def sweep(name: str) -> None:
    for step in range(1, LONGEST):
        shutil.rmtree(cache.root(), ignore_errors=True)
        code = child(lambda step=step: killed_at(step, name))
        whole_or_absent()
        if code == 0:
            print(step - 1)
            return
        assert code == -signal.SIGKILL, code
        assert child(lambda: digest(name)) == 0, f"cannot go on after step {step}"
        whole_or_absent()
        for each in assets.names():
            assets.remove(each)
        left = {path.name for path in cache.root().glob("*")} - {".locks", ".downloads"}
        assert not left and not list((cache.root() / ".downloads").iterdir()), step
    raise AssertionError("it never ends")


if __name__ == "__main__":
    text, command, name = sys.argv[1:]
    entries = catalogue.parse(Path(text).read_text(encoding="utf-8"))
    catalogue.catalogue = fetch.catalogue = lambda: entries
    if command == "get":
        print(digest(name))
    elif command == "hub":
        print(*(file.name for file in assets.get(name, source="hub").files))
    else:
        sweep(name)
