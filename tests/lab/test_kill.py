"""The proofs: kill -9 at random instants, Ctrl-C, SIGTERM; nothing lost, nothing run twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from attnlab.core.errors import StoppedError, exit_code_of
from attnlab.lab import stop as stop_module
from attnlab.lab.engine import process
from attnlab.lab.execute import Silent, execute
from attnlab.lab.plan import Plan
from attnlab.lab.record import Record
from attnlab.lab.runs import list_runs
from attnlab.lab.stop import stop_on_signals

from .conftest import TINY, Processes, run_tiny, tiny

SEED = 31
SLEEP = 0.03  # seconds of a trial: long enough for kills to fall between them


def record_in(out: Path) -> Record | None:
    found = list(out.glob("tiny-*"))
    return Record.open(found[0]) if found else None


def wish(trials: int) -> str:
    return json.dumps({"trials": trials, "sleep": SLEEP})


def kill_once(processes: Processes, out: Path, wished: str, most: int, rng: random.Random) -> None:
    """SIGKILL the driver's whole group, three times in four after up to `most` trials more."""
    driver = processes.drive(out, wished)
    assert driver.stdout is not None
    if rng.random() < 3 / 4:
        for _ in range(rng.randrange(1, most)):
            driver.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.05))
    else:
        time.sleep(rng.uniform(0.1, 0.6))
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def kill_until_done(processes: Processes, out: Path, kills: int, trials: int) -> int:
    """How many of the kills fell into the middle of the sweep."""
    reference = run_tiny(out / "reference", workers=2, trials=trials, sleep=SLEEP).digest()
    rng = random.Random(SEED)
    interrupted, checks = 0, []
    most = max(2, trials // kills)  # so that the sweep lasts until the last of them
    for number in range(kills):
        kill_once(processes, out / "run", wish(trials), most, rng)
        assert processes.all_gone(), f"kill {number} of seed {SEED} left workers behind"
        record = record_in(out / "run")
        if record is None:
            continue
        found = record.verify()
        assert found.ok, f"kill {number} of seed {SEED}: {found.problems}"
        stored, before = record.finished_ids(), Counter(processes.executions())
        interrupted += 0 < len(stored) < trials
        checks.append((stored, before))
    last = processes.drive(out / "run", wish(trials))
    said, error = last.communicate(timeout=120)
    assert last.returncode == 0, error
    assert said.split()[-1] == reference
    assert Counter(processes.executions()).keys() == {*record_ids(out / "run")}
    assert interrupted >= kills // 3, "the kills must fall into the middle to prove anything"
    after = Counter(processes.executions())
    for stored, before in checks:
        again = [trial for trial in stored if after[trial] != before[trial]]
        assert not again, f"stored trials ran again: {again[:3]}"
    return interrupted


def record_ids(out: Path) -> tuple[str, ...]:
    record = record_in(out)
    assert record is not None
    return record.table().ids


def test_eight_kills_lose_nothing(tmp_path: Path, processes: Processes) -> None:
    kill_until_done(processes, tmp_path, kills=8, trials=150)


@pytest.mark.slow
def test_thirty_kills_lose_nothing(tmp_path: Path, processes: Processes) -> None:
    kill_until_done(processes, tmp_path, kills=30, trials=1500)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run_tiny(tmp_path_factory.mktemp("undisturbed"), 2, trials=80, sleep=0.02).digest()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_cleanly_and_the_rest_follows(
    tmp_path: Path, processes: Processes, undisturbed: str, number: signal.Signals, code: int
) -> None:
    asked = json.dumps({"trials": 80, "sleep": 0.02})
    driver = processes.drive(tmp_path / "run", asked)
    assert driver.stdout is not None
    for _ in range(5):
        driver.stdout.readline()
    sent = time.monotonic()
    driver.send_signal(number)
    said, error = driver.communicate(timeout=20)
    assert time.monotonic() - sent < 10
    assert driver.returncode == code, error
    assert number.name in error and "Traceback" not in error and "stop" in said
    assert processes.all_gone()
    record = record_in(tmp_path / "run")
    assert record is not None
    stored, found = record.finished_ids(), record.verify()
    assert found.ok and not found.complete and 4 <= len(stored) < 80
    assert not list(record.path.glob(".partial-*")) and not (record.path / ".owner.json").exists()
    before = Counter(processes.executions())
    after = processes.drive(tmp_path / "run", asked)
    said, error = after.communicate(timeout=60)
    assert after.returncode == 0, error
    assert said.split()[-1] == undisturbed
    assert all(Counter(processes.executions())[trial] == before[trial] for trial in stored)


def test_a_hanging_trial_does_not_hold_up_a_signal(tmp_path: Path, processes: Processes) -> None:
    driver = processes.drive(tmp_path / "run", '{"trials": 1, "bad": ["loop", "exception"]}')
    assert driver.stdout is not None
    driver.stdout.readline()
    time.sleep(1.0)
    driver.send_signal(signal.SIGTERM)
    driver.communicate(timeout=10)
    assert driver.returncode == 143 and processes.all_gone()


def test_a_driver_that_dies_while_a_worker_loops(tmp_path: Path, processes: Processes) -> None:
    driver = processes.drive(tmp_path / "run", '{"trials": 1, "bad": ["loop"]}')
    assert driver.stdout is not None
    driver.stdout.readline()
    deadline = time.monotonic() + 20
    while len(processes.executions()) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(processes.left_over()) == 3, "the driver and two workers"
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    assert processes.all_gone(2.0)


def test_only_one_of_many_starters_wins(tmp_path: Path, processes: Processes) -> None:
    asked = json.dumps({"trials": 150, "sleep": 0.02})
    rivals: list[subprocess.Popen[str]] = [
        processes.drive(tmp_path / "run", asked, workers=1) for _ in range(3)
    ]
    codes = []
    for rival in rivals:
        _, error = rival.communicate(timeout=120)
        codes.append(rival.returncode)
        assert "Traceback" not in error
    assert set(codes) == {0, 5}, "a late starter may find all done; none may run beside another"
    assert max(Counter(processes.executions()).values()) == 1
    assert not list((tmp_path / "run").glob(".partial-*"))


def test_a_second_signal_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    with stop_on_signals() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(StoppedError) as caught:
            stop.raise_if_asked("stored")
        assert exit_code_of(caught.value) == 130 and left == []
        os.kill(os.getpid(), signal.SIGTERM)
    assert left == [143]


def test_a_second_signal_gives_the_cursor_back(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[int, bytes]] = []
    monkeypatch.setattr(os, "_exit", lambda _: None)
    monkeypatch.setattr(os, "isatty", lambda handle: handle == 2)
    monkeypatch.setattr(os, "write", lambda *what: written.append(what))
    stop = stop_module.Stop()
    stop.note(signal.SIGINT, None)
    assert written == []
    stop.note(signal.SIGTERM, None)
    assert written == [(2, stop_module.SHOW_CURSOR)]


def test_an_echo_of_a_signal_is_no_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    with stop_on_signals() as stop:
        for _ in range(3):  # as `timeout` does: to the process, then to its group
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal_number == signal.SIGTERM and left == []
        monkeypatch.setattr(stop_module, "ECHO_SECONDS", 0.0)
        os.kill(os.getpid(), signal.SIGTERM)
    assert left == [143]


def test_a_signal_after_the_last_trial_is_not_lost(tmp_path: Path) -> None:
    class Late(Silent):
        def stop(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(StoppedError) as caught:
        execute(Plan.of(tiny(trials=3), str(TINY)), out=tmp_path, progress=Late())
    assert exit_code_of(caught.value) == 143
    record = record_in(tmp_path)
    assert record is not None and record.sealed and not record.complete
    assert len(record.finished_ids()) == 3 and record.verify().ok


def test_a_worker_is_missed_though_its_child_holds_the_pipe(
    tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINY_MARK", processes.mark)
    record = run_tiny(tmp_path / "run", 2, trials=5, bad=["orphan"], trial_seconds=60.0)
    (bad,) = (row for row in record.table() if row.config["kind"] == "orphan")
    assert bad.state == "crashed" and "SIGKILL, 3 of 3" in bad.error, "not a timeout"
    assert len(record.table().done()) == 5 and processes.all_gone()


def test_a_trial_that_prints_without_end_fills_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LOG_MOST", 100_003)
    record = run_tiny(tmp_path, trials=2, bad=["chatter"], trial_seconds=60.0)
    (bad,) = (row for row in record.table() if row.config["kind"] == "chatter")
    assert bad.state == "crashed" and bad.error.endswith("last words"), bad.error[-300:]


def test_a_starter_that_ignores_its_children_does_not_matter(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        record = run_tiny(tmp_path, 2, trials=3, bad=["vanish"])
        assert signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert sorted(row.state for row in record.table()) == ["crashed", "done", "done", "done"]


HALF_A_COMMIT = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 1")  # so that pages are written before the commit
db.execute("BEGIN IMMEDIATE")
for row in range(307):
    db.execute("INSERT INTO tally VALUES (?, 0, ?)", ("x" * 503, str(row)))
db.execute("DELETE FROM trials")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_killed_in_a_commit_is_listed_as_it_was(tmp_path: Path) -> None:
    path = run_tiny(tmp_path, trials=7).path
    subprocess.run([sys.executable, "-c", HALF_A_COMMIT, str(path / "trials.db")])
    assert (path / "trials.db-journal").stat().st_size, "or nothing was left half done"
    (found,) = list_runs(tmp_path)
    assert (found.problem, found.done, found.total) == ("", 7, 7)
    assert Record.open(path).verify().ok


def test_what_ended_while_the_driver_was_stopped_is_no_timeout(
    tmp_path: Path, processes: Processes
) -> None:
    asked = json.dumps({"trials": 2, "sleep": 0.7, "trial_seconds": 3.0})
    driver = processes.drive(tmp_path / "run", asked)
    assert driver.stdout is not None
    driver.stdout.readline()
    while len(processes.executions()) < 2:
        time.sleep(0.05)
    driver.send_signal(signal.SIGSTOP)  # Ctrl-Z; the workers go on
    time.sleep(3.5)
    driver.send_signal(signal.SIGCONT)
    said, error = driver.communicate(timeout=60)
    assert driver.returncode == 0, error
    assert said.count(" done") == 2 and "timeout" not in said
