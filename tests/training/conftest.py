"""Fixtures of the training tests."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

HERE = Path(__file__).parent


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder where fsync costs nothing: these tests kill processes, not machines."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir=memory, prefix="attnlab-train-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: small models are faster, and other processes must get the same bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def crash(*words: str) -> list[dict[str, Any]]:
    """Run crash.py and return the lines it prints; a traceback is a failure."""
    done = subprocess.run(
        [sys.executable, str(HERE / "crash.py"), *words],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
