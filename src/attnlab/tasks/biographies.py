"""Biographies of one sentence each, from a person's record, in several phrasings.

Every sentence states the birthplace. The number of different sentences per person decides whether
a model can answer questions later: from a single phrasing it may learn the sentence and not the
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


def phrasings_of(person: Person) -> tuple[str, ...]:
    """Return every sentence about a person for which the record has the facts."""
    templates = (
        SENTENCES
        + (BORN_SENTENCES if person.born else ())
        + (DEBUT_SENTENCES if person.debut else ())
    )
    facts = {"born": person.born, "debut": person.debut}
    return tuple(text.format(name=person.name, place=person.place, **facts) for text in templates)


def draw_biographies(people: Sequence[Person], phrasings: int, seed: Seed) -> tuple[str, ...]:
    """Draw `phrasings` different sentences for each person, in the order of the people.

    A person whose record allows fewer gets all of them. The draw depends on the seed and the name
    only.
    """
    if not 1 <= phrasings <= MAX_PHRASINGS:
        raise UsageError(
            f"setting 'phrasings': 1 to {MAX_PHRASINGS} ways are known, got {phrasings}"
        )
    sentences = []
    for person in people:
        known = phrasings_of(person)
        rng = seed.child("phrasings", person.name).numpy_generator()
        sentences += [known[i] for i in rng.permutation(len(known))[:phrasings]]
    return tuple(sentences)
