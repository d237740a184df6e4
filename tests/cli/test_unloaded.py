"""What cannot be is said before torch, a model or two hundred thousand trials are made."""

import gc
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attnlab.api import running, targets
from attnlab.api.questions import export_target
from attnlab.api.targets import Found, find_target
from attnlab.core.errors import IntegrityError, UsageError
from attnlab.lab.plan import MOST_TRIALS
from attnlab.lab.source import load_study_class
from attnlab.lab.study import Study
from attnlab.studies import study_names

from .test_refusals import refused

ASKING = {
    "generate": ("--prompt", "x"),
    "perplexity": ("--text", "two words"),
    "audit": (),
    "attend": ("--text", "two words"),
    "export": ("new",),
    "compare": ("{run}",),
    "predict": ("--text", "x"),
}
TARGETS = (
    "none",
    "./none",
    "none.gguf",
    "some.txt",
    "empty",
    "unnamed",
    "noise.gguf",
    "{run}",
    "none@1",
    "none:f",
    "some:f",
    "x" * 5003,
    "shakespeare",
)
OTHERS = (
    ("generate", "none", "--strategy", "tpo-k"),
    ("generate", "none", "--device", "cuda"),
    ("generate", "smollm2", "--device", "tpu"),
    ("attend", "none", "--text", "x y", "--head", "3"),
    ("audit", "none", "--only", "casuality"),
    ("audit", "{run}", "--revision", "main"),
    ("compare", "smollm2", "none"),
    ("show", "none"),
    ("show", "./some.txt"),
    ("verify", "some.txt"),
    ("verify", "empty"),
    ("report", "some.txt"),
    ("report", "empty", "--pdf"),
    ("table", "unnamed"),
    ("run", "none"),
    ("run", "./empty"),
    ("run", "phase-transition", "--seeds", "1000000007"),
    ("run", "./pebbles.py", "--set", "siz=2"),
    ("run", "phase-transition", "--set", "large_seeds=1001985289"),
    ("run", "hard-attention", "--seeds", "199999"),
    ("finetune", "--data", "some.txt"),
    ("finetune", "--data", "empty"),
    ("finetune", "--data", "few.csv", "--label", "stars"),
    ("finetune", "--data", "few.csv"),
    ("finetune", "--data", "sentiment", "--model", "none"),
    ("finetune", "--data", "sentiment", "--method", "lorra"),
    ("run", "knowledge", "--set", "source=files"),
    ("run", "adapters", "--set", 'encoders=["none"]'),
    ("predict", "none", "--text", "x", "--device", "tpu"),
    ("run", "fine-tuning", "--set", "data=empty"),
)
SCRIPT = """
import io, json, sys
from contextlib import redirect_stderr
from attnlab.cli import main
said = []
for argv in json.load(sys.stdin):
    sys.argv, err = ["attnlab", *argv], io.StringIO()
    with redirect_stderr(err):
        try:
            main()
        except SystemExit as left:
            said.append([left.code, err.getvalue()])
    assert "torch" not in sys.modules, argv
print(json.dumps(said))
"""


def test_a_refusal_loads_no_torch(here: Path, stored: Path) -> None:
    (here / "some.txt").write_text("prose, not code\n", encoding="utf-8")
    (here / "few.csv").write_text("text,label\na,b\n", encoding="utf-8")
    (here / "noise.gguf").write_bytes(bytes(range(211)))
    for name in ("empty", "unnamed"):
        (here / name).mkdir()
    (here / "unnamed/config.json").write_text('{"layers": 7}', encoding="utf-8")
    asked = [(name, target, *more) for name, more in ASKING.items() for target in TARGETS]
    argvs = [[word.replace("{run}", str(stored)) for word in argv] for argv in (*asked, *OTHERS)]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        cwd=here,
        input=json.dumps(argvs),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for argv, (code, err) in zip(argvs, json.loads(done.stdout), strict=True):
        damaged = argv[1] in ("unnamed", "noise.gguf") and argv[0] not in ("predict", "table")
        assert code == (3 if damaged else 2), (argv, err)
        assert err.startswith("attnlab: ") and len(err.splitlines()) == 1, (argv, err)


def test_what_is_found_says_what_it_is_and_loads_it_when_told(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "plain").mkdir()
    (here / "plain/config.json").write_text('{"model_type": "gpt2"}', encoding="utf-8")
    (here / "own.py").write_text("def f(ids):\n    return ids\n", encoding="utf-8")
    opened: list[str] = []
    monkeypatch.setattr(targets, "_hugging_face", lambda name, *_: opened.append(name))
    kinds = {"plain": "library", "own:f": "function", "smollm2": "library", "some/one": "library"}
    assert {name: find_target(name).kind for name in kinds} == kinds
    assert opened == []
    find_target("plain").load()
    assert opened == ["plain"]


def test_a_device_of_no_such_name_is_refused(attnlab: Any, here: Path) -> None:
    (here / "own.py").write_text("def f(ids):\n    return ids\n", encoding="utf-8")
    said = attnlab("audit", "own:f", "--device", "cdua")
    refused(said, 2)
    assert "did you mean 'cuda'" in said.err


@pytest.mark.parametrize("content", ["[]", "{", '{"model_type": 7}', '{"a": NaN}'])
def test_a_folder_that_names_no_model_is_damaged(here: Path, content: str) -> None:
    (here / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(IntegrityError, match=r"config\.json"):
        find_target(str(here))


def test_export_refuses_a_folder_that_is_not_empty(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded() -> Any:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("attnlab.api.questions.find_target", lambda *_: Found("run", loaded))
    for taken in (here, here / "pebbles.py"):
        with pytest.raises(UsageError, match="not empty"):
            export_target("run", taken, here)
    with pytest.raises(AssertionError, match="was loaded"):
        export_target("run", here / "new", here)


@pytest.mark.parametrize("name", study_names())
def test_too_many_seeds_are_refused_before_a_trial_is_made(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(*_: object, **__: object) -> Any:
        raise AssertionError("a trial was made, or torch asked for a GPU")

    monkeypatch.setattr(Study, "trial", made)
    monkeypatch.setattr(running, "resolve_device", made)
    counts = {
        key: value
        for key, value in load_study_class(name).at().settings_json().items()
        if key.endswith("seeds") and value is not None
    }
    assert "seeds" in counts
    for key, value in counts.items():
        many: Any = [MOST_TRIALS + 1] * len(value) if isinstance(value, list) else 10**9
        with pytest.raises(UsageError, match=f"'{key}' asks for more than 200,000 trials"):
            running.plan(name, "quick", {key: many})


def test_planning_leaves_the_search_for_garbage_as_it_was(here: Path) -> None:
    for on in (False, True):
        (gc.enable if on else gc.disable)()
        planned = running.plan("./pebbles.py", "quick", {"device": "cpu", "seeds": 7})
        assert len(planned.trials) == 7
        assert gc.isenabled() == on
