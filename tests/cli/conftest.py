"""The real main(), in this process: argv in, exit code and both streams out."""

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from attnlab.cli import main

TINY = """
import os, signal
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Reported, judge
from attnlab.lab.study import Study, StudySettings
from attnlab.lab.trial import Outcome
from attnlab.measure.intervals import mean_interval


class PebbleSettings(StudySettings):
    size: int = 5
    bad: bool = False
    audit: str = "pass"


class Pebbles(Study):
    name = "pebbles"
    question = "Are pebbles round?"
    Settings = PebbleSettings

    def trials(self):
        return [self.trial(seed, size=self.settings.size) for seed in range(self.settings.seeds)]

    def run(self, trial, context):
        if self.settings.bad and trial.seed == 0:
            raise ValueError("a square pebble")
        rng = trial.stream.child("pebble").numpy_generator()
        return Outcome(metrics={"roundness": float(rng.normal(1, 0.01)), "none": None},
                       cost={"evaluations": 7}, reasons={"none": "nobody looked"})

    def claims(self, table):
        ours = mean_interval(table.column("roundness"))
        return [judge("round", "Pebbles are round", ours, above=0.9, below=1.1,
                      reported=Reported(0.97, "a book"), trials=table.ids),
                judge("square", "Pebbles are square", ours, above=2.0,
                      reported=Reported(3.0, "another book", comparable=False))]

    def audits(self, table, claims):
        return [Finding("light", self.settings.audit, 1.0, 2.0, "seen by day")]
"""


@dataclass(frozen=True)
class Said:
    """What a command left behind."""

    code: int
    out: str
    err: str


Call = Callable[..., Said]


def call(*argv: str) -> Said:
    """`attnlab ARGV` without a new process."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = None
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "argv", ["attnlab", *argv]):
        try:
            main()
        except SystemExit as left:
            code = left.code
    assert isinstance(code, int)
    return Said(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def attnlab() -> Call:
    return call


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder with a study in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pebbles.py").write_text(TINY, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, made once; do not write into it."""
    folder = tmp_path_factory.mktemp("stored")
    (folder / "pebbles.py").write_text(TINY, encoding="utf-8")
    done = call("run", f"{folder}/pebbles.py", "--out", f"{folder}/runs", "--device", "cpu")
    assert done.code == 0, done.err
    return Path(done.out.splitlines()[-1]).parent
