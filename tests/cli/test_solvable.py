"""attnlab theory and attnlab simulate: the documents they promise."""

import json
from pathlib import Path
from typing import Any

import pytest

POINT = ["alpha", "branch", "converged", "q", "m", "V", "theta", "train_error", "test_error"]
SIMULATED = {
    "m",
    "theta",
    "q",
    "train_error",
    "test_error",
    "evaluations",
    "gradient_max",
    "seconds",
}


def test_theory_points(attnlab: Any) -> None:
    argv = ("theory", "--alpha", "1.5", "--points", "256", "--branch", "semantic")
    (point,) = json.loads(attnlab(*argv, "--json").out)["points"]
    assert list(point)[: len(POINT)] == POINT
    assert (point["alpha"], point["branch"], point["converged"]) == (1.5, "semantic", True)
    assert point["theta"] > 0.1 and point["m"] == 0
    lines = attnlab(*argv).out.splitlines()
    assert lines[0].split() == POINT and len(lines) == 2


def test_critical_points(attnlab: Any) -> None:
    argv = ("theory", "--critical", "--points", "16", "--omega", "1")
    found = json.loads(attnlab(*argv, "--json").out)
    assert {"alpha_c", "alpha_l", "alpha_w"} <= set(found)
    missing = [name for name, value in found.items() if value is None]
    assert missing and set(missing) == set(found["reasons"])


def test_simulate(attnlab: Any) -> None:
    argv = (
        "simulate",
        "--dim",
        "31",
        "--alpha",
        "1.3",
        "--device",
        "cpu",
        "--seed",
        "7",
        "--set",
        "test_samples=101",
    )
    found = json.loads(attnlab(*argv, "--json").out)
    assert set(found) >= SIMULATED and found["reasons"] == {}
    assert found["gradient_max"] < 1e-5 and found["evaluations"] > 1
    again = json.loads(attnlab(*argv, "--json").out)
    assert {k: v for k, v in again.items() if k != "seconds"} == {
        k: v for k, v in found.items() if k != "seconds"
    }
    assert "theta" in attnlab(*argv, "--start", "positional").out


def test_simulate_on_stored_data(
    attnlab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ("simulate", "--device", "cpu", "--set", "test_samples=200", "--json")
    first = attnlab(*small, "--dim", "40", "--save", "d.npz")
    again = attnlab(*small, "--data", "d.npz")
    assert first.code == again.code == 0, first.err + again.err
    one, two = (json.loads(said.out) | {"seconds": 0} for said in (first, again))
    assert one == two
    other = attnlab(*small, "--data", "d.npz", "--dim", "41")
    assert other.code == 2 and "was made with dim = 40" in other.err
    assert attnlab(*small, "--data", "d.npz", "--save", "e.npz").code == 2
    Path("d.npz").write_bytes(Path("d.npz").read_bytes()[:-40])
    damaged = attnlab(*small, "--data", "d.npz")
    assert damaged.code == 3 and damaged.err.count("\n") == 1
