"""Short biographies from a person's record: one sentence each, in as many ways as are asked for.

Every sentence states the birthplace. How many different sentences a person gets decides whether
the fact can be asked for later: read in one form only, a model may learn the sentence and not the
fact (Allen-Zhu and Li 2023).
"""

from collections.abc import Sequence

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.tasks.people import Person

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
BORN_SENTENCES = (  # of people whose year of birth is known
    "{name} was born in {place} in {born}.",
    "{name} was born in {born} in {place}.",
    "{name} ({born}, {place}) played baseball.",
    "In {born}, {name} was born in {place}.",
    "{place}, {born}: {name} is born.",
)
DEBUT_SENTENCES = (  # of people whose first year in the league is known
    "{name}, born in {place}, first played in {debut}.",
    "{name} of {place} first played in {debut}.",
    "In {debut}, {name} from {place} first played.",
)
MAX_PHRASINGS = len(SENTENCES) + len(BORN_SENTENCES) + len(DEBUT_SENTENCES)


def phrasings_of(person: Person) -> tuple[str, ...]:
    """Every sentence that the record can fill."""
    known = (
        SENTENCES
        + (BORN_SENTENCES if person.born else ())
        + (DEBUT_SENTENCES if person.debut else ())
    )
    facts = {"born": person.born, "debut": person.debut}
    return tuple(text.format(name=person.name, place=person.place, **facts) for text in known)


def draw_biographies(people: Sequence[Person], phrasings: int, seed: Seed) -> tuple[str, ...]:
    """`phrasings` different sentences on each person, drawn for each anew; person by person.

    A person whose record fills fewer gets those. The draw depends on the seed and the name only.
    """
    if not 1 <= phrasings <= MAX_PHRASINGS:
        raise UsageError(f"setting 'phrasings': 1 to {MOST} ways are known, got {phrasings}")
    found = []
    for person in people:
        ways = phrasings_of(person)
        rng = seed.child("phrasings", person.name).numpy_generator()
        found += [ways[i] for i in rng.permutation(len(ways))[:phrasings]]
    return tuple(found)
