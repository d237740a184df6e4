"""Where a run was computed: versions, machine, threads, commit. No variables, no paths."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import attnlab

LIBRARIES = ("torch", "numpy", "scipy")
THREADS = 1  # torch threads of every worker: another number gives other bits


def session(device: str, source_sha256: str | None) -> dict[str, Any]:
    """One entry of env.json: who writes to this run from now on."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        **versions(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "device": device,
        "threads": THREADS,
        "commit": commit(Path(attnlab.__file__).parent),
        "source_sha256": source_sha256,
    }


def versions() -> dict[str, str | None]:
    """What must be the same wherever the trials of one run are computed."""
    libraries = {name: _version(name) for name in LIBRARIES}
    return {"attnlab": attnlab.__version__, "python": platform.python_version(), **libraries}


def commit(package: Path) -> str | None:
    """The commit of the source tree, '-dirty' when it has changes; None when installed."""
    root = package.parents[1]
    try:
        top = _git(root, "rev-parse", "--show-toplevel")
        if Path(top).resolve() != root.resolve():
            return None  # installed inside somebody else's repository
        number = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return number + ("-dirty" if changed else "")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)  # not by import: torch takes seconds
    except metadata.PackageNotFoundError:
        return None


def _cpu() -> str:
    if sys.platform == "linux":
        try:
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
        except OSError:
            pass
    return platform.processor() or platform.machine()
