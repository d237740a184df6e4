"""Summaries by a model, decoded greedily; those of the teacher are written once for all trials.

Trials are independent, and those that learn from the teacher need the same texts. Each asks
`teacher_texts`, which looks into <cache>/made/teacher-texts/KEY.json: KEY is the hash of all that
decides the texts (the teacher's weights, every prompt, the longest answer, the batch, the device,
the versions). The first trial writes them under a lock, all others read them, in this run or
another. So a trial stays a pure function of its configuration: the texts are the same with or
without the file.
"""

import hashlib
import importlib.metadata
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
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
from attnlab.models.trainable import end_ids, weights_sha256
from attnlab.tasks.prompts import PromptBuilder


@dataclass(frozen=True)
class Summary:
    """A generated summary, and whether the model ended it itself."""

    text: str
    finished: bool
    tokens: int


@dataclass(frozen=True)
class Summaries:
    """Summaries in the order of their articles, and what they cost."""

    each: tuple[Summary, ...]
    seconds: float

    @property
    def texts(self) -> list[str]:
        """The words alone."""
        return [summary.text for summary in self.each]


def summarize(
    model: HubModel, prompter: PromptBuilder, articles: Sequence[str], most: int, batch: int
) -> Summaries:
    """Decode greedily until the end of the text or `most` tokens."""
    prompts = [prompter.prompt(article) for article in articles]
    prompter.check(max(map(len, prompts)), most)
    began = time.perf_counter()
    generated = generate(
        model,
        prompts,
        parse_strategy("greedy"),
        max_new_tokens=most,
        batch=batch,
        stop_ids={prompter.end} | end_ids(model),
        decode=prompter.tokenizer.decode,
    )
    each = tuple(
        Summary((text.text or "").strip(), text.ended == "token", len(text.ids))
        for text in generated
    )
    return Summaries(each, time.perf_counter() - began)


def teacher_texts(
    teacher: HubModel, prompter: PromptBuilder, articles: Sequence[str], most: int, batch: int
) -> Summaries:
    """`summarize`, once for all trials and runs in which it would give the same."""
    key = content_hash(
        {
            "format": 1,
            "weights": weights_sha256(teacher.library),
            "prompts": [list(prompter.prompt(article)) for article in articles],
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
        summaries = _read(path)
        if summaries is None:
            summaries = summarize(teacher, prompter, articles, most, batch)
            texts = [[t.text, t.finished, t.tokens] for t in summaries.each]
            seconds = summaries.seconds
            write_json(path, {"texts": texts, "seconds": seconds, "sha256": _sha256(texts)})
    return summaries


def _sha256(texts: list[list[Any]]) -> str:
    return hashlib.sha256(canonical_json(texts).encode()).hexdigest()


def _read(path: Path) -> Summaries | None:
    """The content of the file; None where it is missing or damaged."""
    if not path.is_file():
        return None
    try:
        value = read_json(path)
        if value["sha256"] != _sha256(value["texts"]):
            return None
        return Summaries(tuple(Summary(*t) for t in value["texts"]), float(value["seconds"]))
    except (AttnlabError, KeyError, TypeError, ValueError, json.JSONDecodeError):
        return None
