"""The answers to the questions of the five documents: pages of docs/answers, and runs behind them.

A page is one document, a section `## 2d. Title` one question, a paragraph that begins with
`**Answer.**` one field. **Evidence** names studies and claims: where a run of such a study is
stored, finished and undamaged, its numbers can be printed next to those that the page records.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.core.config import suggest
from attnlab.core.errors import AttnlabError, IntegrityError, MissingError, UsageError

if TYPE_CHECKING:
    from attnlab.lab.record import Record

FIELDS = ("question", "answer", "reported", "ours", "evidence", "reproduce")
SCALES = ("quick", "full")  # a smoke run shows that the machinery works, and nothing else
PAGE = re.compile(r"(\d+)-([a-z0-9-]+)\.md")
_TITLE = re.compile(r"# (\d+)\. (.+)")
_HEADING = re.compile(r"## (\S+)\. (.+)")
_FIELD = re.compile(rf"\*\*({'|'.join(name.capitalize() for name in FIELDS)})\.\*\*\s*")
_NAME = re.compile(r"`([^`]+)`")
_STUDY = re.compile(r"\bstudy `([^`]+)`(.*?)(?=\bstudy `|\Z)", re.DOTALL)
_CLAIMS = re.compile(r"\bclaims?\s+((?:`[^`]+`(?:\s*\([^)]*\))?(?:,\s*|\s+and\s+)?)+)")
_REMARK = re.compile(r"\([^)]*\)")


@dataclass(frozen=True)
class Evidence:
    """A study and those of its claims that an answer rests on."""

    study: str
    claims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """One question of a document; `fields` are Markdown, by the names in FIELDS."""

    id: str
    title: str
    fields: dict[str, str]

    @property
    def evidence(self) -> list[Evidence]:
        """The studies that **Evidence** names, each with its claims."""
        return [
            Evidence(study, tuple(_claim_names(rest)))
            for study, rest in _STUDY.findall(self.fields.get("evidence", ""))
        ]


@dataclass(frozen=True)
class Document:
    """A page: number and word of its file name, title, what it says of the document, questions."""

    number: str
    name: str
    title: str
    about: str
    questions: tuple[Question, ...]

    def find(self, text: str) -> Question:
        """The question of this number; UsageError with its parts or the nearest one otherwise."""
        wanted, known = _plain(text), {_plain(q.id): q for q in self.questions}
        if wanted in known:
            return known[wanted]
        parts = [question.id for number, question in known.items() if number.startswith(wanted)]
        if wanted and parts:
            named = f"{', '.join(parts[:-1])} or {parts[-1]}" if parts[1:] else parts[0]
            raise UsageError(
                f"question {text} of document {self.number} has parts: ask for {named}"
            )
        near = suggest(text, [question.id for question in self.questions])
        raise UsageError(f"document {self.number} has no question {text!r}: {near}")


def _plain(number: str) -> str:
    """A question's number without points and hyphens: 1.a.i is 1a-i."""
    return re.sub(r"[\s.-]", "", number).casefold()


@dataclass(frozen=True)
class StoredAnswer:
    """What one stored run says of the claims of an answer; `claims` as in its results.json."""

    study: str
    run: str
    scale: str
    started: str
    changed: dict[str, Any]  # settings that differ from those of the scale
    edited: bool  # the study's code is not what it was when the run was made
    claims: list[dict[str, Any]]


@cache
def documents() -> tuple[Document, ...]:
    """All documents, by number."""
    found = [parse_page(int(match[1]), match[2], text) for match, text in _pages()]
    return tuple(sorted(found, key=lambda document: int(document.number)))


def find_document(text: str) -> Document:
    """A document by number or name; UsageError with the nearest one if there is none."""
    wanted = text.strip().rstrip(".").casefold()
    for document in documents():
        if wanted in (document.number, document.name, f"{document.number}-{document.name}"):
            return document
    known = [name for document in documents() for name in (document.number, document.name)]
    raise UsageError(f"there is no document {text!r}: {suggest(text, known)}")


def parse_page(number: int, name: str, text: str) -> Document:
    """The document on a page; IntegrityError where it is not in the form of a page."""
    where = f"docs/answers/{number}-{name}.md"
    (head, about), *sections = _sections(text)
    title = _TITLE.fullmatch(head)
    if title is None or int(title[1]) != number:
        raise IntegrityError(f"{where}: its first line is not `# {number}. Title`")
    questions: list[Question] = []
    for heading, body in sections:
        match = _HEADING.fullmatch(heading)
        if match is None or any(match[1] == question.id for question in questions):
            raise IntegrityError(f"{where}: not a heading of a new question: {heading[:80]}")
        questions.append(Question(match[1], match[2], _fields(body)))
    return Document(str(number), name, title[2], about, tuple(questions))


def stored_answers(question: Question, out: Path) -> tuple[list[StoredAnswer], list[str]]:
    """What the runs in `out` say of the question's claims; and why which runs were not used.

    Of several runs of a study the one is taken that measured most of these claims, then the one
    of the larger scale, then the newest.
    """
    from attnlab.lab.verify import verify_run

    told: list[StoredAnswer] = []
    refused: list[str] = []
    for evidence in question.evidence:
        if not evidence.claims:
            continue
        for found in sorted(_candidates(evidence, out, refused), key=_rank, reverse=True):
            verification = verify_run(out / found.run)
            if verification.ok:
                told.append(found)
                break
            damage = "; ".join(verification.problems[:2])
            refused.append(f"run {found.run} is not used: it is damaged: {damage}")
    return told, refused


def _pages() -> Iterator[tuple[re.Match[str], str]]:
    """File name and text of every page: packed with the package, or beside it in a clone."""
    import attnlab

    clone = Path(str(attnlab.__file__)).parents[2] / "docs" / "answers"
    for folder in (files("attnlab").joinpath("answers"), clone):
        if folder.is_dir():
            for file in folder.iterdir():
                if match := PAGE.fullmatch(file.name):
                    yield match, file.read_text(encoding="utf-8")
            return
    raise MissingError("the answer pages are not installed: install attnlab again from its wheel")


def _sections(text: str) -> list[tuple[str, str]]:
    """The title and every `##` heading with the text below it; code may hold lines like these."""
    sections: list[tuple[str, list[str]]] = []
    code = False
    for line in text.splitlines():
        code ^= line.startswith("```")
        if not sections or (line.startswith("## ") and not code):
            sections.append((line, []))
        else:
            sections[-1][1].append(line)
    return [(head, "\n".join(lines).strip()) for head, lines in sections]


def _fields(body: str) -> dict[str, str]:
    """The text of each field, up to the next one."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in body.splitlines():
        if match := _FIELD.match(line):
            lines = found.setdefault(match[1].lower(), [])
            line = line[match.end() :]
        lines.append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


def _claim_names(text: str) -> Iterable[str]:
    for listed in _CLAIMS.findall(text):
        yield from _NAME.findall(_REMARK.sub("", listed))


def _candidates(evidence: Evidence, out: Path, refused: list[str]) -> Iterator[StoredAnswer]:
    """Finished runs of the study that hold its claims; the damaged ones are found later."""
    from attnlab.lab.record import Record
    from attnlab.lab.runs import list_runs

    for info in list_runs(out):
        if info.study != evidence.study or info.scale not in SCALES or not info.complete:
            continue
        try:
            yield _stored(Record.open(out / info.name), evidence.claims, info.created)
        except AttnlabError as error:
            refused.append(f"run {info.name} is not used: {error}")


def _stored(record: "Record", names: Sequence[str], started: str) -> StoredAnswer:
    """The answer of one run; UsageError that says why it has none."""
    from attnlab.lab.source import load_study_class, read_source

    spec = record.spec
    kind = load_study_class(spec.study)
    if spec.version != kind.version:
        made = f"it was made by version {spec.version} of {spec.study}"
        raise UsageError(f"{made}; now it is {kind.version}")
    claims = [c for c in record.read_results().get("claims", []) if c.get("name") in names]
    if not claims:
        raise UsageError(f"it has none of the claims {', '.join(names)}")
    usual = kind.at(spec.scale).settings_json() | {"device": spec.settings.get("device")}
    hashed = record.code_sha256()
    return StoredAnswer(
        study=spec.study,
        run=record.name,
        scale=spec.scale,
        started=started,
        changed={k: v for k, v in spec.settings.items() if usual.get(k) != v},
        edited=hashed is not None and hashed != read_source(spec.study).sha256,
        claims=claims,
    )


def _rank(answer: StoredAnswer) -> tuple[int, int, str]:
    measured = sum(claim.get("effect") is not None for claim in answer.claims)
    return measured, SCALES.index(answer.scale), answer.started
