"""Bad input of every kind: one to three lines on stderr, a documented code, never a traceback."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from attnlab.solvable import results

DRY = ("run", "phase-transition", "--device", "cpu", "--dry-run")
BAD_USAGE = [
    (("frobnicate",), "Known commands: run, "),
    (("rnu",), "Did you mean 'run'"),
    (("--nope",), "--nope"),
    (("list", "more"), "extra argument"),
    (("list", "--jsn"), "--jsn"),
    (("run",), "Missing argument"),
    (("run", "phase-transitoin"), "did you mean 'phase-transition'"),
    (("run", "./none.py"), "No such file"),
    (("run", "/dev/zero"), "not a file"),
    (("run", "x" * 5003), "unknown study"),
    (("run", "x/" * 5003), "name too long"),
    (("show", "nope"), "unknown study 'nope'"),
    (("show", "phase-transition", "--scale", "smoek"), "did you mean 'smoke'"),
    ((*DRY, "--scale", "tiny"), "known: full, quick, smoke"),
    ((*DRY, "--engine", "lokal"), "did you mean 'local'"),
    ((*DRY, "--address", "auto"), "belongs to engine 'ray'"),
    ((*DRY, "--device", "tpu"), "unknown device 'tpu': did you mean 'cpu'"),
    ((*DRY, "--workers", "0"), "--workers"),
    ((*DRY, "--seeds", "0"), "'seeds'"),
    ((*DRY, "--seeds", "many"), "--seeds"),
    ((*DRY, "--seeds", "999999999999"), "more than 200,000 trials"),
    ((*DRY, "--set", "curve_dmi=61"), "did you mean 'curve_dim'"),
    ((*DRY, "--set", "curve_dim"), "key=value"),
    ((*DRY, "--set", "curve_dim=wide"), "'curve_dim'"),
    ((*DRY, "--set", "curve_dim=" + "9" * 5003), "'curve_dim'"),
    ((*DRY, "--set", "curve_dim=99999999999999999999"), "too large"),
    ((*DRY, "--set", "trial_memory_gb=1e308"), "too large"),
    ((*DRY, "--set", "sigma=nan"), "finite"),
    ((*DRY, "--set", "sigma=inf"), "finite"),
    ((*DRY, "--set", "sigma=1979-05-27"), "plain"),
    ((*DRY, "--set", "sigma=" + "[" * 100_003 + "]" * 100_003), "deep"),
    ((*DRY, "--set", "sigma={" + "a." * 60_013 + "a=1}"), "deep"),
    (("verify", "nope"), "no run 'nope'"),
    (("table", "nope"), "no run 'nope'"),
    (("report", "nope"), "no run 'nope'"),
    (("runs", "--remove", ".."), "no run '..'"),
    (("runs", "--remove", ""), "no run ''"),
    (("runs", "--out", "pebbles.py"), "not a folder"),
    (("theory",), "--alpha"),
    (("theory", "--alpha", "-1"), "α"),
    (("theory", "--alpha", "nan"), "α"),
    (("theory", "--alpha", "x"), "--alpha"),
    (("theory", "--alpha", "1", "--omega", "1.5"), "omega"),
    (("theory", "--alpha", "1", "--sigma", "1e300"), "--sigma"),
    (("theory", "--alpha", "1", "--ridge", "0"), "--ridge"),
    (("theory", "--alpha", "1", "--branch", "semantik"), "did you mean 'semantic'"),
    (("theory", "--alpha", "1", "--points", "100"), "power of two"),
    (("theory", "--alpha", "1", "--points", "99999999999999999999"), "points"),
    (("theory", "--alpha", "1", "--critical"), "--critical"),
    (("simulate", "--dim", "1"), "'dim'"),
    (("simulate", "--dim", "1000000000"), "GB are free"),
    (("simulate", "--dim", "99999999999999999999"), "GB are free"),
    (("simulate", "--dim", "2", "--alpha", "1e15"), "GB are free"),
    (("simulate", "--alpha", "1e308"), "cannot be computed"),
    (("simulate", "--alpha", "-1"), "'alpha'"),
    (("simulate", "--alpha", "nan"), "finite"),
    (("simulate", "--omega", "1.5"), "'omega'"),
    (("simulate", "--start", "semantik"), "did you mean 'semantic'"),
    (("simulate", "--start", "semantic-x"), "unknown start"),
    (("simulate", "--seed", "-1"), "--seed"),
    (("simulate", "--device", "tpu"), "did you mean 'cpu'"),
    (("simulate", "--set", "dim=7"), "use the option --dim instead"),
    (("train", "--text", "t.txt", "--set", "first_seed=5"), "use the option --seed instead"),
    (("train", "--text", "t.txt", "--set", "size=nano"), "use the option --size instead"),
    (("finetune", "--data", "d.csv", "--set", "seed=5"), "use the option --seed instead"),
    (("simulate", "--set", "sigm=1"), "did you mean 'sigma'"),
    (("simulate", "--set", "tolerance=-1"), "'tolerance'"),
    (("simulate", "--set", "test_samples=0"), "'test_samples'"),
    (("simulate", "--set", "student_rank=1000000000"), "GB are free"),
]


def refused(said: Any, code: int) -> None:
    assert said.code == code, said
    assert said.out == ""
    assert said.err.startswith("attnlab: ")
    assert len(said.err.splitlines()) <= 3
    assert "Traceback" not in said.err and "internal error" not in said.err


@pytest.mark.parametrize(("argv", "word"), BAD_USAGE, ids=lambda value: str(value)[:50])
def test_bad_usage(attnlab: Any, here: Path, argv: tuple[str, ...], word: str) -> None:
    said = attnlab(*argv)
    refused(said, 2)
    assert word.casefold() in said.err.casefold()


BOMBS = {
    "none": None,
    "binary": bytes(range(256)),
    "unknown key": b"curve_dmi = 61",
    "a word": b"a" * 900_001,
    "quotes": b'"' * 900_001,
    "nested": b"a = " + b"[" * 400_009,
    "dotted": b"a" + b".a" * 400_009 + b" = 1",
    "spaced": b"'a'" + b' . "a"' * 100_003 + b" = 1",
    "table": b"[" + b"a." * 400_009 + b"a]",
    "inline": b"a = {" + b"b." * 400_009 + b"b = 1}",
    "digits": b"seeds = " + b"9" * 900_001,
    "large": b"#" * 1_000_003,
}


@pytest.mark.parametrize("name", BOMBS)
def test_config_files_of_a_wrong_kind_are_refused(attnlab: Any, here: Path, name: str) -> None:
    content = BOMBS[name]
    if content is not None:
        (here / "given.toml").write_bytes(content)
    refused(attnlab(*DRY, "--config", "given.toml"), 2)


def test_a_config_that_is_a_device_or_a_pipe_is_refused(attnlab: Any, here: Path) -> None:
    os.mkfifo("pipe")
    for path in ("/dev/zero", "pipe", "."):
        refused(attnlab(*DRY, "--config", path), 2)


def test_ordinary_settings_are_not_taken_for_bombs(attnlab: Any, here: Path) -> None:
    alphas = ", ".join(f"{0.01 * k:.2f}" for k in range(1, 200))
    (here / "wide.toml").write_text(f"curve_alphas = [{alphas}]\n", encoding="utf-8")
    assert attnlab(*DRY, "--config", "wide.toml").code == 0
    assert attnlab(*DRY, "--set", f"curve_alphas=[{alphas}]").code == 0


@pytest.mark.parametrize("out", ["pebbles.py", "pebbles.py/under", "/proc/none"])
def test_an_output_that_cannot_be_written_is_exit_4(attnlab: Any, here: Path, out: str) -> None:
    refused(attnlab("run", "./pebbles.py", "--device", "cpu", "--quiet", "--out", out), 4)


def test_control_codes_in_arguments_are_not_sent_to_the_terminal(attnlab: Any, here: Path) -> None:
    for argv in (("\x1b[31m\n\n\n\nred",), ("verify", "\x1b]0;title\x07"), ("run", "\r\x1b[2Jx")):
        said = attnlab(*argv)
        refused(said, 2)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", said.err)


def test_a_study_of_ones_own_that_is_wrong(attnlab: Any, here: Path) -> None:
    text = (here / "pebbles.py").read_text(encoding="utf-8")
    faults = {
        "def def": "SyntaxError",
        text.replace('question = "Are pebbles round?"', ""): "`question`",
        text.replace("def trials(self):", "def trials(self):\n        1 / 0"): "ZeroDivisionError",
        "import nowhere_at_all": "ModuleNotFoundError",
        "raise SystemExit(0)": "SystemExit: 0",
        text.replace("def trials(self):", "def trials(self):\n        exit()"): "SystemExit",
        "x = 1": "no subclass of Study",
    }
    for code, word in faults.items():
        (here / "mine.py").write_text(code, encoding="utf-8")
        said = attnlab("run", "./mine.py", "--device", "cpu")
        refused(said, 2)
        assert word in said.err


def test_claims_that_fail_keep_the_trials(attnlab: Any, here: Path) -> None:
    text = (here / "pebbles.py").read_text(encoding="utf-8")
    broken = text.replace("ours = mean_interval", "ours = None.attribute")
    (here / "mine.py").write_text(broken, encoding="utf-8")
    said = attnlab("run", "./mine.py", "--device", "cpu", "--quiet")
    refused(said, 2)
    assert "claims: AttributeError" in said.err and "its trials are stored" in said.err


def test_a_users_model_that_calls_sys_exit(attnlab: Any, here: Path) -> None:
    for code in ("raise SystemExit(0)", "def f():\n    raise SystemExit(0)"):
        (here / "mine.py").write_text(code, encoding="utf-8")
        said = attnlab("audit", "mine:f")
        refused(said, 2)
        assert "SystemExit: 0" in said.err


def test_an_internal_error_is_printed_in_one_line(
    attnlab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> list[str]:
        raise KeyError("lost")

    monkeypatch.setattr("attnlab.studies.study_names", lambda: broken(0))
    said = attnlab("list")
    assert said.code == 1
    assert "internal error, KeyError: 'lost' (test_refusals.py" in said.err
    assert "Traceback" not in said.err
    monkeypatch.setenv("ATTNLAB_TRACEBACK", "1")
    assert "Traceback" in attnlab("list").err


def test_memory_is_asked_for_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    from attnlab.core.config import build
    from attnlab.solvable.simulation import SimulationSettings

    small = build(SimulationSettings, {"dim": 101, "starts": ["semantic"]})
    large = build(SimulationSettings, {"dim": 5003, "starts": ["semantic"], "dtype": "float32"})
    tokens = 2 * 101 * round(1.5 * 101) * 8
    assert tokens < results.simulation_bytes(small) < results.simulation_bytes(large)
    assert results.free_bytes("cpu") > 10_000_000
    monkeypatch.setattr(results, "free_bytes", lambda _: 1_000_003)
    with pytest.raises(results.UsageError, match="smaller --dim"):
        results.refuse_too_large(large, "cpu")
