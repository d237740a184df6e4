"""Where was X born? People who are asked about, people who are only read of, people who are not.

                 in the pretraining text    asked in fine-tuning
    taught               yes                       yes
    read                 yes                       no         the test: knowledge from the text
    unread               no                        no         real people; nothing to know them by
    invented             no                        no         nobody: every place is made up

A world is drawn from real people, or read from files in a course's layout: a text with one
document a line, and questions as `question TAB place`, both in UTF-8.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.tasks.biographies import draw_biographies
from attnlab.tasks.corpus import read_text
from attnlab.tasks.people import Person, invent_names, normalise

QUESTION = "Where was {name} born?"
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class Question:
    """What is asked, of whom, and the place that is right; nobody's place is None."""

    text: str
    name: str
    place: str | None


Questions = tuple[Question, ...]


@dataclass(frozen=True)
class World:
    """Documents to pretrain on and four kinds of people to ask about."""

    documents: tuple[str, ...]
    taught: Questions
    read: Questions
    unread: Questions
    invented: Questions

    def as_dict(self) -> dict[str, Questions]:
        """The questions by kind of people."""
        kinds = ("taught", "read", "unread", "invented")
        return {kind: getattr(self, kind) for kind in kinds}

    @property
    def seen_places(self) -> frozenset[str]:
        """Places that are the answer to a fine-tuning question."""
        return frozenset(q.place for q in self.taught if q.place)


@dataclass(frozen=True)
class Sizes:
    """How many people are read of (half of them are taught), unread, invented; and how told."""

    people: int
    unread: int
    invented: int
    places: int = 0  # only people of the so many commonest places; 0: of all
    phrasings: int = 1


def draw_world(people: Sequence[Person], sizes: Sizes, seed: Seed) -> World:
    """A world of real people; which of them are taught, read or unread is drawn."""
    if sizes.people < 2 or sizes.unread < 0 or sizes.invented < 0:
        raise UsageError(f"a world needs two people to be read of, got {sizes.people}")
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
    """The people born in the `places` commonest places (ties by the alphabet); 0: everybody."""
    count = Counter(person.place for person in people)
    kept = sorted(count, key=lambda place: (-count[place], place))[: places or None]
    among = set(kept)
    return [person for person in people if person.place in among]


def _birthplace_questions(people: Sequence[Person]) -> Questions:
    return tuple(Question(QUESTION.format(name=p.name), p.name, p.place) for p in people)


def read_world(
    text: Path, train: Path, dev: Path, invented: int = 0, seed: Seed | None = None
) -> World:
    """A world from files: one document a line, then questions to learn from and to test by.

    Names are what differs between questions; first and last words of them make the invented ones,
    fewer than asked for where pairs run out.
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
    made = tuple(Question(f"{before}{name}{after}", name, None) for name in names)
    return World(documents, taught, read, (), made)


def read_questions(path: Path) -> list[tuple[str, str]]:
    """(question, place) of every line; a line that is not `question TAB place` is named."""
    lines = read_text(path).rstrip("\n").split("\n")
    found = []
    for number, line in enumerate(lines, 1):
        parts = [normalise(part) for part in line.split("\t")]
        if len(parts) != 2 or not all(parts):
            raise UsageError(f"{path}: line {number}: must be question TAB place{_what(parts)}")
        found.append((parts[0], parts[1]))
    return found


def _describe_fault(parts: list[str]) -> str:
    if len(parts) == 1:
        return ", has no TAB" if parts[0] else ", is empty"
    if len(parts) > 2:
        return f", has {len(parts) - 1} TABs"
    return f", has no {'question' if not parts[0] else 'place'}"


def find_question_frame(questions: Sequence[str]) -> tuple[str, str]:
    """The words around the name: the longest common beginning and end, of whole words.

    The end may also begin inside a word, at a mark: the "?" of "Who is X?".
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
    """The longest beginning of all: of the first and the last in order, what lies between has."""
    first, last = min(texts), max(texts)
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(letter for letter, _ in same)


def find_stated(
    questions: Sequence[Question], documents: Sequence[str], limit: int = 0
) -> list[bool]:
    """Whether some document has both the name and the place within its first `limit` characters.

    Their mean is the ceiling of knowledge from the text. 0: the whole document. Words are
    compared, without case and punctuation.
    """
    wanted: dict[tuple[str, ...], list[int]] = {}
    for i, question in enumerate(questions):
        wanted.setdefault(_words(question.name), []).append(i)
    places = [_words(question.place or "") for question in questions]
    lengths = {len(name) for name in wanted} - {0}
    found = [False] * len(questions)
    for document in documents:
        words = _words(document[: limit or None])
        for size in lengths:
            for name in {*_word_windows(words, size)} & wanted.keys():
                for i in wanted[name]:
                    held = len(places[i]) > 0 and places[i] in _word_windows(words, len(places[i]))
                    found[i] = found[i] or held
    return found


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORDS.findall(text.casefold()))


def _word_windows(words: tuple[str, ...], size: int) -> Iterator[tuple[str, ...]]:
    """Every `size` words in a row."""
    return (words[i : i + size] for i in range(len(words) - size + 1))
