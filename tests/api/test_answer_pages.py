"""The answer pages: whole, and true to the house: studies, claims, audits and commands exist."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import typer

from attnlab.api.answers import FIELDS, Document, Question, documents
from attnlab.cli.app import app
from attnlab.lab.source import load_study_class
from attnlab.lab.table import Table
from attnlab.studies import STUDIES, study_names

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "answers"
SOURCE = ROOT / "src" / "attnlab"
PENDING = "PENDING"
# Pages on which something is still to be measured. A page leaves this list with its last PENDING.
GAPS = {
    "1-mini-transformer",
    "2-projections-and-decoding",
    "3-knowledge",
    "4-adapting",
}
ASKED = [
    pytest.param(document, question, id=f"{document.number} {question.id}")
    for document in documents()
    for question in document.questions
]
each_question = pytest.mark.parametrize(("document", "question"), ASKED)


def page_of(document: Document) -> Path:
    return PAGES / f"{document.number}-{document.name}.md"


def test_five_documents_with_all_their_questions() -> None:
    """How many questions each has: a section that is lost with a bad heading is seen here."""
    assert {d.number: len(d.questions) for d in documents()} == {
        d.number: len(re.findall(r"^## \S+\. ", page_of(d).read_text("utf-8"), re.MULTILINE))
        for d in documents()
    }
    assert [d.number for d in documents()] == ["0", "1", "2", "3", "4"]
    assert min(len(d.questions) for d in documents()) >= 12


@each_question
def test_a_question_has_its_fields_in_order(document: Document, question: Question) -> None:
    assert [name for name in FIELDS if name in question.fields] == list(question.fields)
    assert len(question.fields["question"]) >= 4 and len(question.fields["answer"]) >= 60
    assert all(question.fields.values())
    if "ours" in question.fields:
        assert {"evidence", "reproduce"} & set(question.fields), "where does our number come from?"
    text = "\n".join(question.fields.values())
    unknown = re.findall(r"^\*\*\w+\.\*\*", text, re.MULTILINE)
    assert not unknown, "not a field, or one that is there twice"


@cache
def declared(study: str) -> set[str]:
    """Claims that the study declares before there is any data, at any scale."""
    kind = load_study_class(study)
    made = [kind.at(scale, device="cpu") for scale in ("smoke", "quick", "full")]
    return {claim.name for s in made for claim in s.claims(s.evidence(Table([])))}


@cache
def written(study: str) -> tuple[re.Pattern[str], ...]:
    """Strings in the study's code that may be names; what an f-string fills in may be anything."""
    module = STUDIES[study].partition(":")[0].removeprefix("attnlab.").replace(".", "/")
    found: set[str] = set()
    for file in (SOURCE / f"{module}.py").parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(re.escape(node.value))
            elif isinstance(node, ast.JoinedStr):
                parts = [
                    re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"[\w.]+"
                    for part in node.values
                ]
                found |= {"".join(parts)} if re.search("[a-z]{3}", "".join(parts)) else set()
    return tuple(re.compile(pattern) for pattern in found)


@each_question
def test_studies_and_claims_that_are_named_exist(document: Document, question: Question) -> None:
    for evidence in question.evidence:
        assert evidence.study in study_names(), evidence.study
        for claim in evidence.claims:
            known = claim in declared(evidence.study) or any(
                pattern.fullmatch(claim) for pattern in written(evidence.study)
            )
            assert known, f"study {evidence.study} has no claim {claim}"
    named = re.findall(r"\bclaims?\s+`", question.fields.get("evidence", ""))
    assert len(named) <= sum(bool(e.claims) for e in question.evidence), "claims of which study?"


@cache
def audit_names() -> set[str]:
    """Names in the code of the audits, and of the findings of studies."""
    files = [*(SOURCE / "audit").rglob("*.py"), *(SOURCE / "lab").rglob("*.py")]
    files += [*(SOURCE / "studies").rglob("*.py"), *(SOURCE / "products").rglob("*.py")]
    return {
        node.value
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@each_question
def test_audits_that_are_named_exist(document: Document, question: Question) -> None:
    for listed in re.findall(
        r"\baudits?\s+((?:`[^`]+`(?:,\s*|\s+and\s+)?)+)", question.fields.get("evidence", "")
    ):
        for name in re.findall(r"`([^`]+)`", listed):
            assert name in audit_names(), name


def commands_of(text: str) -> Iterator[list[str]]:
    """The words of every `attnlab …` in backquotes or in a block of code."""
    for code in re.findall(r"```\w*\n(.*?)```|`([^`]+)`", text, re.DOTALL):
        for line in (" ".join(code[1].split()) or code[0]).splitlines():
            words = _shell_words(line)
            while "attnlab" in words:
                words = words[words.index("attnlab") + 1 :]
                ends = [i for i, word in enumerate(words) if set(word) <= set(";&|>")]
                yield words[: min(ends, default=len(words))]


def _shell_words(line: str) -> list[str]:
    lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=";&|>")
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:  # Python, not a shell
        return []


def parse(words: list[str]) -> Any:
    """Read the words as the command line would, without running anything; returns the context."""
    command: Any = typer.main.get_command(app)
    path = "attnlab"
    while hasattr(command, "commands"):
        name, *words = words or [""]
        assert name in command.commands, f"{path} {name}"
        command, path = command.commands[name], f"{path} {name}"
    # a bare name in a sentence is no call: what it requires is not asked for
    return command.make_context(path, words, resilient_parsing=not words)


PAGE_TEXTS = [pytest.param(page_of(d).read_text("utf-8"), id=d.name) for d in documents()]


WRONG_USE = cast("type[Exception]", typer.BadParameter.__base__)  # of the command line, any kind


@pytest.mark.parametrize("text", PAGE_TEXTS)
def test_every_command_parses(text: str) -> None:
    found = list(commands_of(text))
    assert len(found) >= 10
    for words in found:
        try:
            context = parse(words)
        except WRONG_USE as error:
            pytest.fail(f"attnlab {' '.join(words)}: {error}")
        if words[0] == "run" and len(words) > 1:
            check_run(context.params)


def check_run(given: dict[str, Any]) -> None:
    """The study, the scale and the settings of an `attnlab run`."""
    kind = load_study_class(given["study"])
    assert given["scale"] in ("smoke", "quick", "full")
    for setting in given["set_"] or ():
        key, _, value = setting.partition("=")
        field = kind.Settings.model_fields.get(key)
        assert field and (value or field.annotation is str), f"{given['study']}: {setting}"


def test_a_wrong_command_is_found() -> None:
    planted = "`attnlab run knowledge --sale full` and `attnlab nothing`; `attnlab construct no`"
    for words in commands_of(planted):
        with pytest.raises((AssertionError, *typer.BadParameter.__bases__)):
            parse(words)
    with pytest.raises(AssertionError):
        check_run({"study": "knowledge", "scale": "quick", "set_": ["sauce=files"]})
    assert not any(pattern.fullmatch("nobody-claims-this") for pattern in written("adapters"))


def test_nothing_is_pending_but_on_the_pages_listed() -> None:
    pending = {
        f"{d.number}-{d.name}" for d in documents() if PENDING in page_of(d).read_text("utf-8")
    }
    assert pending == GAPS


def test_the_index_names_every_page() -> None:
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    for document in documents():
        assert f"[{document.title}]({page_of(document).name})" in index
