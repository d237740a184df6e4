"""Workers that cannot be started: said in one line, and nothing is left open."""

import errno
import os
import resource
import subprocess
from pathlib import Path

import psutil
import pytest

from attnlab.core.errors import StorageError, UsageError
from attnlab.lab.engine.process import WorkerProcess
from attnlab.lab.execute import execute
from attnlab.lab.plan import Plan

from .conftest import TINY, run_tiny, tiny


def test_more_workers_than_open_files_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64 + 3 * 2 + 1, 0))
    with pytest.raises(UsageError, match="71 open files are enough for 2"):
        run_tiny(tmp_path, workers=3, trials=5)
    monkeypatch.setattr("attnlab.lab.engine.local.default_workers", lambda _: 3)
    study = tiny(trials=5)
    record = execute(Plan.of(study, str(TINY)), out=tmp_path)  # nobody asked for three
    assert len(record.finished_ids()) == 5
    assert len(run_tiny(tmp_path / "few", workers=3, trials=2).finished_ids()) == 2


def test_a_worker_that_cannot_be_started_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    me = psutil.Process()
    before = me.num_fds()
    with pytest.raises(StorageError, match=r"no worker could be started: .*fewer workers"):
        WorkerProcess(tmp_path)
    assert me.num_fds() == before
