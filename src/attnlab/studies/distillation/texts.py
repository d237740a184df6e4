"""Summaries by a model, greedily; the teacher's of the training articles are written once.

Trials are independent, and those that learn from the teacher need the same texts. Each asks
`teacher_texts`, which looks into <cache>/made/teacher-texts/KEY.json: KEY is the hash of all that
decides the texts (the teacher's weights, every prompt, the longest answer, the batch, the device,
the versions). The first trial writes them under a lock, whoever comes later reads them, in this run
or in the next. So a trial stays a pure function of its configuration: with the file or without it,
the texts are the same.
"""

import hashlib
import importlib.metadata
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from attnlab.assets import cache
from attnlab.assets.stream import NoProgress
from attnlab.core.config import canonical_json, content_hash
from attnlab.core.errors import AttnlabError
from attnlab.core.files import read_json, write_json
from attnlab.decode.generate import generate
from attnlab.decode.strategy import parse_strategy
from attnlab.models.gguf import cache_dir
from attnlab.models.hub import HubModel
from attnlab.studies.distillation.models import weights_sha256
from attnlab.tasks.prompts import PromptBuilder


@dataclass(frozen=True)
class Text:
    """A summary, and whether the model ended it itself."""

    text: str
    finished: bool
    tokens: int


@dataclass(frozen=True)
class Written:
    """Summaries in the order of their articles, and what they cost."""

    texts: tuple[Text, ...]
    seconds: float

    @property
    def words(self) -> list[str]:
        """The texts alone."""
        return [t.text for t in self.texts]


def write(
    model: HubModel, prompter: PromptBuilder, articles: Sequence[str], most: int, batch: int
) -> Written:
    """The likeliest token at each place, until the end of the text or `most` tokens."""
    prompts = [prompter.prompt(article) for article in articles]
    prompter.check(max(map(len, prompts)), most)
    began = time.perf_counter()
    found = generate(
        model,
        prompts,
        parse_strategy("greedy"),
        max_new_tokens=most,
        batch=batch,
        stop_ids=_ends(model, prompter),
        decode=prompter.tokenizer.decode,
    )
    texts = tuple(Text((t.text or "").strip(), t.ended == "token", len(t.ids)) for t in found)
    return Written(texts, time.perf_counter() - began)


def teacher_texts(
    teacher: HubModel, prompter: PromptBuilder, articles: Sequence[str], most: int, batch: int
) -> Written:
    """`write`, once for all trials and runs in which it would give the same."""
    prompts = [list(prompter.prompt(article)) for article in articles]
    key = content_hash(
        {
            "format": 1,
            "weights": weights_sha256(teacher.library),
            "prompts": prompts,
            "most": most,
            "batch": batch,
            "device": teacher.device.type,
            "threads": torch.get_num_threads(),
            "versions": [importlib.metadata.version(p) for p in ("torch", "transformers")],
        },
        digits=24,
    )
    path = cache_dir("teacher-texts") / f"{key}.json"
    with cache.write_lock(f"teacher-texts-{key}", NoProgress()):
        found = _read(path)
        if found is None:
            found = write(teacher, prompter, articles, most, batch)
            write_json(path, _signed(found))
    return found


def _ends(model: HubModel, prompter: PromptBuilder) -> set[int]:
    """The tokenizer's end, and those the model's own settings name."""
    named: Any = getattr(getattr(model.library, "generation_config", None), "eos_token_id", None)
    return {prompter.end} | ({named} if isinstance(named, int) else set(named or ()))


def _signed(found: Written) -> dict[str, Any]:
    texts = [[t.text, t.finished, t.tokens] for t in found.texts]
    return {"texts": texts, "seconds": found.seconds, "sha256": _sha256(texts)}


def _sha256(texts: list[list[Any]]) -> str:
    return hashlib.sha256(canonical_json(texts).encode()).hexdigest()


def _read(path: Any) -> Written | None:
    """What the file holds, if it is whole; a damaged one is written anew."""
    if not path.is_file():
        return None
    try:
        value = read_json(path)
        if value["sha256"] != _sha256(value["texts"]):
            return None
        return Written(tuple(Text(*t) for t in value["texts"]), float(value["seconds"]))
    except (AttnlabError, KeyError, TypeError, ValueError, json.JSONDecodeError):
        return None
