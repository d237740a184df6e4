"""Any argv of any command ends in a documented exit code and at most ten lines, never a traceback.

What would compute for long is replaced by a stub behind its own checks; parsing is the real one.
"""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnlab.solvable import phase, theory
from attnlab.solvable import results as answers

OPTIONS = {
    "run": [
        "--scale",
        "--set",
        "--config",
        "--seeds",
        "--workers",
        "--engine",
        "--device",
        "--out",
        "--json",
        "--quiet",
    ],
    "show": ["--scale", "--json"],
    "list": ["--json"],
    "runs": ["--out", "--remove", "--json"],
    "verify": ["--out", "--json"],
    "table": ["--out", "--csv", "--cost", "--json"],
    "report": ["--out"],
    "theory": [
        "--omega",
        "--alpha",
        "--branch",
        "--critical",
        "--sigma",
        "--ridge",
        "--points",
        "--json",
    ],
    "simulate": ["--dim", "--alpha", "--omega", "--start", "--seed", "--set", "--device", "--json"],
}
WORDS = [
    "",
    "0",
    "1",
    "-1",
    "7",
    "2.5",
    "1e300",
    "-0",
    "nan",
    "inf",
    "99999999999999999999",
    "0x11",
    "true",
    "null",
    "smoke",
    "quick",
    "both",
    "semantic",
    "cpu",
    "local",
    "phase-transition",
    "./pebbles.py",
    "pebbles",
    "runs",
    ".",
    "..",
    "/",
    "/dev/null",
    "~",
    "*",
    "--",
    "-",
    "-x",
    "--help",
    "seeds=7",
    "seeds=[7]",
    "sigma=nan",
    "dtype=float32",
    "mixing=[[1,0],[0,1]]",
    "=",
    "a=b",
    "{{7*7}}",
    "$(true)",
    "%s%n",
    "\x1b[31m",
    "α",
    "\u202e",
    "é" * 61,
    "x" * 997,
    "\n",
    "'",
]
# argv of a process holds no NUL; undecodable bytes arrive as lone surrogates
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=13)
VALUE = st.sampled_from(WORDS) | TEXT | TEXT.map("seeds={}".format) | st.just("\udcff\udc80")
DOCUMENTED = {0, 2, 3, 4, 5, 6}


@st.composite
def argvs(draw: st.DrawFn, command: str) -> list[str]:
    known = st.sampled_from(OPTIONS[command])
    argv = [command]
    for _ in range(draw(st.integers(0, 5))):
        argv += draw(
            st.one_of(
                VALUE.map(lambda v: [v]),
                st.tuples(known, VALUE).map(list),
                known.map(lambda o: [o]),
            )
        )
    return argv + (["--dry-run"] if command == "run" else [])


@pytest.fixture
def stubs(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing below computes for longer than it takes to say no."""
    names = ("alpha", "q", "m", "V", "theta", "train_error", "test_error")
    point = SimpleNamespace(**dict.fromkeys(names, float("nan")), branch="both", converged=False)
    crossing = SimpleNamespace(value=float("nan"), converged=False, reason="no crossing")
    lines = dict.fromkeys(("alpha_c", "alpha_l", "alpha_w"), crossing)
    monkeypatch.setattr(theory, "curve", lambda *_, **__: [point])
    monkeypatch.setattr(phase, "critical_alphas", lambda *_, **__: lines)
    monkeypatch.setattr(answers, "simulate_one", lambda *_: {"m": float("inf"), "theta": 0.5})


@pytest.mark.parametrize("command", OPTIONS)
@settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
@pytest.mark.usefixtures("stubs")
def test_any_argv(attnlab: Any, command: str, data: st.DataObject) -> None:
    argv = data.draw(argvs(command))
    said = attnlab(*argv)
    assert said.code in DOCUMENTED, said
    assert "Traceback" not in said.err and "internal error" not in said.err, said
    assert len(said.err.splitlines()) <= 10
    if said.code:
        assert said.err.startswith("attnlab: ")
        assert len(said.err.splitlines()) <= 3
    if said.code == 0 and "--json" in argv and "--help" not in argv and "Usage" not in said.out:
        json.loads(said.out) if said.out.startswith("{") else None


@pytest.mark.usefixtures("stubs")
def test_numbers_that_do_not_exist_are_null_with_a_reason(attnlab: Any) -> None:
    critical = json.loads(attnlab("theory", "--critical", "--json").out)
    assert critical["alpha_c"] is critical["alpha_l"] is critical["alpha_w"] is None
    assert critical["reasons"]["alpha_c"] == "no crossing"
    assert "alpha_c = –  (no crossing)" in attnlab("theory", "--critical").out
    (point,) = json.loads(attnlab("theory", "--alpha", "1", "--branch", "semantic", "--json").out)[
        "points"
    ]
    assert point["q"] is None and point["reason"]
    found = json.loads(attnlab("simulate", "--dim", "31", "--json").out)
    assert found["m"] is None and found["reasons"] == {
        "m": "not a finite number with these settings"
    }
