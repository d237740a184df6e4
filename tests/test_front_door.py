"""`import attnlab` opens every door, lazily, with types; this surface is frozen."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import attnlab
from attnlab.core.errors import UsageError
from attnlab.lab.table import Row, Table
from attnlab.report.attention import AttentionMaps

SURFACE = [
    "Outcome",
    "Study",
    "assets",
    "attend",
    "audit",
    "check",
    "construct",
    "finetune",
    "generate",
    "judge",
    "load",
    "run",
    "solvable",
    "train",
]
SCRIPT = """
import attnlab
from attnlab import Outcome, Study

class Coin(Study):
    name, question = "coin", "Is it fair?"
    def trials(self):
        return [self.trial(seed) for seed in range(3)]
    def run(self, trial, context):
        return Outcome({"heads": 0.5})
    def claims(self, evidence):
        return [attnlab.judge("fair", "It is fair", attnlab.solvable, above=0.4)]

done = attnlab.run("counting", scale="smoke", seeds=3, device="cpu", progress=False)
reveal_type(done)
reveal_type(attnlab.train("my.txt", steps=5))
reveal_type(attnlab.attend("run", "a text"))
reveal_type(attnlab.check(None))
attnlab.run("counting", sale="smoke")
"""


def test_the_surface_is_what_it_was() -> None:
    assert dir(attnlab) == SURFACE == attnlab.__all__
    assert (Path(attnlab.__file__).parent / "py.typed").is_file()


def test_every_door_opens_and_none_before_it_is_asked() -> None:
    code = (
        "import sys, attnlab\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
        "assert dir(attnlab) and all(getattr(attnlab, name) is not None for name in dir(attnlab))\n"
        "import attnlab.training.loop, attnlab.audit.catalogue\n"
        "assert callable(attnlab.train) and callable(attnlab.audit.check)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with pytest.raises(AttributeError, match="nope"):
        attnlab.nope  # noqa: B018


def test_a_type_checker_knows_the_doors(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "basedpyright", "--outputjson"]
    command += ["--pythonpath", sys.executable, "script.py"]
    out = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    lines = json.loads(out.stdout)["generalDiagnostics"]
    told = [line["message"] for line in lines if line["severity"] == "information"]
    for name in ('"Run"', '"AttentionMaps"', '"Verdicts"'):
        assert any(name in message for message in told), told
    errors = [line for line in lines if line["severity"] == "error"]
    assert any("sale" in error["message"] for error in errors)
    assert any("Estimate" in error["message"] for error in errors)  # a module is no estimate


def test_results_show_themselves() -> None:
    rows = [Row(f"{i:016x}", i, "done", {"arm": "a"}, {"x": 0.25 * i}) for i in range(30)]
    table = Table(rows)
    assert repr(table) == "<Table: 30 trials, 5 columns>"
    shown = table._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "<th>x</th>" in shown and "<th>arm</th>" not in shown and "10 more trials" in shown
    maps = AttentionMaps("model", ("a", "<b>"), np.full((1, 2, 2, 2), 0.5))
    assert repr(maps) == "<AttentionMaps of model: 1 layers, 2 heads, 2 tokens>"
    page = maps._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert page.startswith("<p>&lt;AttentionMaps")


def test_to_pandas_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table([Row("0" * 16, 0, "done", {}, {"x": 1.0})])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        table.to_pandas()
