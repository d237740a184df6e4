"""generate: strategies side by side, JSON, streaming on a terminal, and every refusal."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from attnlab.cli.generate import Printer
from attnlab.decode.generate import Generated
from attnlab.decode.strategy import Strategy
from tests.decode.test_stepper import LIBRARY, louder
from tests.models.test_hugging_face import tokenizer_json

from .conftest import Said, call


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with a tokenizer of words."""
    path = tmp_path_factory.mktemp("generate") / "tiny"
    louder(LIBRARY["llama"]()).save_pretrained(path)
    (path / "tokenizer.json").write_text(tokenizer_json())
    (path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<START>"})
    )
    return path


def asked(folder: Path, *more: str) -> Said:
    return call(
        "generate",
        str(folder),
        "--prompt",
        "the king",
        "--device",
        "cpu",
        "--max-new-tokens",
        "7",
        *more,
    )


THREE = [
    "--strategy",
    "greedy",
    "--strategy",
    "top-p:p=0.7",
    "--strategy",
    "top-k:k=20,temperature=0.8",
]


def test_several_strategies_in_one_document(folder: Path) -> None:
    said = asked(folder, *THREE, "--n", "5", "--seed", "3", "--json")
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)
    assert [*found] == ["model", "prompt", "unknown", "strategies"]
    assert (found["model"], found["prompt"]) == ("tiny", "the king")
    assert [(s["name"], s["settings"]) for s in found["strategies"]] == [
        ("greedy", {}),
        ("top-p", {"p": 0.7}),
        ("top-k", {"k": 20, "temperature": 0.8}),
    ]
    for strategy in found["strategies"]:
        assert [*strategy] == ["name", "settings", "texts"] and len(strategy["texts"]) == 5
        for text in strategy["texts"]:
            assert [*text] == ["text", "ids", "logprob"]
            assert len(text["ids"]) == 7 and text["logprob"] < 0
            assert not text["text"].startswith("the king")
    greedy, drawn, _ = (
        ["".join(map(chr, t["ids"])) for t in s["texts"]] for s in found["strategies"]
    )
    assert len(set(greedy)) == 1 and len(set(drawn)) > 1
    assert asked(folder, *THREE, "--n", "5", "--seed", "3", "--json").out == said.out
    alone = json.loads(asked(folder, *THREE[2:4], "--n", "2", "--seed", "3", "--json").out)
    assert [t["ids"] for t in alone["strategies"][0]["texts"]] == [
        t["ids"] for t in found["strategies"][1]["texts"][:2]
    ]


def test_side_by_side_in_a_pipe(folder: Path) -> None:
    said = asked(folder, *THREE, "--n", "3")
    document = json.loads(asked(folder, *THREE, "--n", "3", "--json").out)
    lines = said.out.split("\n")
    assert lines[:3] == ["the king", "", "greedy · the likeliest"]
    assert "top-k:k=20,temperature=0.8 · temperature 0.8 → top-k 20 → draw" in lines
    assert "   (3 times the same)" in lines
    flat = said.out.replace("\n   ", "\n")
    for strategy in document["strategies"][1:]:
        for number, text in enumerate(strategy["texts"]):
            assert f"{number + 1}  {text['text']}\n" in flat


def test_one_text_is_the_prompt_and_what_follows(folder: Path) -> None:
    found = json.loads(asked(folder, "--json").out)
    (strategy,) = found["strategies"]
    assert (strategy["name"], strategy["settings"]) == ("temperature", {"t": 0.8})
    assert asked(folder).out == "the king" + strategy["texts"][0]["text"] + "\n"


def test_the_prompt_may_come_from_a_file(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("the king\n", encoding="utf-8")
    rest = ["--device", "cpu", "--max-new-tokens", "7"]
    said = call("generate", str(folder), "--prompt-file", str(file), *rest)
    assert said.out == asked(folder).out
    both = asked(folder, "--prompt-file", str(file))
    assert both.code == 2 and "not both" in both.err
    gone = call("generate", str(folder), "--prompt-file", str(tmp_path / "none.txt"), *rest)
    assert gone.code in (2, 4) and len(gone.err.splitlines()) == 1


REFUSED = {
    "gredy": "unknown strategy 'gredy': did you mean 'greedy'?",
    "top-k:n=3": "top-k has no setting 'n'",
    "top-k:k=3,temprature=1": "did you mean 'temperature'?",
    "top-p:p=7": "top-p must lie in 0 … 1, got 7",
    "beam:width=2": "beam:width=2 gives at most 2 texts, not 3: use a larger width",
}


@pytest.mark.parametrize("strategy", REFUSED)
def test_a_wrong_strategy_is_one_line_before_a_model_is_loaded(
    strategy: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')  # found, but without weights
    said = call("generate", str(tmp_path), "--strategy", strategy, "--n", "3")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("attnlab: ") and REFUSED[strategy] in said.err
    assert len(said.err.splitlines()) == 1


def test_other_refusals(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "import torch\ndef same(ids):\n    return torch.nn.functional.one_hot(ids, 11).float()\n"
    )
    for argv, words in (
        (("mine:same",), "no tokenizer"),
        (("/no/such/model",), "no such path"),
        ((str(folder), "--n", "0"), "--n"),
        ((str(folder), "--max-new-tokens", "0"), "--max-new-tokens"),
    ):
        said = call("generate", *argv, "--prompt", "a", "--device", "cpu")
        assert said.code == 2 and words in said.err, said


def test_remarks_about_context_and_chat_models(folder: Path, tmp_path: Path) -> None:
    """The context is 37: a long prompt, a long text; a chat model."""
    long = asked(folder, "--max-new-tokens", "41", "--json")
    assert long.code == 0
    tokens = len(AutoTokenizer.from_pretrained(folder)("the king")["input_ids"])
    assert long.err == (
        f"attnlab: tiny reads 37 tokens at once: from new token {39 - tokens} on it reads "
        "only the last 37\n"
    )
    over = call("generate", str(folder), "--prompt", "the king " * 23, "--device", "cpu", "--json")
    assert over.code == 0 and "of which tiny reads the last 37" in over.err
    chat = tmp_path / "chat"
    chat.mkdir()
    for file in folder.iterdir():
        (chat / file.name).write_bytes(file.read_bytes())
    settings = json.loads((chat / "tokenizer_config.json").read_text())
    (chat / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": "{{x}}"}))
    said = asked(chat)
    assert said.err == (
        "attnlab: chat is a chat model: the prompt is continued as plain text, not answered\n"
    )
    assert said.out == asked(folder).out


def generated(text: str, number: int = 1) -> list[Generated]:
    return [Generated((1, i), (-1.0, -1.0), "length", text) for i in range(number)]


def shown(capsys: Any, alone: bool, live: bool, pieces: list[str], texts: list[Generated]) -> str:
    printer = Printer("Once", alone)
    printer.live = live
    printer.begins(Strategy("sample"))
    for piece in pieces:
        printer.piece(piece)
    printer.ends(texts)
    return capsys.readouterr().out


def test_streamed_or_not_the_same_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    text = " upon\n\na time\nthere"
    for pieces in (list(text), [text], [" upon\n", "\na time", "\nthere"]):
        for alone in (True, False):
            found = [shown(capsys, alone, live, pieces, generated(text)) for live in (True, False)]
            assert found[0] == found[1]
    assert found[0] == "Once\n\nsample · draw\n1   upon\n\n   a time\n   there\n"
    two = shown(capsys, False, True, list(text), generated(text, 2))
    assert two.count("there\n") == 2 and two.endswith("2   upon\n\n   a time\n   there\n")


def test_control_characters_are_spelt_out(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys, True, False, [], generated(" \x1b[31mred\x07\tend\n"))
    assert found == "Once \\x1b[31mred\\x07\tend\n\n"


def test_a_terminal_sees_the_text_grow(folder: Path) -> None:
    """Read as it comes: the prompt is there before the last token."""
    main, side = pty.openpty()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "attnlab",
            "generate",
            str(folder),
            "--prompt",
            "the king",
            "--device",
            "cpu",
            "--max-new-tokens",
            "23",
        ],
        stdin=side,
        stdout=side,
        stderr=side,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    os.close(side)
    pieces: list[bytes] = []
    try:
        while chunk := os.read(main, 4096):
            pieces.append(chunk)
    except OSError:  # Linux says EIO when the last writer is gone
        pass
    os.close(main)
    assert process.wait(timeout=60) == 0
    text = b"".join(pieces).decode().replace("\r\n", "\n")
    piped = call(
        "generate", str(folder), "--prompt", "the king", "--device", "cpu", "--max-new-tokens", "23"
    )
    assert text == piped.out and "\x1b" not in text
    assert len(pieces) > 5, "it came in pieces"


@pytest.mark.slow
@pytest.mark.assets
def test_a_story_goes_on_by_default_with_smollm2() -> None:
    threads = torch.get_num_threads()
    said = call(
        "generate",
        "--prompt",
        "Once upon a time, in a village by the sea,",
        "--json",
        "--strategy",
        "greedy",
        "--max-new-tokens",
        "17",
        "--device",
        "cpu",
    )
    torch.set_num_threads(threads)
    assert said.code == 0, said.err
    assert "smollm2 is a chat model" in said.err
    found = json.loads(said.out)
    (text,) = found["strategies"][0]["texts"]
    assert found["model"] == "smollm2" and len(text["ids"]) == 17
    assert text["logprob"] > -2.5 * 17, "far likelier than chance: ln 49,152 is 10.8 a token"
    assert text["text"].startswith(" there was a")
