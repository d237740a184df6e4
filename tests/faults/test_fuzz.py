"""Malformed settings and command lines: never a traceback, a documented exit code, two seconds.

500 in this process and 20 as processes of their own in the fast suite; 20,000 and 500 with the
faults. Derandomised: the same examples every time.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from attnlab.studies import study_names
from tests.cli.conftest import Said, call
from tests.cli.conftest import here as here  # a fixture
from tests.cli.test_commands import COMMANDS
from tests.cli.test_fuzz import DOCUMENTED, TEXT, WORDS
from tests.cli.test_fuzz import stubs as stubs  # a fixture

from .conftest import Note

heavy = [pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(3600)]
SECONDS = 2.0
PLANNING = 20.0  # of up to 200,000 trials
# what would compute for long if all else were right is given one thing that is not
SPOILT = {
    "train": ["--size", "no-such-size"],
    "finetune": ["--method", "no-such-method"],
    "run": ["--dry-run"],
    "assets get": ["--source", "no-such-source"],
}
VALUE = st.sampled_from([w for w in WORDS if w != "phase-transition"]) | TEXT
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from([0, -1, 1, 7, 0.5, 1e300, 10**40, "", "cpu", "smoke"])
)
NESTED = st.recursive(
    SCALAR,
    lambda i: st.lists(i, max_size=4) | st.dictionaries(st.text(max_size=5), i, max_size=3),
    max_leaves=7,
)
CHECKS = (
    HealthCheck.too_slow,
    HealthCheck.filter_too_much,
    HealthCheck.data_too_large,
    HealthCheck.large_base_example,
    HealthCheck.function_scoped_fixture,
)


@st.composite
def argvs(draw: st.DrawFn) -> list[str]:
    """Any options of any command, with any values, in any order."""
    name = draw(st.sampled_from(sorted(COMMANDS)))
    options = [w for w in COMMANDS[name].split() if w.startswith("--") and w != "--help"]
    argv = name.split()
    for _ in range(draw(st.integers(0, 5))):
        option = st.sampled_from(options) if options else st.just("--json")
        argv += draw(
            st.one_of(
                VALUE.map(lambda v: [v]),
                option.map(lambda o: [o]),
                st.tuples(option, VALUE).map(list),
            )
        )
    return argv + SPOILT.get(name, [])


@st.composite
def configs(draw: st.DrawFn) -> tuple[str, bytes]:
    """A study, and a file of settings: noise, or its own names with values of any kind."""
    from attnlab.lab.source import load_study_class

    study = draw(st.sampled_from([name for name in study_names() if name not in ("train",)]))
    if draw(st.integers(0, 4)) == 0:
        return study, draw(st.binary(max_size=200) | st.text(max_size=200).map(_utf8))
    fields = sorted(load_study_class(study).Settings.model_fields)
    names = st.sampled_from(fields) | st.text(min_size=1, max_size=9)
    chosen = draw(st.dictionaries(names, NESTED, min_size=1, max_size=5))
    lines = [f"{_toml(key)} = {_toml(value)}" for key, value in chosen.items()]
    if draw(st.integers(0, 5)) == 0:
        lines.insert(0, draw(st.sampled_from(["[", "[a]", "x = ", "\0", "a.b.c = 1", '"""'])))
    return study, _utf8("\n".join(lines))


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace")


def _toml(value: Any) -> str:
    import json

    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return "nil" if value is None else json.dumps(value)


def fuzz(examples: int, what: st.SearchStrategy[Any], check: Callable[[Any], None]) -> int:
    """So many examples, the same every time; how many there were."""
    count = 0

    @settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=CHECKS,
        phases=[Phase.generate],
    )
    @given(what)
    def each(example: Any) -> None:
        nonlocal count
        count += 1
        check(example)

    each()
    return count


def judged(said: Said, example: Any, seconds: float = 0.0) -> None:
    assert said.code in DOCUMENTED, (example, said)
    assert "Traceback" not in said.err and "internal error" not in said.err, (example, said)
    assert len(said.err.splitlines()) <= 10, (example, said)
    assert said.code == 0 or said.err.startswith("attnlab: "), (example, said)
    # trials are planned before they are too many, or may be run: that takes longer (docs, Open)
    planned = said.code == 0 or "declares more than" in said.err
    assert seconds < (PLANNING if planned else SECONDS), f"{seconds:.1f} s: {example}"


def in_process(examples: int, folder: Path) -> int:
    config = folder / "settings.toml"

    def command(argv: list[str]) -> None:
        loaded, began = len(sys.modules), time.process_time()
        said = call(*argv)
        late = len(sys.modules) > loaded  # torch is loaded by whoever needs it first
        judged(said, argv, 0.0 if late else time.process_time() - began)

    def settings_file(example: tuple[str, bytes]) -> None:
        study, data = example
        config.write_bytes(data)
        command(["run", study, "--config", str(config), "--dry-run", "--scale", "smoke"])

    return fuzz(examples // 2, argvs(), command) + fuzz(examples // 2, configs(), settings_file)


def as_processes(examples: int, folder: Path) -> int:
    """A real `attnlab`, its own seconds of computing counted."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

    def run(argv: list[str]) -> None:
        words = [word.replace("\0", "") for word in argv]
        with subprocess.Popen(
            [sys.executable, "-m", "attnlab", *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            assert process.stderr is not None
            error = process.stderr.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        judged(Said(process.returncode, "", error), argv)
        SLOWEST.append((used.ru_utime + used.ru_stime, argv))

    return fuzz(examples, argvs(), run)


SLOWEST: list[tuple[float, list[str]]] = []


@pytest.fixture
def offline(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import typer

    from attnlab.cli import app

    # the same commands, made once: typer would make them anew for every line
    monkeypatch.setattr(app, "app", typer.main.get_command(app.app))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("ATTNLAB_CACHE", str(here / "cache"))
    return here


@pytest.mark.usefixtures("stubs")
@pytest.mark.parametrize("examples", [500, pytest.param(20_000, marks=heavy)])
def test_malformed_input_in_this_process(offline: Path, examples: int, note: Note) -> None:
    tried = in_process(examples, offline)
    assert tried > examples / 2
    note("malformed settings and command lines", tried, tried)


@pytest.mark.parametrize("examples", [20, pytest.param(500, marks=heavy)])
def test_malformed_input_to_a_process(offline: Path, examples: int, note: Note) -> None:
    SLOWEST.clear()
    tried = as_processes(examples, offline)
    slowest, argv = max(SLOWEST)
    assert tried > examples / 2
    note("the same as processes of their own", tried, tried)
    print(f"slowest: {slowest:.1f} s of computing, {argv}")
