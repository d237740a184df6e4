"""Real people with their birthplaces and one-sentence biographies; names that nobody has.

A name is a first and a last name. All people who share a name are left out, so that "Where was X
born?" has one answer (542 names belong to several people, 520 of them to people with different
birthplaces). An invented name combines a first name and a last name of the data that do not occur
together: it is spelled like a real name, only the pair is new.

Every sentence of a biography states the birthplace. The number of different sentences per person
decides whether a model can answer questions later: from a single phrasing it may learn the sentence
and not the fact (Allen-Zhu and Li 2023).
"""

import csv
import io
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.tasks.corpus import read_text

COLUMNS = ("nameFirst", "nameLast", "birthCity", "birthYear", "debut")
DRAWS_PER_NAME = 200  # draws per invented name before the pairs count as used up
SENTENCES = (
    "{name} was born in {place}.",
    "{name} was born in {place} and played baseball.",
    "{name} comes from {place}.",
    "{name}, who was born in {place}, played baseball.",
    "{name} is a native of {place}.",
    "{name}, a native of {place}, played baseball.",
    "{name} (born in {place}) played baseball.",
    "{name} has {place} as place of birth.",
    "{name}: born in {place}.",
    "The birthplace of {name} is {place}.",
    "The place where {name} was born is {place}.",
    "The baseball player {name} was born in {place}.",
    "Born in {place}, {name} played baseball.",
    "A native of {place}, {name} played baseball.",
    "{place} is the birthplace of {name}.",
    "{place} is where {name} was born.",
    "{place} is the town that {name} comes from.",
    "{place} is where the player {name} was born.",
)
BORN_SENTENCES = (  # for people whose year of birth is known
    "{name} was born in {place} in {born}.",
    "{name} was born in {born} in {place}.",
    "{name} ({born}, {place}) played baseball.",
    "In {born}, {name} was born in {place}.",
    "{place}, {born}: {name} is born.",
)
DEBUT_SENTENCES = (  # for people whose first year in the league is known
    "{name}, born in {place}, first played in {debut}.",
    "{name} of {place} first played in {debut}.",
    "In {debut}, {name} from {place} first played.",
)
MAX_PHRASINGS = len(SENTENCES) + len(BORN_SENTENCES) + len(DEBUT_SENTENCES)


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


def phrasings_of(person: Person) -> tuple[str, ...]:
    """Return every sentence about a person for which the record has the facts."""
    born, debut = (BORN_SENTENCES if person.born else ()), (DEBUT_SENTENCES if person.debut else ())
    return tuple(text.format(**asdict(person)) for text in (*SENTENCES, *born, *debut))


def draw_biographies(people: Sequence[Person], phrasings: int, seed: Seed) -> tuple[str, ...]:
    """Draw `phrasings` different sentences for each person, in the order of the people.

    A person whose record allows fewer gets all of them. The draw depends on the seed and the name
    only.
    """
    if not 1 <= phrasings <= MAX_PHRASINGS:
        ways = f"1 to {MAX_PHRASINGS} ways are known"
        raise UsageError(f"setting 'phrasings': {ways}, got {phrasings}")
    sentences = []
    for person in people:
        known = phrasings_of(person)
        rng = seed.child("phrasings", person.name).numpy_generator()
        sentences += [known[i] for i in rng.permutation(len(known))[:phrasings]]
    return tuple(sentences)


def _year(text: str) -> int | None:
    """Return the year 1981 of '1981' or '1981-12-27'; None if there is none."""
    head = text[:4]
    return int(head) if len(head) == 4 and head.isascii() and head.isdigit() else None
