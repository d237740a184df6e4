"""A real model: greedy tokens are transformers' own, alone and in a padded batch."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from attnlab.api.targets import load, load_target
from attnlab.audit import check
from attnlab.decode.generate import generate
from attnlab.decode.strategy import Strategy, parse_strategy
from attnlab.models.convert import gpt_from_library
from attnlab.models.hugging_face import export

pytestmark = [pytest.mark.assets, pytest.mark.slow]
NEW = 16
SUBJECTS = (
    "The king",
    "My neighbour",
    "A lost dog",
    "The old ship",
    "In winter the river",
    "The doctor",
    "Her letter",
    "The last train",
    "An honest answer",
    "The garden",
)
ENDS = ("", " was", " had never seen the sea before, and", " said that", ", because of the war,")
PROMPTS = [subject + end for subject in SUBJECTS for end in ENDS]


@pytest.fixture(scope="module")
def target() -> Any:
    return load_target("smollm2")


def theirs(library: Any, ids: list[int], new: int) -> list[int]:
    found = library.generate(
        torch.tensor([ids]),
        attention_mask=torch.ones(1, len(ids)),
        max_new_tokens=new,
        do_sample=False,
    )[0, len(ids) :]
    return [int(i) for i in found if int(i) != library.generation_config.eos_token_id]


def test_greedy_is_transformers_generate_on_fifty_prompts(target: Any) -> None:
    prompts = [target.ids(text) for text in PROMPTS]
    assert len(set(PROMPTS)) == 50 and len({len(p) for p in prompts}) > 5
    ours = generate(
        target.model,
        prompts,
        Strategy("greedy"),
        max_new_tokens=NEW,
        stop_ids=[target.reader.stop],
        batch=25,
    )
    for ids, text in zip(prompts, ours, strict=True):
        assert list(text.ids) == theirs(target.model.library, ids, NEW)


@torch.no_grad()
def test_in_our_own_parts_its_logits_are_transformers_on_twenty_texts(target: Any) -> None:
    """Whole against whole and cached against cached, in float32."""
    ours, library = gpt_from_library(target.model.library), target.model.library
    assert (ours.config.heads, ours.config.kv_heads, ours.config.is_llama) == (9, 3, True)
    for text in PROMPTS[::5] + [f"{p} nobody came home." for p in PROMPTS[3::5]]:
        ids = torch.tensor([target.ids(text)])
        assert float((ours.logits(ids) - target.model.logits(ids)).abs().max()) < 1e-4
        cached, memory = ours.cached(1, ids.shape[1]), None
        for new in ids.split(1, dim=1):
            theirs = library(new, past_key_values=memory, use_cache=True)
            memory = theirs.past_key_values
            assert float((cached.step(new) - theirs.logits).abs().max()) < 1e-4


def test_load_gives_a_gpt_that_can_be_watched_audited_and_exported(tmp_path: Path) -> None:
    model = load("smollm2")
    ids = torch.tensor([model.tokenizer.encode("The king sent for his son")])
    steps = model.steps(ids)
    assert len(steps) == 30 and steps[0].weights.shape[1] == 9
    names = ["causality", "batch-independence", "cache-parity", "padding"]
    verdicts = check(model, only=names, length=16)
    assert [f.name for f in verdicts.findings if f.verdict == "fail"] == []
    export(model, model.tokenizer, tmp_path)
    again: Any = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokens = AutoTokenizer.from_pretrained(tmp_path)
    assert tokens("The king sent for his son")["input_ids"] == ids[0].tolist()
    with torch.no_grad():
        assert float((again(ids).logits - model.logits(ids)).abs().max()) < 1e-4


def test_a_drawn_text_is_the_same_alone_and_in_a_padded_batch(target: Any) -> None:
    prompts = [target.ids(text) for text in PROMPTS[:7]]
    for strategy in ("sample", "top-p:p=0.7,temperature=1.3"):
        how = {"strategy": parse_strategy(strategy), "max_new_tokens": NEW, "seed": 5}
        together = generate(target.model, prompts, n=2, **how)
        alone = [t for p in prompts for t in generate(target.model, [p], n=2, **how)]
        assert [t.ids for t in together] == [t.ids for t in alone]
        for a, b in zip(together, alone, strict=True):
            assert a.logprob == pytest.approx(b.logprob, abs=1e-3)
