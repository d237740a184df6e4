import errno
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnlab.core.errors import IntegrityError, RunInUseError, StorageError, UsageError
from attnlab.lab.plan import Plan
from attnlab.lab.record import Record
from attnlab.lab.runs import find_run, list_runs, remove_run
from attnlab.lab.source import read_source
from attnlab.lab.trial import Outcome
from attnlab.lab.verify import verify_run

from .conftest import HERE, TINY, Processes, run_tiny, tiny


def new_record(out: Path, **values: object) -> Record:
    return Record.create_or_open(out, Plan.of(tiny(**values), read_source(str(TINY))))


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    record = new_record(tmp_path)
    trial = tiny().trial(2**63 - 1, kind="ok", note="ü", nested={"a": [1, 2.5, None]})
    outcome = Outcome(
        metrics={"a": 0.1, "b": None, "c": "é", "d": True, "e": 10**15},
        reasons={"b": "no such number"},
        arrays={
            "w": np.arange(6.0).reshape(2, 3).T,
            "n": np.array(3),
            "f": np.array([1.5], np.float32),
        },
        curves={"loss": [1.0, float("nan"), 0.25]},
        samples=["one", "zwei\n"],
        documents={"spec": "drei ü"},
    )
    with record.lock():
        record.add(trial, "done", outcome, cost={"seconds": 1.5})
        record.add(tiny().trial(1), "failed", error="Traceback: \ud800 odd")
        record.seal()
    failed, row = sorted(Record.open(record.path).table(), key=lambda r: r.state != "failed")
    assert (row.seed, row.state, row.config) == (trial.seed, "done", trial.config)
    assert row.metrics == outcome.metrics and row.reasons == outcome.reasons
    assert {k: type(v) for k, v in row.metrics.items()}["d"] is bool
    assert row.cost == {"seconds": 1.5} and failed.error == "Traceback: ? odd"
    for name, array in outcome.arrays.items():
        assert np.array_equal(row.arrays[name], array) and row.arrays[name].dtype == array.dtype
    assert row.curves["loss"][0] == 1.0 and np.isnan(row.curves["loss"][1])
    assert row.samples == outcome.samples and row.documents == outcome.documents
    assert failed.arrays == failed.curves == failed.documents == {} and failed.samples == []
    assert record.verify().ok and record.complete


def test_digest_leaves_out_times_and_machines(tmp_path: Path) -> None:
    one, two = new_record(tmp_path / "a"), new_record(tmp_path / "b")
    for record, seconds in ((one, 1.0), (two, 2.0)):
        with record.lock():
            record.add(tiny().trial(0), "done", Outcome({"x": 1.0}), cost={"seconds": seconds})
    assert one.digest() == two.digest()
    with two.lock():
        two.add(tiny().trial(1), "done", Outcome({"x": 1.0}))
    assert one.digest() != two.digest()
    other = new_record(tmp_path / "c")
    with other.lock():
        other.add(tiny().trial(0), "done", Outcome({"x": np.nextafter(1.0, 2.0).item()}))
    assert one.digest() != other.digest()


def test_finished_rows_stay_and_others_are_replaced(tmp_path: Path) -> None:
    record = new_record(tmp_path)
    first, second = tiny().trial(0), tiny().trial(1)
    with record.lock():
        record.add(first, "done", Outcome({"x": 1.0}))
        record.add(second, "crashed", error="SIGSEGV")
        assert record.pending and record.finished_ids() == {first.id} and not record.pending
        record.add(first, "failed", error="too late")
        record.add(second, "done", Outcome({"x": 2.0}))
    assert [row.state for row in record.table()] == ["done", "done"]
    assert record.table().where(x=1.0).ids == (first.id,)
    assert record.verify().ok


def test_commits_are_grouped(tmp_path: Path) -> None:
    record = new_record(tmp_path)
    with record.lock():
        for seed in range(49):
            record.add(tiny().trial(seed), "done", Outcome({}))
            record._pending_since = time.monotonic()  # pyright: ignore[reportPrivateUsage]
        assert record.pending == 49
        record.add(tiny().trial(49), "done", Outcome({}))
        assert record.pending == 0
        record.add(tiny().trial(50), "done", Outcome({}))
        time.sleep(0.25)
        record.flush_if_due()
        assert record.pending == 0


def test_nothing_changes_outside_the_lock(tmp_path: Path) -> None:
    record = new_record(tmp_path)
    with pytest.raises(RuntimeError, match="lock"):
        record.write_results({})


def test_stored_settings_say_no_paths_and_no_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "canary-7f3a")
    record = run_tiny(tmp_path, trials=1, bad=["exception"])
    held = b"".join(p.read_bytes() for p in record.path.rglob("*") if p.is_file())
    assert b"canary-7f3a" not in held and str(HERE).encode() not in held
    assert str(Path.home()).encode() not in held and os.fsencode(tmp_path) not in held
    (session,) = record.sessions()
    assert session["threads"] == 1 and session["device"] == "cpu" and session["numpy"]


def test_results_are_checked_when_read(finished: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished, tmp_path / "copy")
    assert Record.open(folder).read_results()["answer"] == "42"
    (folder / "results.json").write_text('{"answer": "43"}')
    with pytest.raises(IntegrityError, match=r"results\.json"):
        Record.open(folder).read_results()
    with pytest.raises(IntegrityError, match="damaged"), Record.open(folder).lock():
        record = Record.open(folder)
        record._owned = True  # pyright: ignore[reportPrivateUsage]
        record.write_file("figures/one.pdf", b"%PDF")


def test_adding_a_file_reseals(finished: Path, tmp_path: Path) -> None:
    record = Record.open(shutil.copytree(finished, tmp_path / "copy"))
    digest = record.digest()
    with record.lock():
        record.write_file("figures/one.pdf", b"%PDF")
        found = record.verify()
        assert found.ok and not found.complete, "a kill here leaves a run that verifies"
        record.seal()
    found = record.verify()
    assert found.ok and found.complete and found.digest == digest
    assert len(record.sessions()) == 3


def test_a_damaged_array_is_refused_when_read(finished: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished, tmp_path / "copy")
    path = next(folder.rglob("arrays.safetensors"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    row = next(r for r in Record.open(folder).table() if r.id == path.parent.name)
    with pytest.raises(IntegrityError, match="SHA-256"):
        _ = row.arrays


def test_two_owners(tmp_path: Path) -> None:
    record = new_record(tmp_path)
    started = time.monotonic()
    with (
        record.lock(),
        pytest.raises(RunInUseError, match=f"process {os.getpid()} on "),
        Record.open(record.path).lock(),
    ):
        pass
    assert time.monotonic() - started < 2
    with record.lock():
        assert (record.path / ".owner.json").exists()
    assert not (record.path / ".owner.json").exists()


def test_second_process_leaves_with_5_and_a_dead_owner_is_no_owner(
    tmp_path: Path, processes: Processes
) -> None:
    wish = '{"trials": 400, "sleep": 0.02}'
    first = processes.drive(tmp_path / "out", wish)
    assert first.stdout is not None
    assert first.stdout.readline().startswith("start")
    second = processes.drive(tmp_path / "out", wish)
    _, error = second.communicate(timeout=30)
    assert second.returncode == 5
    assert f"process {first.pid} on " in error and "Traceback" not in error
    first.kill()
    first.wait()
    third = processes.drive(tmp_path / "out", '{"trials": 400, "sleep": 0.02}')
    assert third.stdout is not None
    assert third.stdout.readline().startswith("start 400"), "free at once"


def test_leftovers_of_killed_writes_are_not_damage(finished: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished, tmp_path / "copy")
    (folder / ".partial-x1").write_text("half")
    (folder / "figures" / ".partial-x2").write_text("half")
    (folder / ".partial-scratch-1" / "a").mkdir(parents=True)
    assert Record.open(folder).verify().ok
    with Record.open(folder).lock():
        assert not list(folder.rglob(".partial-*"))


def test_a_newer_format_is_refused_untouched(finished: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished, tmp_path / finished.name)
    spec = json.loads((folder / "study.json").read_text())
    (folder / "study.json").write_text(json.dumps({**spec, "format": 3, "new": "field"}))
    (folder / ".partial-x").write_text("half")
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()}
    for touch in (lambda: run_tiny(tmp_path, trials=2), lambda: Record.open(folder)):
        with pytest.raises(IntegrityError, match="newer attnlab"):
            touch()
    assert any("newer attnlab" in problem for problem in verify_run(folder).problems)
    assert "newer attnlab" in list_runs(tmp_path)[0].problem
    after = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()}
    assert before == after


def test_runs_of_the_first_format_stay_readable(tmp_path: Path) -> None:
    """A run as version 0.1 wrote it: it must open, verify and give the same digest for ever."""
    folder = shutil.copytree(HERE / "data" / "tiny-format-1", tmp_path / "old")
    found = verify_run(folder)
    assert found.problems == () and found.complete
    assert found.digest == (HERE / "data" / "tiny-format-1.digest").read_text().strip()
    row = Record.open(folder).table().done().rows[0]
    assert row.arrays["square"].shape == (5, 5) and len(row.curves["sum"]) == 5


def test_runs_are_found_listed_and_removed(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "runs"
    with pytest.raises(UsageError, match="no runs"):
        find_run("tiny", out)
    first = out / finished.name
    shutil.copytree(finished, first)
    second = new_record(out, trials=7).path
    (out / "not-a-run").mkdir()
    assert find_run(str(first), tmp_path) == first
    assert find_run(first.name, out) == first == find_run(first.name[:-3], out)
    with pytest.raises(UsageError, match="beginning of 2 runs"):
        find_run("tiny", out)
    with pytest.raises(UsageError, match="did you mean"):
        find_run(first.name[:-2] + "zz", out)
    for hostile in ("../" + first.name, "/etc", "", "a\0b", "x" * 5000):
        with pytest.raises(UsageError):
            find_run(hostile, out)
    infos = {info.name: info for info in list_runs(out)}
    assert set(infos) == {first.name, second.name}
    done = infos[first.name]
    assert (done.study, done.scale, done.done, done.total) == ("tiny", "quick", 2, 2)
    assert done.complete and done.created and done.size > 1000 and not done.problem
    assert (infos[second.name].done, infos[second.name].complete) == (0, False)
    (second / "study.json").write_bytes(b"\xff")
    assert "unreadable" in {i.name: i.problem for i in list_runs(out)}[second.name]
    with Record.open(first).lock(), pytest.raises(RunInUseError):
        remove_run(first)
    remove_run(first)
    assert not first.exists() and not list(out.glob(".partial-*"))


@pytest.mark.parametrize("name", ["EMFILE", "EIO"])
def test_a_disk_that_cannot_be_read_is_not_called_damage(
    finished: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nobody would look for the limit of open files if the run were said to be damaged."""
    number, real = getattr(errno, name), Path.open

    def refusing(path: Path, *args: Any, **more: Any) -> Any:
        if path.parent.parent.name == "artefacts":
            raise OSError(number, os.strerror(number))
        return real(path, *args, **more)

    monkeypatch.setattr(Path, "open", refusing)
    with pytest.raises(StorageError, match=os.strerror(number)):
        verify_run(finished)


def test_a_report_that_is_cut_short_leaves_the_run_ended(finished: Path, tmp_path: Path) -> None:
    record = Record.open(shutil.copytree(finished, tmp_path / finished.name))
    with record.lock():
        record.begin(record.ended)
        record.write_file("report.html", b"<html>new</html>")  # and killed before the seal
    assert record.ended and not record.sealed and not record.complete
    found = verify_run(record.path)
    assert found.ok and not found.complete
    with record.lock():
        record.begin(record.ended)
        record.seal(record.ended)
    assert verify_run(record.path).complete
