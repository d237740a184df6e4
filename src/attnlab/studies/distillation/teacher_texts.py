"""Summaries by a model, decoded greedily; those of the teacher are written once for all trials.

Trials are independent, and those that learn from the teacher need the same texts. Each asks
`teacher_texts`, which looks into <cache>/made/teacher-texts/KEY.json: KEY is the hash of all that
decides the texts (the teacher's weights, every prompt, the longest answer, the batch, the device,
the versions). The first trial writes them under a lock, all others read them, in this run or
another. So a trial stays a pure function of its configuration: the texts are the same with or
without the file.
"""

import importlib.metadata
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch

from attnlab.assets import cache
from attnlab.assets.stream import NoProgress
from attnlab.core.config import content_hash
from attnlab.core.errors import IntegrityError
from attnlab.core.signed import read_signed, write_signed
from attnlab.decode.generate import generate
from attnlab.decode.strategy import parse_strategy
from attnlab.models.hub import HubModel
from attnlab.models.trainable import cache_dir, end_ids, weights_sha256
from attnlab.tasks.prompts import PromptBuilder


@dataclass(frozen=True)
class Summaries:
    """Summaries in the order of their articles, whether the model ended each, and their cost."""

    texts: list[str]
    finished: list[bool]
    seconds: float


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
    texts = [(summary.text or "").strip() for summary in generated]
    finished = [summary.ended == "token" for summary in generated]
    return Summaries(texts, finished, time.perf_counter() - began)


def teacher_texts(
    teacher: HubModel, prompter: PromptBuilder, articles: Sequence[str], most: int, batch: int
) -> Summaries:
    """`summarize`, once for all trials and runs in which it would give the same."""
    key = content_hash(
        {
            "format": 2,
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
        with suppress(IntegrityError):  # missing or damaged: written anew
            return Summaries(**read_signed(path))
        summaries = summarize(teacher, prompter, articles, most, batch)
        write_signed(path, vars(summaries))
    return summaries
