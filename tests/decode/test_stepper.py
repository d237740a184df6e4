"""Steppers: cached = uncached and batched = alone as logits; windows; rows exchanged."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from attnlab.core.seeds import Seed
from attnlab.decode import stepper as module
from attnlab.decode.fast import GPTStepper
from attnlab.decode.loop import pad_prompts
from attnlab.decode.stepper import (
    HubStepper,
    Stepper,
    WindowStepper,
    stepper_for,
)
from attnlab.models.config import GPTConfig
from attnlab.models.function import FunctionModel
from attnlab.models.hub import HubModel
from tests.models.test_gpt import DECODED
from tests.models.test_hub import tiny_gpt2, tiny_llama
from tests.models.variants import NAMED, VOCAB, gpt, small, some_ids

PROMPTS = [[5, 3, 8], [7, 1, 2, 9, 4, 6, 11], [13], [7, 1, 2, 9, 4, 6, 11]]
NEW = 11
TIMES = 10  # a fault must exceed the model's own rounding so many times, as the audits have it
LIBRARY = {"gpt2": tiny_gpt2, "llama": tiny_llama}


def louder(library: Any) -> Any:
    """Far from uniform, and the same each time."""
    generator = Seed(3).torch_generator()
    with torch.no_grad():
        for p in library.parameters():
            if p.ndim > 1:
                p.copy_(torch.randn(p.shape, generator=generator) * 0.2)
    return library.eval()


def hub(name: str, dtype: torch.dtype = torch.float32) -> HubModel:
    return HubModel(name, louder(LIBRARY[name]()).to(dtype), None)


@contextmanager
def no_fast_path() -> Iterator[None]:
    with patch.object(module, "fast_stepper", lambda model, batch, length: None):
        yield


def tokens() -> list[Tensor]:
    return list(some_ids(rows=len(PROMPTS), length=NEW, seed=21).T.contiguous())


def along(stepper: Stepper, prompts: list[list[int]], new: list[Tensor]) -> Tensor:
    """Logits after the prompt and after each new id; (row, step, vocab)."""
    ids, mask = pad_prompts(prompts, 10_000)
    first = stepper.start(ids, mask).clone()
    return torch.stack([first, *(stepper.step(t).clone() for t in new)], dim=1)


def whole(model: Any, prompts: list[list[int]], new: list[Tensor]) -> Tensor:
    """The same from one forward a row, alone and unpadded."""
    rows = []
    for i, prompt in enumerate(prompts):
        text = torch.tensor([[*prompt, *(int(t[i]) for t in new)]])
        rows.append(model.logits(text)[0, len(prompt) - 1 :])
    return torch.stack(rows)


def rounding(model: Any, finer: Any) -> float:
    """How far fp32 is from fp64 along the same tokens: the model's own noise."""
    a, b = (whole(m, PROMPTS, tokens()).double() for m in (model, finer))
    return float((a - b).abs().max())


@pytest.mark.parametrize("config", DECODED.values(), ids=DECODED)
def test_our_gpts_cached_and_batched_are_whole_and_alone(config: GPTConfig) -> None:
    model = gpt(config, torch.float32)
    expected = whole(model, PROMPTS, tokens())
    stepper = GPTStepper(model, 7 + NEW)
    noise = rounding(model, gpt(config, torch.float64))
    assert 0 < noise < 1e-3 * float(expected.abs().max())
    gap = (along(stepper, PROMPTS, tokens()) - expected).abs().max()
    assert float(gap) <= TIMES * noise


@pytest.mark.parametrize("name", LIBRARY)
def test_the_librarys_models_too(name: str) -> None:
    model = hub(name)
    noise = rounding(model, hub(name, torch.float64))
    expected = whole(model, PROMPTS, tokens())
    with no_fast_path():
        stepper = stepper_for(model, len(PROMPTS), 7 + NEW)
    assert isinstance(stepper, WindowStepper) and isinstance(stepper.cache, HubStepper)
    gap = (along(stepper, PROMPTS, tokens()) - expected).abs().max()
    assert float(gap) <= TIMES * noise
    fastest = along(stepper_for(model, len(PROMPTS), 7 + NEW), PROMPTS, tokens())
    assert float((fastest - expected).abs().max()) <= TIMES * noise


@pytest.mark.parametrize("fault", ["positions", "mask"])
def test_the_faults_that_padding_invites_are_seen(fault: str) -> None:
    """Positions counted from the padding, and padding that is looked at."""
    model = hub("llama" if fault == "mask" else "gpt2")
    noise = rounding(model, hub(model.name, torch.float64))
    broken = HubStepper(model, frozenset({"position_ids"} if fault == "mask" else {}))
    never = property(lambda self: False, lambda self, value: None)
    with patch.object(HubStepper, "padded", never) if fault == "mask" else nullcontext():
        found = along(broken, PROMPTS, tokens())
    gap = (found - whole(model, PROMPTS, tokens())).abs().amax(dim=(1, 2))
    assert float(gap[1]) <= TIMES * noise, "the longest row is not padded"
    assert float(gap[[0, 2]].min()) > 100 * noise


@pytest.mark.parametrize("name", [n for n in NAMED if n not in DECODED])
def test_a_gpt_that_cannot_be_cached_is_read_whole_and_alone(name: str) -> None:
    """Its rows may know each other, or be reweighted by what is to come."""
    model = gpt(NAMED[name])
    stepper = stepper_for(model, 2, 9)
    assert isinstance(stepper, WindowStepper) and stepper.cache is None
    state = {key: value.clone() for key, value in model.state_dict().items()}
    found = stepper.start(*pad_prompts([[5, 3], [7, 1, 2]], 31))
    model.load_state_dict(state)
    expected = [model.logits(torch.tensor([row]))[:, -1] for row in ([5, 3], [7, 1, 2])]
    assert torch.equal(found, torch.cat(expected))


def test_beyond_the_context_the_last_tokens_are_read() -> None:
    """Three rows that cross it at different steps."""
    model = gpt(small())
    prompts = [list(range(29)), [4, 5, 6], list(range(7, 38))]
    new = list(some_ids(rows=3, length=7, seed=2).T.contiguous())
    stepper = stepper_for(model, 3, 31 + 7)
    assert isinstance(stepper, WindowStepper) and isinstance(stepper.cache, GPTStepper)
    found = along(stepper, prompts, new)
    for step in range(8):
        for row, prompt in enumerate(prompts):
            text = [*prompt, *(int(t[row]) for t in new[:step])][-31:]
            expected = model.logits(torch.tensor([text]))[0, -1]
            torch.testing.assert_close(found[row, step], expected, rtol=0, atol=1e-10)
    assert stepper.cache is None


@pytest.mark.parametrize("kind", ["whole", "ours", "library", "sliding"])
def test_rows_can_be_exchanged(kind: str) -> None:
    model: Any = hub("llama", torch.float64) if kind == "library" else gpt(small(block=13))
    made = {
        "whole": lambda: WindowStepper(model),
        "ours": lambda: GPTStepper(model, 12),
        "library": lambda: HubStepper(model, frozenset({"position_ids", "logits_to_keep"})),
        "sliding": lambda: stepper_for(model, 3, 20),
    }
    stepper: Stepper = made[kind]()
    prompts = [[1, 2, 3, 4], [5, 6], [7]]
    stepper.start(*pad_prompts(prompts, 13))
    stepper.step(torch.tensor([8, 9, 10]))
    stepper.take(torch.tensor([2, 0, 2]))
    found = stepper.step(torch.tensor([11, 12, 13]))
    texts = [[7, 10, 11], [1, 2, 3, 4, 8, 12], [7, 10, 13]]
    expected = torch.cat([model.logits(torch.tensor([t]))[:, -1] for t in texts])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6 if kind == "library" else 1e-10)


def test_a_function_is_asked_row_by_row() -> None:
    asked = []

    def same(ids: Tensor) -> Tensor:
        asked.append(tuple(ids.shape))
        return torch.nn.functional.one_hot(ids, VOCAB).double()

    model = FunctionModel(same, "same")
    asked.clear()
    stepper = stepper_for(model, 2, 9)
    found = stepper.start(*pad_prompts([[5, 3, 1], [7]], 9))
    assert found.argmax(-1).tolist() == [1, 7] and asked == [(1, 3), (1, 1)]


def test_a_library_model_without_a_cache_is_read_whole() -> None:
    model = hub("gpt2")
    original = model.library.forward

    def forward(
        input_ids: Tensor,
        attention_mask: Any = None,
        past_key_values: Any = None,
        use_cache: bool = False,
    ) -> Any:
        found = original(input_ids=input_ids, attention_mask=attention_mask)
        found.past_key_values = None
        return found

    with no_fast_path(), patch.object(model.library, "forward", forward):
        stepper = stepper_for(model, 2, 9)
    assert isinstance(stepper, WindowStepper) and stepper.cache is None


def test_equal_prompts_are_read_once() -> None:
    model, seen = hub("llama"), []
    stepper = HubStepper(model, frozenset({"position_ids"}))
    model.library.register_forward_pre_hook(
        lambda _, __, given: seen.append(given["input_ids"].shape), with_kwargs=True
    )
    found = stepper.start(*pad_prompts([[5, 3], [7, 1, 2], [5, 3]], 37))
    assert seen == [(2, 3)] and torch.equal(found[0], found[2])
    assert stepper.step(torch.tensor([4, 4, 4])).shape == (3, VOCAB)
