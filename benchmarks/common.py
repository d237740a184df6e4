"""What every benchmark prints: rows with a ratio measured in one run, and the machine."""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from attnlab import __version__


@dataclass(frozen=True)
class Row:
    """`ours` and `theirs` in `unit`; ratio = theirs / ours unless the unit is a share."""

    name: str
    ours: float
    theirs: float | None
    unit: str
    ratio: float | None
    target: float | None
    note: str = ""


def best_time(work: Callable[[], object], rounds: int) -> float:
    """Seconds of the fastest of several rounds, after one to warm up."""
    work()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def environment() -> dict[str, Any]:
    """The machine and versions the figures belong to."""
    return {
        "attnlab": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def arguments(description: str) -> argparse.ArgumentParser:
    """--json, as every benchmark has it."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    return parser


def report(rows: list[Row], as_json: bool) -> None:
    """One JSON document, or one line a row."""
    if as_json:
        print(json.dumps({"rows": [asdict(r) for r in rows], "env": environment()}, indent=1))
        return
    for r in rows:
        theirs = "" if r.theirs is None else f", theirs {r.theirs:.4g} {r.unit}"
        ratio = "" if r.ratio is None else f", ratio {r.ratio:,.4g}"
        target = "" if r.target is None else f" (target {r.target:,.4g})"
        print(f"{r.name}: ours {r.ours:.4g} {r.unit}{theirs}{ratio}{target}")
        if r.note:
            print(f"    {r.note}")
    print(environment())
