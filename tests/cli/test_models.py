"""train, attend, perplexity, compare, export: a text file in, a model that others can use out."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.core.files import sha256_file

from .conftest import call

WORDS = "the king said that his son would come home when the war was over and all was well"
SMALL = [
    "--set",
    "block=16",
    "--set",
    "batch=3",
    "--set",
    "scored=5",
    "--set",
    "sample_tokens=7",
    "--set",
    "evaluations=2",
    "--threads",
    "1",
    "--device",
    "cpu",
    "--quiet",
]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "my.txt"
    words = WORDS.split()
    lines = [" ".join(words[i % 7 :: 1 + i % 3]) + "." for i in range(120)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def trained(text: Path, out: Path, *more: str) -> dict[str, Any]:
    said = call("train", "--text", str(text), "--out", str(out), "--json", *SMALL, *more)
    assert said.code == 0, said.err
    return json.loads(said.out)


@pytest.fixture(scope="module")
def model(text: Path) -> dict[str, Any]:
    return trained(text, text.parent / "runs", "--steps", "11")


@pytest.fixture(scope="module")
def other(text: Path) -> dict[str, Any]:
    """Another seed, with a part that Hugging Face's GPT-2 does not have."""
    return trained(
        text, text.parent / "runs", "--steps", "5", "--position", "rotary", "--seed", "1"
    )


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_train_prints_perplexities_and_a_sample(model: dict[str, Any], text: Path) -> None:
    assert set(model) >= {
        "run",
        "train_perplexity",
        "dev_perplexity",
        "parameters",
        "tokens_per_second",
        "baselines",
    }
    assert 1 < model["dev_perplexity"] < model["vocabulary"]
    shown = call(
        "train", "--text", str(text), "--out", str(text.parent / "runs"), *SMALL, "--steps", "11"
    )
    assert shown.code == 0 and f"{model['dev_perplexity']:.3f}" in shown.out
    assert "trigram" in shown.out and shown.out.splitlines()[-1].endswith(model["run"])


def test_the_same_training_elsewhere_has_the_same_digest(
    model: dict[str, Any], text: Path, tmp_path: Path
) -> None:
    again = trained(text, tmp_path, "--steps", "11")
    digests = {
        json.loads(call("verify", m["run"], "--out", str(out), "--json").out)["digest"]
        for m, out in ((model, text.parent / "runs"), (again, tmp_path))
    }
    assert len(digests) == 1
    assert again["sample"] == model["sample"]


def test_attend_shows_every_head(model: dict[str, Any], text: Path, tmp_path: Path) -> None:
    ask = ("attend", model["run"], "--out", str(text.parent / "runs"), "--text", "the king")
    said = call(*ask)
    assert said.code == 0 and len(said.out.splitlines()) == 1 + 3 * 3
    found = json.loads(call(*ask, "--json").out)
    assert found["tokens"][0] == "<START>" and len(found["tokens"]) == 9
    weights = torch.tensor(found["weights"])
    assert weights.shape == (3, 3, 9, 9)
    assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-5)
    assert float(weights.triu(1).abs().max()) == 0.0, "a causal model looks back only"
    files = [tmp_path / name for name in ("map.png", "map.svg", "map.html")]
    for file in files:
        option = "--html" if file.suffix == ".html" else "--picture"
        assert call(*ask, "--layer", "2", "--head", "1", option, str(file)).code == 0
    assert files[0].read_bytes()[:4] == b"\x89PNG" and "<svg" in files[1].read_text("utf-8")
    assert "king" not in files[2].name and "<html" in files[2].read_text("utf-8")


def test_perplexity_of_a_file_and_of_its_lines(model: dict[str, Any], text: Path) -> None:
    runs = str(text.parent / "runs")
    whole = json.loads(call("perplexity", model["run"], str(text), "--out", runs, "--json").out)
    lines = json.loads(
        call(
            "perplexity",
            model["run"],
            "--text",
            "the king\nhis son\n",
            "--lines",
            "--out",
            runs,
            "--json",
        ).out
    )
    assert 1 < whole["perplexity"] < model["vocabulary"] and whole["tokens"] == len(
        text.read_text("utf-8")
    )
    assert lines["sentences"] == 2 and lines["tokens"] == 8 + 7
    assert lines["mean_of_sentences"] > 1


def test_the_end_of_a_text_is_scored_when_asked_for(model: dict[str, Any], text: Path) -> None:
    ask = ["perplexity", model["run"], "--out", str(text.parent / "runs"), "--json"]
    ask += ["--text", "the king\nhis son\n", "--lines"]
    plain, ended = (json.loads(call(*ask, *more).out) for more in ([], ["--stop"]))
    assert not plain["stop_scored"] and ended["stop_scored"]
    assert ended["tokens"] == plain["tokens"] + 2 and ended["nll"] > plain["nll"]


@pytest.mark.parametrize("command", ["perplexity", "attend", "generate"])
def test_unknown_characters_are_counted_and_told(
    model: dict[str, Any], text: Path, command: str
) -> None:
    option = "--prompt" if command == "generate" else "--text"
    ask = (command, model["run"], "--out", str(text.parent / "runs"), "--json", option)
    said = call(*ask, "the €king€ ∑")
    assert said.code == 0 and json.loads(said.out)["unknown"] == 3
    assert "3 characters of the text are not in the vocabulary" in said.err
    assert "'€', '∑'" in said.err
    clean = call(*ask, "the king")
    assert json.loads(clean.out)["unknown"] == 0 and "vocabulary" not in clean.err


@pytest.mark.parametrize("command", ["generate", "perplexity", "attend", "export", "audit"])
def test_a_damaged_run_is_refused(
    model: dict[str, Any], text: Path, tmp_path: Path, command: str
) -> None:
    run = tmp_path / model["run"]
    shutil.copytree(text.parent / "runs" / model["run"], run)
    rest = {
        "generate": ("--prompt", "the king"),
        "export": (str(tmp_path / "folder"),),
        "audit": ("--only", "random-token-floor"),
    }.get(command, ("--text", "the king"))
    assert call(command, model["run"], *rest, "--out", str(tmp_path)).code == 0
    report = run / "report.html"
    report.write_text(report.read_text("utf-8") + " ", "utf-8")
    assert call("verify", model["run"], "--out", str(tmp_path)).code == 3
    said = call(command, model["run"], *rest, "--out", str(tmp_path))
    assert said.code == 3 and "is damaged: report.html" in said.err and not said.out


def test_transformers_loads_the_export_and_gives_the_same_logits(
    model: dict[str, Any], other: dict[str, Any], text: Path, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    runs = str(text.parent / "runs")
    for number, run in enumerate((model["run"], other["run"])):
        folder = tmp_path / f"folder{number}"
        assert call("export", run, str(folder), "--out", runs).code == 0
        said = json.loads(
            call("compare", run, str(folder), "--out", runs, "--json", "--text", "the king").out
        )
        assert said["max_gap"] < 1e-4 and said["argmax_agreement"] == 1.0
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "folder0")
    assert plain.config.model_type == "gpt2"
    assert AutoTokenizer.from_pretrained(tmp_path / "folder0").encode("king")
    assert sha256_file(tmp_path / "folder0" / "model.safetensors")


def test_generate_continues_a_prompt(model: dict[str, Any], text: Path) -> None:
    asked = [
        "generate",
        model["run"],
        "--out",
        str(text.parent / "runs"),
        "--device",
        "cpu",
        "--prompt",
        "the king",
        "--max-new-tokens",
        "13",
    ]

    def texts(*more: str) -> list[str]:
        said = call(*asked, "--json", *more)
        assert said.code == 0, said.err
        found = json.loads(said.out)
        assert found["model"].startswith(model["run"][:20]) and found["prompt"] == "the king"
        return [text["text"] for s in found["strategies"] for text in s["texts"]]

    (plain,) = texts()
    assert plain and call(*asked).out == "the king" + plain + "\n"
    assert texts("--seed", "1") != [plain]
    likeliest = [texts("--strategy", "greedy", "--seed", s) for s in "01"]
    assert likeliest[0] == likeliest[1] == texts("--strategy", "temperature:t=0")
    beyond = texts("--max-new-tokens", "29", "--strategy", "greedy")  # the context is 16
    assert beyond[0].startswith(likeliest[0][0])


def test_a_run_can_be_audited(model: dict[str, Any], text: Path) -> None:
    said = call("audit", model["run"], "--out", str(text.parent / "runs"), "--json", "--quiet")
    assert said.code == 0, said.out
    assert json.loads(said.out)["verdict"] == "pass"


def test_two_models_differ(model: dict[str, Any], other: dict[str, Any], text: Path) -> None:
    runs = str(text.parent / "runs")
    said = json.loads(call("compare", model["run"], other["run"], "--out", runs, "--json").out)
    assert said["max_gap"] > said["mean_gap"] > 1e-3 and said["argmax_agreement"] < 1


def test_anyones_function_is_a_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "import torch\n"
        "def same(ids):\n    return torch.nn.functional.one_hot(ids, 11).float()\n"
        "def next(ids, attention_mask=None):\n    return (same((ids + 1) % 11),)\n"
        "def flat(ids):\n    return ids.float()\n"
    )
    said = json.loads(call("compare", "mine:same", "mine:next", "--json").out)
    assert said["max_gap"] == 1.0 and said["argmax_agreement"] == 0.0
    bad = call("compare", "mine:same", "mine:flat")
    assert bad.code == 2 and "must give logits" in bad.err


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["attend", "./nowhere", "--text", "a"], 2, "no such path"),
        (["attend", "nothing-known", "--text", "a"], 2, "hub name (owner/name)"),
        (["attend", "train@ffff", "--text", "ab"], 2, "no trial 'ffff'"),
        (["attend", "PATH@ffff", "--text", "ab"], 2, "no trial 'ffff'"),
        (["attend", "train", "--text", "the king", "--layer", "7"], 2, "layer"),
        (["attend", "train", "--text", "the king " * 99], 2, "tokens"),
        (["perplexity", "train"], 2, "FILE or --text"),
        (["perplexity", "train", "nowhere.txt"], 2, "nowhere.txt"),
        (["compare", "train", "nomodule:f"], 2, "no file nomodule.py"),
        (["export", "train", "."], 2, "not empty"),
        (["train", "--text", "nowhere.txt"], 2, "no such text file"),
        (["train", "--text", "my.txt", "--size", "huge"], 2, "size"),
        (["train", "--text", "my.txt", "--position", "rotery"], 2, "did you mean 'rotary'"),
        (["train", "--text", "my.txt", "--set", "stepz=3"], 2, "stepz"),
        (["train", "--text", "my.txt", "--set", "steps=3"], 2, "--steps"),
    ],
)
def test_bad_input_is_one_line(
    argv: list[str],
    code: int,
    words: str,
    model: dict[str, Any],
    text: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(text.parent)
    for folder in sorted((text.parent / "runs").iterdir()):
        if folder.name != model["run"] and argv[0] != "train":
            monkeypatch.setattr("attnlab.lab.runs._run_folders", lambda out: [out / model["run"]])
    said = call(*(word.replace("PATH", f"runs/{model['run']}") for word in argv))
    assert (said.code, said.out) == (code, "")
    assert words in said.err and len(said.err.splitlines()) <= 3 and "Traceback" not in said.err
