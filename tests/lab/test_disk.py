import errno
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attnlab.core.errors import StorageError
from attnlab.lab.plan import Plan
from attnlab.lab.record import Record
from attnlab.lab.source import read_source
from attnlab.lab.store import StoreWriter, create_store
from attnlab.lab.trial import Outcome
from attnlab.lab.verify import verify_run

from .conftest import HERE, TINY, Processes, run_tiny, tiny
from .small_run import small_run


def new_record(out: Path) -> Record:
    return Record.create_or_open(out, Plan.of(tiny(), read_source(str(TINY))))


@pytest.mark.parametrize(
    ("call", "number"),
    [
        ("fsync", errno.ENOSPC),
        ("replace", errno.EIO),
        pytest.param("fsync", errno.EDQUOT, marks=pytest.mark.slow),
        pytest.param("replace", errno.EMFILE, marks=pytest.mark.slow),
    ],
)
def test_every_refused_write_is_a_clean_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    """Fail the Nth call, N = 1, 2, 3 ... until none is hit; each time the run verifies."""
    real = getattr(os, call)
    nth = 0
    for nth in range(1, 100):
        out = tmp_path / str(nth)
        left = [nth]

        def refusing(*args: object, left: list[int] = left, **more: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                raise OSError(number, os.strerror(number))
            return real(*args, **more)

        monkeypatch.setattr(os, call, refusing)
        try:
            small_run(out)
        except StorageError as error:
            assert os.strerror(number) in str(error) and str(tmp_path) in str(error)
        monkeypatch.setattr(os, call, real)
        for folder in out.glob("tiny-*"):
            assert Record.open(folder).verify().problems == ()
        small_run(out)
        assert Record.open(next(out.glob("tiny-*"))).verify().complete
        if left[0] > 0:
            break
    assert nth > 5


def test_a_full_disk_under_sqlite(tmp_path: Path) -> None:
    """A real limit on file size: SQLite cannot grow, what was committed stays."""
    code = f"""
import resource, sys
sys.path.insert(0, {str(HERE.parent)!r})
from pathlib import Path
from attnlab.core.errors import AttnlabError, exit_code_of
from attnlab.lab.plan import Plan
from attnlab.lab.record import Record
from attnlab.lab.source import load_study_class, read_source
from attnlab.lab.trial import Outcome
from attnlab.lab.verify import verify_run
source = read_source({str(TINY)!r})
study = load_study_class(source).at()
record = Record.create_or_open(Path({str(tmp_path)!r}), Plan.of(study, source))
try:
    with record.lock():
        record.add(study.trial(0), "done", Outcome({{"x": 1.0}}))
        record.flush()
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
        for seed in range(1, 2000):
            record.add(study.trial(seed), "done", Outcome({{"x": 1.0, "text": "y" * 200}}))
except AttnlabError as error:
    print(type(error).__name__, error)
    sys.exit(exit_code_of(error))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 4, done.stderr
    assert "StorageError" in done.stdout and "trials.db" in done.stdout
    record = Record.open(next(tmp_path.glob("tiny-*")))
    assert record.verify().ok and tiny().trial(0).id in record.finished_ids()
    before = len(record.table())
    with record.lock():
        record.add(tiny().trial(5000), "done", Outcome({"x": 1.0}))
        record.seal()
    assert len(record.table()) == before + 1 and record.verify().complete


def test_a_disk_that_fills_during_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: Processes
) -> None:
    """The driver stops with one error, its workers with it; with room again, the rest runs."""
    monkeypatch.setenv("TINY_MARK", processes.mark)
    real, left = os.fsync, [40]

    def filling(handle: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(os, "fsync", filling)
    with pytest.raises(StorageError, match="No space left"):
        run_tiny(tmp_path, workers=2, trials=20)
    assert processes.left_over() == [os.getpid()] or processes.all_gone()
    monkeypatch.setattr(os, "fsync", real)
    record = run_tiny(tmp_path, workers=2, trials=20)
    assert record.verify().complete and len(record.table().done()) == 20
    assert record.digest() == run_tiny(tmp_path / "other", trials=20).digest()


def test_an_output_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        new_record(tmp_path / "file" / "runs")
    with pytest.raises(StorageError, match=r"full|unable"):
        create_store(Path("/dev/full"), "x")
    with pytest.raises(StorageError, match="unable to open"):
        StoreWriter(tmp_path / "absent.db")
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


CALLS = ["write", "pwrite64", "fsync", "fdatasync", "rename", "unlink", "mkdir", "ftruncate"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("action", ["signal=SIGKILL", "error=ENOSPC"])
@pytest.mark.parametrize("call", CALLS)
def test_every_system_call_may_be_the_last(tmp_path: Path, call: str, action: str) -> None:
    """Kill, or fail, at the Nth call for every N: what is left verifies and can be finished."""
    digest = small_run(tmp_path / "undisturbed").digest()
    for nth in range(1, 300):
        out = tmp_path / str(nth)
        log = tmp_path / "strace.log"
        words = ["strace", "-o", str(log), "-e", f"inject={call}:{action}:when={nth}"]
        done = subprocess.run(
            [*words, sys.executable, "-B", str(HERE / "small_run.py"), str(out)],
            capture_output=True,
            text=True,
        )
        assert done.returncode in (0, 3, 4, -9, 137), done.stderr
        assert "Traceback" not in done.stderr, f"{call} {nth}: {done.stderr}"
        for folder in out.glob("tiny-*"):
            assert verify_run(folder).problems == (), f"{call} {nth}"
        record = small_run(out)
        assert record.digest() == digest and record.verify().complete, f"{call} {nth}"
        if done.returncode == 0 and "INJECTED" not in log.read_text():
            return
    raise AssertionError("more calls than expected: the loop never ended")
