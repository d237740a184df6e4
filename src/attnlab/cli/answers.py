"""attnlab answers: the questions of the five documents, and the answer to each."""

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import RUNS, JsonOption, OutOption, align, note, say, say_json

if TYPE_CHECKING:
    from attnlab.api.answers import Document, Question, StoredAnswer

DocumentArgument = Annotated[
    str | None, typer.Argument(metavar="DOCUMENT", help="Number of a document; default: all.")
]
QuestionArgument = Annotated[
    str | None, typer.Argument(metavar="QUESTION", help="Number of a question in it, such as 2d.")
]
WIDTH = 80
LABELS = {"reproduce": "How to reproduce"}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(((?:\.\./)*)([^)]+)\)")
_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK_END = re.compile(r"\n\s*\n|\n(?=- )")
_CODE = re.compile(r"`[^`]+`")
_KEPT = "\x00"  # for a space inside code, where no line may end


def answers(
    document: DocumentArgument = None,
    question: QuestionArgument = None,
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """List the documents' questions, or print one answer.

    An answer shows the reported number and ours. Ours comes from a stored run of the study if
    there is one, and otherwise from our recorded results; the output says which.
    """
    from attnlab.api.answers import documents, find_document

    if document is None:
        _list(documents(), json)
        return
    found = find_document(document)
    if question is not None:
        _answer(found, found.find(question), out, json)
    elif json:
        say_json({**_document_json(found), "about": found.about})
    else:
        _say_markdown(f"# {found.number}. {found.title}\n\n{found.about}")
        say()
        _say_questions(found)


def _list(found: "Iterable[Document]", json: bool) -> None:
    if json:
        say_json({"documents": [_document_json(document) for document in found]})
        return
    for document in found:
        say(f"{document.number}. {document.title}")
        _say_questions(document)
        say()
    note("`attnlab answers 3 2d`, for example, prints one answer")


def _say_questions(document: "Document") -> None:
    """A line a question: what to type after `attnlab answers`, and its title."""
    names = [f"{document.number} {question.id}" for question in document.questions]
    width = max(map(len, names), default=0)
    for name, question in zip(names, document.questions, strict=True):
        say(f"{name.ljust(width)}  {question.title}")


def _document_json(document: "Document") -> dict[str, Any]:
    return {
        "number": document.number,
        "name": document.name,
        "title": document.title,
        "questions": [{"id": q.id, "title": q.title} for q in document.questions],
    }


def _answer(document: "Document", question: "Question", out: Path, json: bool) -> None:
    from attnlab.api.answers import FIELDS, stored_answers

    told, refused = stored_answers(question, out)
    if json:
        say_json(_answer_json(document, question, told, refused))
        return
    parts = [f"# {document.number}, {question.id}. {question.title}"]
    for name in FIELDS:
        if name == "ours":
            parts += _our_numbers(question, told, out)
        elif name in question.fields:
            label = LABELS.get(name, name.capitalize())
            parts.append(_labelled(f"**{label}.**", question.fields[name]))
    _say_markdown("\n\n".join(parts))
    for line in refused:
        note(line)


def _answer_json(
    document: "Document", question: "Question", told: "list[StoredAnswer]", refused: list[str]
) -> dict[str, Any]:
    return {
        "document": document.number,
        "question_id": question.id,
        "title": question.title,
        **{name: question.fields.get(name) for name in ("question", "answer", "reported")},
        "ours": {
            "from": "stored runs" if told else "recorded" if "ours" in question.fields else None,
            "runs": [vars(stored) for stored in told],
            "recorded": question.fields.get("ours"),
            "not_used": refused,
        },
        "evidence": question.fields.get("evidence"),
        "studies": [{"study": e.study, "claims": list(e.claims)} for e in question.evidence],
        "reproduce": question.fields.get("reproduce"),
    }


def _our_numbers(question: "Question", told: "list[StoredAnswer]", out: Path) -> Iterator[str]:
    """Our numbers as Markdown: those of stored runs, and those that the page records."""
    for stored in told:
        yield f"**Ours, from the stored run {stored.run}** ({_origin(stored)})."
        yield "\n".join(_claim(claim) for claim in stored.claims)
    recorded = question.fields.get("ours")
    if recorded is None:
        return
    without = [e.study for e in question.evidence if e.claims] if not told else []
    why = f"; no finished run of {' or '.join(without)} in `{out}`" if without else ""
    yield _labelled(f"**Ours, as recorded{' earlier' if told else ''}**{why}.", recorded)


def _labelled(label: str, text: str) -> str:
    """The label before the text; code, a table or a list begins on a line of its own."""
    apart = text.startswith(("```", "|", "- "))
    return f"{label}\n\n{text}" if apart else f"{label} {text}"


def _origin(stored: "StoredAnswer") -> str:
    from attnlab.report.text import plain

    parts = [f"scale {stored.scale}", stored.started[:10], "verified"]
    parts += [f"{key} = {plain(value, 40)}" for key, value in stored.changed.items()]
    if stored.edited:
        parts.append("the study's code has changed since")
    return ", ".join(part for part in parts if part)


def _claim(claim: Mapping[str, Any]) -> str:
    from attnlab.lab.claim import MARKS
    from attnlab.report.text import with_interval

    verdict = claim["verdict"]
    measured = claim["effect"] is not None
    ours = with_interval(claim["effect"], claim["interval"]) if measured else "not measured"
    n = f", n = {claim['n']}" if measured else ""
    return f"- {MARKS[verdict]} {verdict}: {claim['statement']} (`{claim['name']}`): {ours}{n}"


def _say_markdown(text: str) -> None:
    """Markdown drawn by rich on a terminal; plain text of 80 columns in a pipe."""
    text = _LINK.sub(_reference, text)
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
        return
    for line in _plain(text):
        say(line)


def _reference(match: re.Match[str]) -> str:
    """A link as `text (file)`; a page's own place is docs/answers."""
    image, words, up, target = match.groups()
    if "://" not in target:
        target = {0: "docs/answers/", 1: "docs/"}.get(up.count(".."), "") + target
    return f"{'Figure: ' if image else ''}{words} ({target})"


def _plain(text: str) -> Iterator[str]:
    """Lines of at most 80 columns; code, tables and what is in backquotes stay whole."""
    last = ""
    for kind, lines in _blocks(text):
        if last and (kind, last) != ("item", "item"):
            yield ""
        last = kind
        if kind == "code":
            yield from (f"    {line}".rstrip() for line in lines)
        else:
            yield from align(_cells(lines)) if kind == "table" else _wrapped(lines, kind)


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """The text in pieces of one kind: code, table, item (of a list), text."""
    for position, part in enumerate(_FENCED.split(text)):
        if position % 2:
            yield "code", part.splitlines()
            continue
        for block in _BLOCK_END.split(part.strip("\n")):
            if block:
                kind = {"|": "table", "-": "item"}.get(block[0], "text")
                yield kind, [line.strip() for line in block.splitlines()]


def _cells(lines: list[str]) -> list[list[str]]:
    """The rows of a Markdown table, without the line below its head."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if not all(set(cell) <= set("-: ") for cell in row)]


def _wrapped(lines: list[str], kind: str) -> list[str]:
    text = _CODE.sub(lambda code: code[0].replace(" ", _KEPT), " ".join(lines))
    wrapped = textwrap.wrap(
        text.replace("**", "").removeprefix("# "),
        WIDTH,
        subsequent_indent="  " if kind == "item" else "",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_KEPT, " ") for line in wrapped]
