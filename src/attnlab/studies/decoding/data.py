"""Prompts: our openings, and the beginnings of texts by people with their continuations.

own    "Once upon a time, …"                     one per line in prompts.txt, or the user's file
real   first tokens of an article | the next     the same number of tokens as a strategy writes
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.core.files import sha256_file
from attnlab.core.seeds import Seed
from attnlab.decode.text import continuation
from attnlab.models.hub import HubModel, HubTokenizer
from attnlab.models.tiny_llama import tiny_model
from attnlab.models.trainable import open_trainable
from attnlab.studies.decoding.study import DecodingSettings
from attnlab.tasks.made_up_articles import PHRASES, made_up_articles
from attnlab.tasks.summaries import xsum
from attnlab.tasks.texts import read_texts

ARTICLES = {"xsum": xsum, "made-up": made_up_articles}
OPENINGS = Path(__file__).parent / "prompts.txt"
SHARP = 12.0  # factor on the last norm of a random model, so that its likeliest token stands out
_WORDS = re.compile(r"\w+|[^\w\s]+")


@dataclass(frozen=True)
class Prompts:
    """Prompts in ids and words, ours first; what people wrote after the last of them."""

    prompts: tuple[tuple[int, ...], ...]
    texts: tuple[str, ...]
    opening_count: int  # our openings come first; the others begin texts by people
    human: tuple[tuple[int, ...], ...]
    human_texts: tuple[str, ...]

    @property
    def groups(self) -> list[range]:
        """Openings, and beginnings of real texts: a text is compared within its own group."""
        groups = [range(self.opening_count), range(self.opening_count, len(self.prompts))]
        return [group for group in groups if len(group)]


@lru_cache(maxsize=1)
def load_model(name: str, device: str) -> HubModel:
    """The model, in evaluation mode; a worker opens it once for all its trials."""
    if name != "tiny":
        return open_trainable(name, device)
    words = " ".join(_WORDS.findall(" ".join(openings(""))))
    model = tiny_model([*PHRASES, words], Seed(5).child("tiny decoding"), device)
    model.library.model.norm.weight.data.mul_(SHARP)
    return model


def openings(path: str) -> list[str]:
    """One prompt per line, none empty, none twice."""
    file = Path(path) if path else OPENINGS
    lines = [line.rstrip() for line in read_texts(file)]
    for number, line in enumerate(lines, 1):
        if not line:
            raise UsageError(f"{file}: line {number} is empty; every line must be a prompt")
        if (earlier := lines.index(line) + 1) < number:
            raise UsageError(f"{file}: line {number} is line {earlier} again")
    return lines


def load_prompts(s: DecodingSettings, model: HubModel) -> Prompts:
    """All prompts as the model reads them."""
    assert model.tokenizer is not None
    for path, sha256 in ((s.prompts, s.prompts_sha256), (s.human, s.human_sha256)):
        if sha256 and sha256_file(Path(path)) != sha256:
            raise UsageError(f"{path}: the file changed since this run was started")
    lines = openings(s.prompts)[: s.first_prompts or None]
    opening_ids = [_ids(model.tokenizer, line) for line in lines]
    for number, ids in enumerate(opening_ids, 1):
        if not 0 < len(ids) <= model.context - s.new_tokens:
            raise UsageError(
                f"prompt {number} has {len(ids)} tokens: only 1 to {model.context - s.new_tokens} "
                f"leave room for {s.new_tokens} more in the context of {model.name}"
            )
    real = _real(s, model.tokenizer) if s.has_human else []
    sizes = len(opening_ids), len(real)
    if sum(sizes) < 2 or 1 in sizes:
        raise UsageError("texts are also compared with other prompts: give two or more prompts")
    starts = [ids[: s.human_tokens] for ids in real]
    rests = [ids[s.human_tokens : s.human_tokens + s.new_tokens] for ids in real]
    decode = model.tokenizer.decode
    return Prompts(
        (*opening_ids, *starts),
        (*lines, *map(decode, starts)),
        len(opening_ids),
        tuple(rests),
        tuple(continuation(decode, a, b) for a, b in zip(starts, rests, strict=True)),
    )


def _real(s: DecodingSettings, tokenizer: HubTokenizer) -> list[tuple[int, ...]]:
    """The first texts that are long enough, no two with the same beginning."""
    articles = ARTICLES.get(s.human)
    known = [row.article for row in articles()] if articles else read_texts(Path(s.human))
    texts: dict[tuple[int, ...], tuple[int, ...]] = {}
    for text in known:
        ids = _ids(tokenizer, " ".join(text.split()))
        if len(ids) >= s.human_tokens + s.new_tokens:
            texts.setdefault(ids[: s.human_tokens], ids)
        if len(texts) == s.human_texts:
            break
    if len(texts) < s.human_texts:
        raise UsageError(
            f"human {s.human!r}: {len(texts)} texts have {s.human_tokens + s.new_tokens} tokens, "
            f"not {s.human_texts}"
        )
    return list(texts.values())


def _ids(tokenizer: HubTokenizer, text: str) -> tuple[int, ...]:
    """Token ids, with the start marker where the tokenizer adds one."""
    return tuple(int(i) for i in tokenizer.library(text)["input_ids"])
