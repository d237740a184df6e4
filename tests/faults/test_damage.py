"""One bit in every byte of a run, cut, swapped and missing files: all found, and no false alarm."""

import shutil
from itertools import combinations
from pathlib import Path

import pytest

from attnlab.lab.verify import verify_run
from tests.lab.small_run import small_run

from .conftest import Note

pytestmark = [pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(1800)]


@pytest.fixture
def run(room: Path) -> Path:
    return small_run(room / "out").path


def files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ".lock")


def test_one_bit_in_every_byte(run: Path, note: Note) -> None:
    tried = missed = 0
    for path in files(run):
        data = bytearray(path.read_bytes())
        for place in range(len(data)):
            data[place] ^= 1 << place % 8
            path.write_bytes(data)
            missed += verify_run(run).ok
            data[place] ^= 1 << place % 8
            tried += 1
        path.write_bytes(data)
    assert verify_run(run).ok and tried > 10_000
    note("one bit in every byte of a run", tried, tried - missed, missed)
    assert missed == 0


def test_cut_at_many_lengths_grown_and_missing(run: Path, note: Note) -> None:
    tried = missed = 0
    for path in files(run):
        data = path.read_bytes()
        lengths = {*range(0, len(data), max(1, len(data) // 50)), len(data) - 1}
        for damaged in (*(data[:n] for n in sorted(lengths)), data + b"\0", bytes(len(data))):
            path.write_bytes(damaged)
            missed += verify_run(run).ok
            tried += 1
        path.unlink()
        missed += verify_run(run).ok
        tried += 1
        path.write_bytes(data)
    assert verify_run(run).ok
    note("files cut, grown, zeroed, missing", tried, tried - missed, missed)
    assert missed == 0


def test_every_two_files_swapped(run: Path, note: Note) -> None:
    tried = missed = 0
    for one, other in combinations(files(run), 2):
        a, b = one.read_bytes(), other.read_bytes()
        if a == b:
            continue
        one.write_bytes(b)
        other.write_bytes(a)
        missed += verify_run(run).ok
        one.write_bytes(a)
        other.write_bytes(b)
        tried += 1
    assert tried > 20 and verify_run(run).ok
    note("two files swapped", tried, tried - missed, missed)
    assert missed == 0


def test_clean_runs_give_no_alarm(run: Path, room: Path, note: Note) -> None:
    alarms = 0
    for number in range(1000):
        copy = shutil.copytree(run, room / "copy")
        alarms += not verify_run(copy).ok
        shutil.rmtree(copy)
        assert number < 1000
    note("clean runs: false alarms", 1000, alarms)
    assert alarms == 0
