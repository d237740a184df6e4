"""What the lab itself costs, beside joblib for the same work in the same run.

python benchmarks/engine.py [--json] [--trials 1000] [--only empty,second,ray,flat,store]

empty   10,000 empty trials on two workers, stored, each with its hash: seconds, target 60
second  --trials one-second trials on two workers: time / ideal, target 1.1
ray     the same on a Ray cluster of one machine; left out where Ray is not installed
flat    memory, descriptors and threads of the driver after 10,000 trials / after 1,000
store   a store of 100,000 trials: seconds to list it (target 1) and to report it (target 10)

joblib runs the same function in as many processes and stores nothing.
"""

import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
from common import Row, arguments, report
from engine_study import Empty, work
from joblib import Parallel, delayed  # noqa: TID251  (what is compared with; nothing is stored)

from attnlab.api.conclude import conclude
from attnlab.lab.execute import Silent, execute
from attnlab.lab.plan import Plan
from attnlab.lab.record import Record
from attnlab.lab.rows import stored_row
from attnlab.lab.run_spec import CSV, REPORT, TRIALS
from attnlab.lab.source import read_source
from attnlab.lab.store import StoreWriter
from attnlab.lab.trial import Outcome, Trial

WORKERS = 2
EMPTY, STORE = 10_000, 100_000
SOURCE = read_source(str(Path(__file__).with_name("engine_study.py")))
EVERY = 1000  # trials between two looks at the driver


class Watch(Silent):
    """Memory, descriptors and threads of this process after each thousand trials."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int]] = []
        self.count = 0

    def advance(self, trial: Trial, state: str) -> None:
        """Count; look."""
        self.count += 1
        if self.count % EVERY == 0:
            me = psutil.Process(os.getpid())
            self.seen.append((me.memory_info().rss, me.num_fds(), me.num_threads()))


def lab_seconds(out: Path, engine: str, watch: Silent | None = None, **settings: Any) -> float:
    """Time of a whole run: workers started, trials done, stored and sealed."""
    study, began = Empty.at("quick", **settings), time.perf_counter()
    record = execute(
        Plan.of(study, SOURCE), out=out, workers=WORKERS, engine=engine, progress=watch
    )
    took = time.perf_counter() - began
    assert len(record.finished_ids()) == settings["trials"]
    return took


def joblib_seconds(trials: int, sleep: float) -> float:
    """The same function as often, in as many processes, its pool started anew."""
    began = time.perf_counter()
    found = Parallel(n_jobs=WORKERS)(delayed(work)(seed, sleep) for seed in range(trials))
    took = time.perf_counter() - began
    assert len(list(found)) == trials
    return took


def empty_rows(out: Path, trials: int) -> Iterator[Row]:
    """10,000 empty trials."""
    ours, theirs = lab_seconds(out, "local", trials=EMPTY), joblib_seconds(EMPTY, 0.0)
    note = f"{EMPTY / ours:,.0f} trials a second, stored and hashed; joblib stores nothing"
    yield Row(f"{EMPTY:,} empty trials", ours, theirs, "s", theirs / ours, 60, note)


def second_rows(out: Path, trials: int, engine: str = "local") -> Iterator[Row]:
    """Time over the ideal one."""
    ideal = trials / WORKERS
    ours = lab_seconds(out / engine, engine, trials=trials, sleep=1.0) / ideal
    theirs = joblib_seconds(trials, 1.0) / ideal
    name = f"{trials:,} one-second trials on {WORKERS} workers, {engine}"
    yield Row(name, ours, theirs, "of the ideal time", theirs / ours, 1.1)


def ray_rows(out: Path, trials: int) -> Iterator[Row]:
    """The same through Ray, its start included."""
    if importlib.util.find_spec("ray") is None:
        print("ray: not installed, left out", file=sys.stderr)
        return
    yield from second_rows(out, trials, "ray")


def flat_rows(out: Path, trials: int) -> Iterator[Row]:
    """What grows with the number of trials."""
    watch = Watch()
    lab_seconds(out, "local", watch, trials=EMPTY)
    first, last = watch.seen[0], watch.seen[-1]
    for name, then, now in zip(("memory", "descriptors", "threads"), first, last, strict=True):
        note = f"{then:,} -> {now:,}"
        yield Row(f"{name}, trial {EVERY:,} to {EMPTY:,}", now / then, None, "x", None, 1.1, note)


def store_rows(out: Path, trials: int) -> Iterator[Row]:
    """A store of 100,000 trials through the commands a person types."""
    path = filled(out, STORE)
    before, _ = command_seconds("--version")
    for words, target in ((("runs", "--out", str(out)), 1.0), (("report", str(path)), 10.0)):
        took, computed = command_seconds(*words)
        note = f"{computed:.2f} s of computing; any command takes {before:.2f} s to start"
        yield Row(f"attnlab {words[0]}, {STORE:,} trials", took, None, "s", None, target, note)
    size = sum(file.stat().st_size for file in (path / REPORT, path / CSV))
    yield Row(f"{REPORT} and {CSV}", size / 1e6, None, "MB", None, None)


def filled(out: Path, trials: int) -> Path:
    """A finished run of that many trials with its report."""
    study = Empty.at("quick", trials=trials)
    record = Record.create_or_open(out, Plan.of(study, SOURCE))
    with record.lock():
        record.begin()
        with closing(StoreWriter(record.path / TRIALS)) as writer:  # in one commit, not in 2,000
            writer.put(
                stored_row(trial, "done", Outcome(work(trial.seed, 0.0)), {}, {"seconds": 0.01}, "")
                for trial in study.trials()
            )
        conclude(record, study)
        record.write_file(REPORT, b"")  # so that it is written again
        record.seal()
    return record.path


def command_seconds(*words: str) -> tuple[float, float]:
    """One call of attnlab in a process of its own: by the clock, and of a processor."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "attnlab", *words], check=True, stdout=subprocess.DEVNULL)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


PARTS: dict[str, Callable[[Path, int], Iterator[Row]]] = {
    "empty": empty_rows,
    "second": second_rows,
    "ray": ray_rows,
    "flat": flat_rows,
    "store": store_rows,
}


def main() -> None:
    """Measure what was asked for."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--trials", type=int, default=1000, help="one-second trials")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, by comma")
    chosen = parser.parse_args()
    asked = chosen.only.split(",")
    if unknown := [part for part in asked if part not in PARTS]:
        parser.error(f"--only: no part {', '.join(map(repr, unknown))}; known: {', '.join(PARTS)}")
    rows: list[Row] = []
    for part in asked:
        with tempfile.TemporaryDirectory() as folder:
            rows += PARTS[part](Path(folder), chosen.trials)
    report(rows, chosen.json)


if __name__ == "__main__":
    main()
