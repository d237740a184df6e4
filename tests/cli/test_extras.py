"""The core alone: commands that need an optional dependency say what to install, the rest work."""

import json
import os
import subprocess
import sys

import pytest

from attnlab.assets.cache import VARIABLE
from attnlab.core.errors import UsageError
from attnlab.core.extras import EXTRAS, require
from tests.cli.test_finetune import reviews
from tests.models.tiny_encoder import bert_folder

# In one process, as if no extra were installed: argv lists in, exit codes and output out.
WITHOUT_EXTRAS = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
commands, hidden = json.load(sys.stdin)
sys.modules |= dict.fromkeys(hidden)
from attnlab.cli import main
answers = []
for argv in commands:
    sys.argv = ["attnlab", *argv]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            main()
        except SystemExit as done:
            answers.append([done.code, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""
FINETUNE = ["finetune", "--data", "my.csv", "--text", "review", "--label", "stars"]
FINETUNE += ["--model", "bert", "--device", "cpu", "--set", "prefix_length=5"]
DESIGN = ["construct", "design", "--keys", "keys.csv", "--free", "0", "--after", "select:0"]
# command -> what its one line of an error says
DOORS = {
    tuple(DESIGN): "construct design needs clarabel and cvxpy: pip install 'attnlab[construct]'",
    ("run", "attention-design", "--scale", "smoke"): "study attention-design needs clarabel and "
    "cvxpy: pip install 'attnlab[construct]'",
    ("run", "distillation", "--scale", "smoke"): "study distillation needs nltk and rouge-score: "
    "pip install 'attnlab[text]'",
    ("run", "adapters", "--scale", "smoke"): "method 'prefix' needs peft: "
    "pip install 'attnlab[models]'",
    ("rouge", "--predictions", "words.txt", "--references", "words.txt"): "ROUGE needs nltk and "
    "rouge-score: pip install 'attnlab[text]'",
    (*FINETUNE, "--method", "lora"): "method 'lora' needs peft: pip install 'attnlab[models]'",
    (*FINETUNE, "--method", "prefix"): "method 'prefix' needs peft: pip install 'attnlab[models]'",
    ("generate", "small.gguf", "--prompt", "a"): "small.gguf: a GGUF file needs accelerate and "
    "gguf: pip install 'attnlab[models]'",
    ("generate", "smollm2", "--prompt", "a"): "smollm2: a GGUF file needs accelerate and "
    "gguf: pip install 'attnlab[models]'",
    ("run", "counting", "--engine", "ray"): "engine 'ray' needs ray: "
    "pip install 'attnlab[cluster]'",
}
OPEN = (
    ["list"],
    ["theory", "--alpha", "1"],
    ["construct", "select", "--keys", "keys.csv", "--target", "0"],
    ["audit", "yours:model", "--device", "cpu"],
)
MODULE = """
from torch import nn

def model():
    return nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, str, str]]:
    folder = tmp_path_factory.mktemp("core")
    reviews(folder / "my.csv", 60)
    bert_folder(folder / "bert")
    (folder / "keys.csv").write_text("1,0\n0,1\n-1,-1\n")
    (folder / "words.txt").write_text("one\ntwo\n")
    (folder / "small.gguf").write_bytes(b"GGUF" + bytes(60))
    (folder / "yours.py").write_text(MODULE)
    hidden = [name for modules in EXTRAS.values() for name in modules]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS],
        input=json.dumps([[*DOORS, *OPEN], hidden]),
        cwd=folder,
        env={**os.environ, VARIABLE: str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert not (folder / "runs").exists()  # no run was started
    assert not (folder / "cache").exists()  # and nothing was downloaded
    return [(code, out, error) for code, out, error in json.loads(done.stdout)]


@pytest.mark.parametrize("index", range(len(DOORS)), ids=[" ".join(d[:2]) for d in DOORS])
def test_a_command_says_which_extra_it_needs(
    answers: list[tuple[int, str, str]], index: int
) -> None:
    code, out, error = answers[index]
    assert (code, out) == (2, "")
    assert error.splitlines()[-1] == f"attnlab: {[*DOORS.values()][index]}"


@pytest.mark.parametrize("index", range(len(OPEN)), ids=[o[0] for o in OPEN])
def test_a_command_works_without_extras(answers: list[tuple[int, str, str]], index: int) -> None:
    code, out, error = answers[len(DOORS) + index]
    assert code in ((0, 1) if OPEN[index][0] == "audit" else (0,)), error
    assert out


def test_what_is_installed_is_not_asked_for() -> None:
    require("text", "ROUGE", "json")
    with pytest.raises(UsageError, match=r"ROUGE needs no-such-module: pip install 'attnlab\[te"):
        require("text", "ROUGE", "json", "no_such_module")
