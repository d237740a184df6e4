"""A real model: greedy tokens are transformers' own, alone and in a padded batch."""

from typing import Any

import pytest
import torch

from attnlab.api.targets import load_target
from attnlab.decode.generate import generate
from attnlab.decode.strategy import Strategy, parse_strategy

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


def test_a_drawn_text_is_the_same_alone_and_in_a_padded_batch(target: Any) -> None:
    prompts = [target.ids(text) for text in PROMPTS[:7]]
    for strategy in ("sample", "top-p:p=0.7,temperature=1.3"):
        how = {"strategy": parse_strategy(strategy), "max_new_tokens": NEW, "seed": 5}
        together = generate(target.model, prompts, n=2, **how)
        alone = [t for p in prompts for t in generate(target.model, [p], n=2, **how)]
        assert [t.ids for t in together] == [t.ids for t in alone]
        for a, b in zip(together, alone, strict=True):
            assert a.logprob == pytest.approx(b.logprob, abs=1e-3)
