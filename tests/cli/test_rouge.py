"""attnlab rouge: its document, its print, its refusals, and the page that shows it."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnlab.measure.rouge import KINDS, Variant, rouge
from tests.cli.test_refusals import refused
from tests.cli.test_streams import on_terminal

PAGE = Path(__file__).parents[2] / "docs" / "rouge.md"
P = ["The cat sat on the mat.", "", "Dogs were running.\nThen they slept."]
R = ["A cat sat on a mat.", "Nobody spoke.", "Then dogs slept.\nA dog runs."]
GIVEN = ("--predictions", "p.json", "--references", "r.json")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, texts in (("p", P), ("r", R)):
        Path(f"{name}.json").write_text(json.dumps(texts), encoding="utf-8")
        flat = "".join(text.replace("\n", " ") + "\n" for text in texts)
        Path(f"{name}.txt").write_text(flat, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("options", "variant"),
    [
        ((), Variant()),
        (("--no-stemmer",), Variant(stemmer=False)),
        (("--splitter", "sentence"), Variant(splitter="sentence")),
        (("--tokenizer", "unicode"), Variant(tokenizer="unicode")),
    ],
    ids=["default", "no stemmer", "sentence", "unicode"],
)
def test_the_document_is_what_python_gives(
    attnlab: Any, folder: Path, options: tuple[str, ...], variant: Variant
) -> None:
    said = attnlab("rouge", *GIVEN, *options, "--json")
    assert said.code == 0 and json.loads(said.out) == rouge(P, R, variant).as_json()
    assert said.err == "note: 1 of 3 predictions without a word score 0\n"
    document = json.loads(said.out)
    assert list(document) == [
        "variant",
        "n",
        "empty_predictions",
        "items_with_dropped_letters",
        "items_with_unsplit_sentences",
        "interval",
        "scores",
        "items",
    ]
    for kind in KINDS:
        f = document["scores"][kind]["f"]
        assert f["value"] == pytest.approx(sum(document["items"][kind]) / 3)
        assert 0 <= f["low"] <= f["value"] <= f["high"] <= 1


def test_the_table_names_the_variant(attnlab: Any, folder: Path) -> None:
    said = attnlab("rouge", *GIVEN)
    lines = said.out.splitlines()
    assert [line.split()[0] for line in lines[:5]] == [
        "score",
        "ROUGE-1",
        "ROUGE-2",
        "ROUGE-L",
        "ROUGE-Lsum",
    ]
    assert lines[5].startswith("3 items, t interval over items, 95 %; rouge-score ")
    assert lines[5].endswith("stemmer porter, tokenizer ascii, Lsum by newline")
    mean = rouge(P, R).estimate("rouge1")
    assert lines[1].split()[1:5] == [
        f"{mean.value:.4f}",
        f"{mean.low:.4f}",
        "to",
        f"{mean.high:.4f}",
    ]


def test_rouge_remarks_on_lines_with_several_sentences(attnlab: Any, folder: Path) -> None:
    said = attnlab("rouge", "--predictions", "p.txt", "--references", "r.txt")
    assert said.code == 0
    assert "note: 1 of 3 items have sentences that share a line" in said.err


def test_one_item_has_no_interval(attnlab: Any, folder: Path) -> None:
    Path("one.txt").write_text("a cat\n", encoding="utf-8")
    argv = ("rouge", "--predictions", "one.txt", "--references", "one.txt")
    assert "ROUGE-1     1.0000  –" in attnlab(*argv).out
    assert json.loads(attnlab(*argv, "--json").out)["scores"]["rouge1"]["f"] == {
        "value": 1.0,
        "low": None,
        "high": None,
    }


def test_scoring_needs_no_torch_and_no_network(folder: Path) -> None:
    script = (
        "import socket, sys\n"
        "def refuse(*_, **__):\n    raise OSError('no network')\n"
        "socket.socket.connect = refuse\n"
        "from attnlab.cli import main\n"
        f"sys.argv = ['attnlab', 'rouge', *{[*GIVEN, '--splitter', 'sentence']!r}]\n"
        "try:\n    main()\n"
        "except SystemExit as left:\n    assert left.code == 0\n"
        "assert 'torch' not in sys.modules\n"
    )
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_terminal_of_80_columns(folder: Path) -> None:
    seen = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal("rouge", *GIVEN, folder=folder))
    assert any(line.split()[:1] == ["ROUGE-Lsum"] for line in seen.splitlines())


REFUSED = [
    ((), "Missing option"),
    (("--predictions", "p.json"), "--references"),
    (("--predictions", "p.json", "--references", "none.txt"), "none.txt: no such file"),
    (("--predictions", "p.json", "--references", "."), "not a file"),
    (("--predictions", "p.json", "--references", "/dev/zero"), "not a file"),
    (("--predictions", "p.json", "--references", "two.txt"), "3 predictions for 2 references"),
    (("--predictions", "p.json", "--references", "gap.txt"), "item 2: the reference ''"),
    (("--predictions", "p.json", "--references", "greek.txt"), "use tokenizer unicode"),
    (("--predictions", "p.json", "--references", "bad.json"), "not JSON"),
    (("--predictions", "p.json", "--references", "bytes.txt"), "not UTF-8"),
    (("--predictions", "empty.txt", "--references", "empty.txt"), "no texts"),
    ((*GIVEN, "--splitter", "sentences"), "did you mean 'sentence'"),
    ((*GIVEN, "--tokenizer", "utf"), "known: ascii, unicode"),
    ((*GIVEN, "more"), "extra argument"),
]


@pytest.mark.parametrize(("argv", "word"), REFUSED, ids=lambda value: str(value)[-40:])
def test_bad_usage(attnlab: Any, folder: Path, argv: tuple[str, ...], word: str) -> None:
    for name, held in {
        "two.txt": b"a\nb\n",
        "gap.txt": b"a\n\nb\n",
        "greek.txt": "a\nb\nη γάτα\n".encode(),
        "bad.json": b"[",
        "bytes.txt": b"\xff\xfe",
        "empty.txt": b"",
    }.items():
        Path(name).write_bytes(held)
    said = attnlab("rouge", *argv)
    refused(said, 2)
    assert word.casefold() in said.err.casefold()


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.binary(max_size=31), st.binary(max_size=31), st.sampled_from(["txt", "json", "jsonl"]))
def test_any_two_files_end_in_a_documented_way(
    attnlab: Any, folder: Path, one: bytes, other: bytes, ending: str
) -> None:
    Path(f"one.{ending}").write_bytes(one)
    Path(f"other.{ending}").write_bytes(other)
    said = attnlab(
        "rouge", "--predictions", f"one.{ending}", "--references", f"other.{ending}", "--json"
    )
    assert said.code in (0, 2), said
    if said.code:
        refused(said, 2)
    else:
        json.loads(said.out)


def test_the_page_shows_what_the_command_prints(
    attnlab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cat FILE` is a file to write; the other lines are commands, … is what is left out."""
    monkeypatch.chdir(tmp_path)
    asked = 0
    for block in re.findall(r"```\n(\$ cat .*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, shown = session.partition("\n")
            if line.startswith("cat "):
                Path(line.removeprefix("cat ")).write_text(shown, encoding="utf-8")
                continue
            said = attnlab(*shlex.split(line.removeprefix("attnlab ")))
            assert said.code == 0 and said.out.endswith(shown.removeprefix("…\n")), said
            asked += 1
    assert asked == 1


def test_the_python_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    exec(compile(block, "docs/rouge.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "paired t interval over items" in printed and "every text scores 1" in printed
