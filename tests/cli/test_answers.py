"""attnlab answers: lists, one answer, where its numbers come from, what is not there."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attnlab.api import answers
from tests.api.pebbles import built_in, make_run, stones


@pytest.fixture
def page(here: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One document about pebbles in place of the five."""
    monkeypatch.setattr(answers, "documents", lambda: (stones(),))
    with built_in(here, monkeypatch) as file:
        yield file


def test_the_list_has_a_line_a_question_that_fits(attnlab: Any) -> None:
    said = attnlab("answers")
    lines = said.out.splitlines()
    assert said.code == 0 and max(map(len, lines)) <= 80
    assert ["3", "2d", "Predictions without pretraining"] in [
        line.split(maxsplit=2) for line in lines
    ]
    count = sum(len(document.questions) + 2 for document in answers.documents())
    assert len(lines) == count
    listed = json.loads(attnlab("answers", "--json").out)["documents"]
    assert [document["number"] for document in listed] == ["0", "1", "2", "3", "4"]
    assert {"id": "2d", "title": "Predictions without pretraining"} in listed[3]["questions"]


def test_one_document_and_its_questions(attnlab: Any, page: Path) -> None:
    assert attnlab("answers", "7").out == (
        "7. Stones\n\nWhat stones are like; see the log (LOG.md).\n\n"
        "7 1a    Are pebbles round?\n7 Q1.b  Why?\n"
    )
    document = json.loads(attnlab("answers", "stones", "--json").out)
    assert document["about"].startswith("What stones are like")
    assert [question["id"] for question in document["questions"]] == ["1a", "Q1.b"]


def test_code_at_the_start_of_a_field_keeps_its_lines(attnlab: Any) -> None:
    said = attnlab("answers", "1", "Q2.2")
    assert "\nHow to reproduce.\n\n    import torch\n" in said.out and "```" not in said.out


RECORDED = """\
7, 1a. Are pebbles round?

Question. Are they round or *not*?

Answer. Yes, all of them, as `attnlab run pebbles` says and as anybody who was
at a beach has seen.

Reported. 0.97.

Ours, as recorded; no finished run of pebbles in `runs`. 1.01 ± 0.02; in results
(docs/results/knowledge.md).

size  roundness
5     1.01

Evidence. study `pebbles`: claims `round`, `square` (fails, as it must); audit
`light`.

How to reproduce. `attnlab run pebbles`:

    ## 1b. Not a heading
    print("**Answer.** neither")
"""


def test_without_a_run_an_answer_is_what_the_page_records(attnlab: Any, page: Path) -> None:
    assert attnlab("answers", "7", "1a").out == RECORDED
    told = json.loads(attnlab("answers", "7", "1a", "--json").out)
    assert told["ours"]["from"] == "recorded" and told["ours"]["runs"] == []
    assert told["studies"] == [{"study": "pebbles", "claims": ["round", "square"]}]
    assert attnlab("answers", "7", "q1.B").out.endswith("Answer. By definition.\n")


def test_a_smoke_run_changes_nothing(attnlab: Any, page: Path) -> None:
    make_run(Path("runs"), "smoke", size=6)
    assert attnlab("answers", "7", "1a").out == RECORDED


def test_a_stored_run_is_told_first_and_named(attnlab: Any, page: Path) -> None:
    name = make_run(Path("elsewhere"), seeds=4)
    said = attnlab("answers", "7", "1a", "--out", "elsewhere")
    assert (said.code, said.err) == (0, "")
    paragraphs = said.out.split("\n\n")
    origin, claims, recorded = paragraphs[4:7]
    assert origin.replace("\n", " ").startswith(f"Ours, from the stored run {name} (scale quick, ")
    assert origin.endswith("verified, seeds = 4).")
    assert claims.splitlines() == [
        "- ✓ holds: Pebbles are round (`round`): 1.015 ± 0.021, n = 4",
        "- ✗ fails: Pebbles are square (`square`): 1.015 ± 0.021, n = 4",
    ]
    assert recorded.startswith("Ours, as recorded earlier. 1.01 ± 0.02;")
    told = json.loads(attnlab("answers", "7", "1a", "--out", "elsewhere", "--json").out)
    assert told["ours"]["from"] == "stored runs"
    assert [run["run"] for run in told["ours"]["runs"]] == [name]


def test_a_damaged_run_is_named_on_stderr(attnlab: Any, page: Path) -> None:
    name = make_run(Path("runs"))
    (Path("runs") / name / "report.html").write_text("nothing", encoding="utf-8")
    said = attnlab("answers", "7", "1a")
    assert (said.code, said.out) == (0, RECORDED)
    assert said.err.startswith(f"run {name} is not used: it is damaged: report.html")


@pytest.mark.parametrize(
    ("argv", "near"),
    [
        (["knowlege"], "there is no document 'knowlege': did you mean 'knowledge'?"),
        (["5"], "there is no document '5': known: 0, 1, 2, 3, 4, "),
        (["3", "2d", "--out", "pyproject.toml"], "pyproject.toml: not a folder; "),
        (["1", "q5.2"], "document 1 has no question 'q5.2': did you mean 'Q5.1'?"),
    ],
)
def test_what_is_not_there_is_one_line_with_the_nearest(
    attnlab: Any, monkeypatch: pytest.MonkeyPatch, argv: list[str], near: str
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    said = attnlab("answers", *argv)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"attnlab: {near}") and said.err.count("\n") == 1


def test_a_terminal_gets_markdown_drawn(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from attnlab.cli import main

    monkeypatch.setattr(sys, "argv", ["attnlab", "answers", "7", "1a"])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr().out
    assert "**" not in shown.replace("**Answer.** neither", "") and "|---" not in shown
    assert "Reported." in shown and "─" in shown


def test_answers_need_no_slow_import(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom attnlab.cli import main\n"
        "sys.argv = ['attnlab', 'answers', '3', '2d']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "slow = {'torch', 'scipy.stats', 'matplotlib', 'jinja2'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
