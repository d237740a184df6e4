"""The world of a trial and its characters; prepared once a process."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.studies.knowledge.study import FILES, files_sha256
from attnlab.tasks.birthplaces import Question, Sizes, World, draw_world, read_world
from attnlab.tasks.people import real_people
from attnlab.tasks.prompts import PromptExample
from attnlab.tasks.span_corruption import train_character_tokenizer
from attnlab.tasks.tokenizer import Tokenizer

SIZES = ("people", "places", "phrasings", "unread", "invented", "min_count")
KEYS = ("source", *FILES, "files_sha256", *SIZES)  # the settings that a world depends on


@dataclass(frozen=True)
class Material:
    """A world in characters; the same functions for training and evaluation."""

    world: World
    vocabulary: Tokenizer

    def prompt(self, text: str) -> tuple[int, ...]:
        """text ⁇"""
        return (*self.vocabulary.encode(text), self.vocabulary.start)

    def example(self, question: Question) -> PromptExample:
        """question ⁇ place ⁇, of which the place and its end are learnt."""
        assert question.place is not None
        return PromptExample(self.prompt(question.text), self.prompt(question.place))


def material(config: Mapping[str, Any], seed: int) -> Material:
    """The world that these settings and this seed draw, or that the files hold."""
    return _material(tuple((key, config[key]) for key in KEYS), seed)


@lru_cache(maxsize=2)
def _material(settings: tuple[tuple[str, Any], ...], seed: int) -> Material:
    c = dict(settings)
    if c["source"] == "files":
        paths = [Path(c[name]) for name in FILES]
        if c["files_sha256"] and files_sha256(*paths) != c["files_sha256"]:
            raise UsageError("the files changed since this run was started")
        world = read_world(*paths, invented=c["invented"], seed=Seed(seed))
    else:
        sizes = Sizes(c["people"], c["unread"], c["invented"], c["places"], c["phrasings"])
        world = draw_world(real_people(), sizes, Seed(seed).child("world"))
    asked = (text for q in world.taught for text in (q.text, q.place or ""))
    return Material(world, train_character_tokenizer((*world.documents, *asked), c["min_count"]))


def check_block(config: Mapping[str, Any], found: Material) -> None:
    """UsageError when a question and its answer do not fit into the model's block."""
    kinds = found.world.as_dict().values()
    longest = max(len(question.text) for kind in kinds for question in kind)
    if longest + 1 + config["answer_characters"] > config["block"]:
        raise UsageError(
            f"a question of {longest} characters and an answer of {config['answer_characters']} "
            f"do not fit into a block of {config['block']}"
        )
