"""Real people with their birthplaces, and invented names that nobody has.

A name is a first and a last name. All people who share a name are left out, so that "Where was X
born?" has one answer (542 names belong to several people, 520 of them to people with different
birthplaces). An invented name combines a first name and a last name of the data that do not occur
together: it is spelled like a real name, only the pair is new.
"""

import csv
import io
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.tasks.corpus import read_text

COLUMNS = ("nameFirst", "nameLast", "birthCity", "birthYear", "debut")
DRAWS_PER_NAME = 200  # draws per invented name before the pairs count as used up


def normalise(text: str) -> str:
    """Apply Unicode NFC and collapse white space; letters keep their case.

    Names, questions, places and documents are normalised when they are read, answers of a model
    before they are compared: two places are equal if their normalised texts are equal.
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


@dataclass(frozen=True)
class Person:
    """A name with its place of birth, and years if the record has them."""

    name: str
    place: str
    born: int | None = None
    debut: int | None = None  # first year in the league


def real_people() -> tuple[Person, ...]:
    """Read 18,730 people with a unique name and a city of birth, in the order of the file."""
    from attnlab.assets import get

    files = get("people").files
    return drop_shared_names(person for file in files for person in read_people(file))


def read_people(path: Path) -> tuple[Person, ...]:
    """Read the rows of People.csv that have a first name, a last name and a city of birth."""
    rows = csv.DictReader(io.StringIO(read_text(path)))
    missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        raise UsageError(f"{path}: no column {missing[0]!r}")
    people = []
    for row in rows:
        first, last, city, born, debut = (normalise(row[name] or "") for name in COLUMNS)
        if first and last and city:
            people.append(Person(f"{first} {last}", city, _year(born), _year(debut)))
    if not people:
        raise UsageError(f"{path}: no row has a name and a city of birth")
    return tuple(people)


def drop_shared_names(people: Iterable[Person]) -> tuple[Person, ...]:
    """Keep the people whose name nobody else has, ignoring case."""
    people = tuple(people)
    count = Counter(person.name.casefold() for person in people)
    return tuple(person for person in people if count[person.name.casefold()] == 1)


def invent_names(
    names: Sequence[str], count: int, seed: Seed, taken: Collection[str] = (), *, all_: bool = True
) -> tuple[str, ...]:
    """Invent `count` names: the first words of one name and the last word of another.

    None of them is in `names` or `taken`, ignoring case. If there are too few pairs, raise
    UsageError, or with all_=False return fewer names.
    """
    real = {name.casefold() for name in (*names, *taken)}
    halves = [name.rpartition(" ") for name in names if " " in name]
    invented: dict[str, str] = {}
    rng = seed.child("invented").numpy_generator()
    for _ in range(DRAWS_PER_NAME * max(1, count)):
        if len(invented) == count or not halves:
            break
        first, last = rng.integers(0, len(halves), size=2)
        name = f"{halves[first][0]} {halves[last][2]}"
        if name.casefold() not in real:
            invented.setdefault(name.casefold(), name)
    if all_ and len(invented) < count:
        raise UsageError(f"{len(names)} names give {len(invented)} new pairs, not {count}")
    return tuple(invented.values())


def _year(text: str) -> int | None:
    """Return the year 1981 of '1981' or '1981-12-27'; None if there is none."""
    head = text[:4]
    return int(head) if len(head) == 4 and head.isascii() and head.isdigit() else None
