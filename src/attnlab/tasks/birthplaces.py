"""The task "Where was X born?": a pretraining text and questions about four kinds of people.

                 in the pretraining text    asked in fine-tuning
    taught               yes                       yes
    read                 yes                       no         the test: knowledge from the text
    unread               no                        no         real people the model never saw
    invented             no                        no         names of nobody: any answer is made up

A world is drawn from real people, or read from files in a course's layout: a text with one
document per line, and questions as `question TAB place`, both in UTF-8.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.measure.diversity import ngrams
from attnlab.tasks.corpus import read_text
from attnlab.tasks.people import Person, draw_biographies, invent_names, normalise

QUESTION = "Where was {name} born?"
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class Question:
    """A question, the name it asks about, and the right place (None for invented names)."""

    text: str
    name: str
    place: str | None


Questions = tuple[Question, ...]


@dataclass(frozen=True)
class World:
    """Documents to pretrain on and questions about the four kinds of people."""

    documents: tuple[str, ...]
    taught: Questions
    read: Questions
    unread: Questions
    invented: Questions

    def as_dict(self) -> dict[str, Questions]:
        """Return the questions by kind: taught, read, unread, invented."""
        kinds = ("taught", "read", "unread", "invented")
        return {kind: getattr(self, kind) for kind in kinds}

    @property
    def seen_places(self) -> frozenset[str]:
        """Places that are the answer to a fine-tuning question."""
        return frozenset(q.place for q in self.taught if q.place)


@dataclass(frozen=True)
class Sizes:
    """How many people of each kind a world has, and how many phrasings tell each birthplace.

    `people` occur in the text; half of them are taught.
    """

    people: int
    unread: int
    invented: int
    places: int = 0  # use only people from this many most common places; 0: from all
    phrasings: int = 1


def draw_world(people: Sequence[Person], sizes: Sizes, seed: Seed) -> World:
    """Draw a world of real people; the seed decides who is taught, read or unread."""
    if sizes.people < 2 or sizes.unread < 0 or sizes.invented < 0:
        raise UsageError(f"a world needs at least two people in its text, got {sizes.people}")
    pool = people_from_commonest_places(people, sizes.places)
    needed = sizes.people + sizes.unread
    if len(pool) < needed:
        where = f"of the {sizes.places} commonest places" if sizes.places else "of unique name"
        raise UsageError(f"{needed} people are asked for, there are {len(pool)} {where}")
    order = seed.child("world").numpy_generator().permutation(len(pool))[:needed]
    chosen = [pool[i] for i in order]
    mentioned, half = chosen[: sizes.people], (sizes.people + 1) // 2
    real = [person.name for person in people]
    names = invent_names([p.name for p in chosen], sizes.invented, seed, real)
    return World(
        draw_biographies(mentioned, sizes.phrasings, seed),
        _birthplace_questions(mentioned[:half]),
        _birthplace_questions(mentioned[half:]),
        _birthplace_questions(chosen[sizes.people :]),
        tuple(Question(QUESTION.format(name=name), name, None) for name in names),
    )


def people_from_commonest_places(people: Sequence[Person], places: int) -> list[Person]:
    """Keep people born in the `places` most common places; ties go by the alphabet, 0 keeps all."""
    count = Counter(person.place for person in people)
    most_common = sorted(count, key=lambda place: (-count[place], place))[: places or None]
    kept = set(most_common)
    return [person for person in people if person.place in kept]


def _birthplace_questions(people: Sequence[Person]) -> Questions:
    return tuple(Question(QUESTION.format(name=p.name), p.name, p.place) for p in people)


def read_world(
    text: Path, train: Path, dev: Path, invented: int = 0, seed: Seed | None = None
) -> World:
    """Read a world from files: one document per line, and questions for training and testing.

    The part that differs between the questions is the name. Invented names combine first and last
    words of these names; there may be fewer than `invented` if the pairs run out.
    """
    documents = tuple(d for line in read_text(text).split("\n") if (d := normalise(line)))
    rows = [read_questions(path) for path in (train, dev)]
    before, after = find_question_frame([question for part in rows for question, _ in part])
    taught, read = (
        tuple(Question(q, q[len(before) : len(q) - len(after)], place) for q, place in part)
        for part in rows
    )
    known = [q.name for q in (*taught, *read)]
    names = invent_names(known, invented, seed or Seed(0), all_=False)
    questions = tuple(Question(f"{before}{name}{after}", name, None) for name in names)
    return World(documents, taught, read, (), questions)


def read_questions(path: Path) -> list[tuple[str, str]]:
    """Read (question, place) of every line; the error names a line that is not of this form."""
    lines = read_text(path).rstrip("\n").split("\n")
    questions = []
    for number, line in enumerate(lines, 1):
        parts = [normalise(part) for part in line.split("\t")]
        if len(parts) != 2 or not all(parts):
            raise UsageError(
                f"{path}: line {number}: must be question TAB place{_describe_fault(parts)}"
            )
        questions.append((parts[0], parts[1]))
    return questions


def _describe_fault(parts: list[str]) -> str:
    if len(parts) == 1:
        return ", has no TAB" if parts[0] else ", is empty"
    if len(parts) > 2:
        return f", has {len(parts) - 1} TABs"
    return f", has no {'question' if not parts[0] else 'place'}"


def find_question_frame(questions: Sequence[str]) -> tuple[str, str]:
    """Return the words before and after the name: the longest common beginning and end.

    The beginning ends with a whole word; the end begins at a space or a punctuation mark, such as
    the "?" of "Who is X?".
    """
    different = set(questions)
    if len(different) < 2:
        return "", ""
    start = _common_prefix(different)
    before = start[: start.rfind(" ") + 1]
    rest = [q[len(before) :] for q in different]
    end = _common_prefix([q[::-1] for q in rest])[::-1]
    while end and min(len(q) for q in rest) <= len(end):
        end = end[1:]
    while end and end[0].isalnum():
        end = end[1:]
    return before, end


def _common_prefix(texts: Collection[str]) -> str:
    """Return the longest common prefix: the one of the alphabetically first and last text."""
    first, last = min(texts), max(texts)
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(letter for letter, _ in same)


def find_stated(
    questions: Sequence[Question], documents: Sequence[str], limit: int = 0
) -> list[bool]:
    """Tell for each question whether a document has both its name and its place.

    Only the first `limit` characters of a document count (0: all). Words are compared without case
    and punctuation. The mean over the questions is the highest accuracy the text allows.
    """
    by_name: dict[tuple[str, ...], list[int]] = {}
    for i, question in enumerate(questions):
        by_name.setdefault(_words(question.name), []).append(i)
    places = [_words(question.place or "") for question in questions]
    lengths = {len(name) for name in by_name} - {0}
    stated = [False] * len(questions)
    for document in documents:
        words = _words(document[: limit or None])
        for size in lengths:
            for name in {*ngrams(words, size)} & by_name.keys():
                for i in by_name[name]:
                    place = places[i]
                    stated[i] |= bool(place) and place in ngrams(words, len(place))
    return stated


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORDS.findall(text.casefold()))
