"""What the lab's tests share: the tiny study, runs of it, and a way to see processes left over."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from attnlab.lab.execute import execute
from attnlab.lab.plan import Plan
from attnlab.lab.record import Record
from attnlab.lab.source import load_study_class
from attnlab.lab.study import Study

HERE = Path(__file__).parent
TINY = HERE / "tiny_study.py"


def tiny(**settings: Any) -> Study:
    return load_study_class(str(TINY)).at("quick", **settings)


def run_tiny(out: Path, workers: int = 1, **settings: Any) -> Record:
    return execute(Plan.of(tiny(**settings), str(TINY)), out=out, workers=workers)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed run of two trials with results and a figure: copy it, do not change it."""
    record = run_tiny(tmp_path_factory.mktemp("finished"), trials=2)
    with record.lock():
        record.write_results({"claims": [], "answer": "42"})
        record.write_file("figures/one.svg", b"<svg/>")
        record.write_file("report.html", b"<html></html>")
        record.seal()
    return record.path


class Processes:
    """Driver processes of one test, recognisable by a mark in their environment."""

    def __init__(self, folder: Path) -> None:
        self.mark = uuid.uuid4().hex
        self.counter = folder / "counter"
        self.started: list[subprocess.Popen[str]] = []

    def drive(self, out: Path, settings: str, workers: int = 2) -> "subprocess.Popen[str]":
        environment = {**os.environ, "TINY_MARK": self.mark, "TINY_COUNTER": str(self.counter)}
        process = subprocess.Popen(
            [sys.executable, str(HERE / "drive.py"), str(out), settings, str(workers)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def executions(self) -> list[str]:
        return self.counter.read_text().split() if self.counter.exists() else []

    def left_over(self) -> list[int]:
        found = []
        for process in psutil.process_iter():
            try:
                if (
                    process.environ().get("TINY_MARK") == self.mark
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(process.pid)
            except psutil.Error:
                continue
        return found

    def all_gone(self, seconds: float = 5.0) -> bool:
        end = time.monotonic() + seconds
        while self.left_over():
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    found = Processes(tmp_path)
    yield found
    for process in found.started:
        process.kill()
        process.communicate()
