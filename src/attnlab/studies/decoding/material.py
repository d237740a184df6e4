"""What is gone on from: our openings, and the beginnings of real texts with what people wrote next.

own    "Once upon a time, …"                     one a line in prompts.txt, or the user's file
real   first tokens of an article | the next     the same number of tokens as a strategy writes
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.core.files import sha256_file
from attnlab.core.seeds import Seed
from attnlab.decode.text import continuation
from attnlab.models.hub import HubModel, HubTokenizer, quiet
from attnlab.studies.decoding.settings import DecodingSettings
from attnlab.studies.distillation import tiny
from attnlab.studies.distillation.models import opened
from attnlab.tasks.summaries import xsum
from attnlab.tasks.texts import read_texts

OPENINGS = Path(__file__).parent / "prompts.txt"
SHARP = 12.0  # by which a random model's last layer is enlarged, so that its likeliest stand out
_WORDS = re.compile(r"\w+|[^\w\s]+")


@dataclass(frozen=True)
class Material:
    """Prompts in ids and words, ours first; what people wrote after the last of them."""

    prompts: tuple[tuple[int, ...], ...]
    texts: tuple[str, ...]
    own: int  # so many are openings; the others begin real texts
    human: tuple[tuple[int, ...], ...]
    human_texts: tuple[str, ...]

    @property
    def groups(self) -> list[range]:
        """Openings, and beginnings of real texts: a prompt's rivals are of its own kind."""
        found = [range(self.own), range(self.own, len(self.prompts))]
        return [group for group in found if len(group)]


@lru_cache(maxsize=1)
def model_of(name: str, device: str) -> HubModel:
    """The model, in evaluation mode; a worker opens it once for all its trials."""
    if name != "tiny":
        return opened(name, device)
    with quiet():
        words = tiny.tokenizer(" ".join(_WORDS.findall(" ".join(openings("")))))
        library = tiny.llama(len(words), Seed(5).child("tiny decoding"))
    library.model.norm.weight.data.mul_(SHARP)
    return HubModel("tiny", library.to(device), HubTokenizer(words))


def ends(model: HubModel) -> set[int]:
    """The ids that end a text: the tokenizer's, and those the model's own settings name."""
    named = getattr(getattr(model.library, "generation_config", None), "eos_token_id", None)
    found = {named} if isinstance(named, int) else set(named or ())
    stop = model.tokenizer.stop if model.tokenizer else None
    return found | ({stop} if stop is not None else set())


def openings(path: str) -> list[str]:
    """One a line, none empty, none twice."""
    file = Path(path) if path else OPENINGS
    found = [line.rstrip() for line in read_texts(file)]
    for number, line in enumerate(found, 1):
        if not line:
            raise UsageError(f"{file}: line {number} is empty, a prompt is a text")
        if (earlier := found.index(line) + 1) < number:
            raise UsageError(f"{file}: line {number} is line {earlier} again")
    return found


def material(s: DecodingSettings, model: HubModel) -> Material:
    """All prompts as the model reads them."""
    assert model.tokenizer is not None  # `opened` has asked
    for path, sha256 in ((s.prompts, s.prompts_sha256), (s.human, s.human_sha256)):
        if sha256 and sha256_file(Path(path)) != sha256:
            raise UsageError(f"{path}: changed since this run was started")
    lines = openings(s.prompts)[: s.first_prompts or None]
    own = [_ids(model.tokenizer, line) for line in lines]
    for number, ids in enumerate(own, 1):
        if not 0 < len(ids) <= model.context - s.new_tokens:
            raise UsageError(
                f"prompt {number} has {len(ids)} tokens: 1 to {model.context - s.new_tokens} "
                f"leave room for {s.new_tokens} more in {model.name}"
            )
    real = _real(s, model.tokenizer) if s.has_human else []
    if len(own) + len(real) < 2 or len(own) == 1 or len(real) == 1:
        raise UsageError("texts are compared with other prompts' too: give two or more")
    starts = [ids[: s.human_tokens] for ids in real]
    rests = [ids[s.human_tokens : s.human_tokens + s.new_tokens] for ids in real]
    decode = model.tokenizer.decode
    return Material(
        (*own, *starts),
        (*lines, *map(decode, starts)),
        len(own),
        tuple(rests),
        tuple(continuation(decode, a, b) for a, b in zip(starts, rests, strict=True)),
    )


def _real(s: DecodingSettings, tokenizer: HubTokenizer) -> list[tuple[int, ...]]:
    """The first texts that are long enough, no two with the same beginning."""
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for text in _sources(s.human):
        ids = _ids(tokenizer, " ".join(text.split()))
        if len(ids) >= s.human_tokens + s.new_tokens:
            found.setdefault(ids[: s.human_tokens], ids)
        if len(found) == s.human_texts:
            break
    if len(found) < s.human_texts:
        raise UsageError(
            f"human {s.human!r}: {len(found)} texts have {s.human_tokens + s.new_tokens} tokens, "
            f"not {s.human_texts}"
        )
    return list(found.values())


def _sources(human: str) -> Sequence[str]:
    if human == "xsum":
        return [row.article for row in xsum()]
    if human == "made-up":
        return [row.article for row in tiny.rows()]
    return read_texts(Path(human))


def _ids(tokenizer: HubTokenizer, text: str) -> tuple[int, ...]:
    """As the library gives them to the model, its start marker included where it has one."""
    return tuple(int(i) for i in tokenizer.library(text)["input_ids"])
