"""Decoding in fixed shapes equals the whole forward, on every part that allows it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from attnlab.core.errors import UsageError
from attnlab.models.llama import LlamaSteps, is_llama
from attnlab.models.static import StaticGPT, why_not_static
from tests.models.variants import NAMED, gpt, small, some_ids

ROWS, PROMPT, LENGTH = 3, 7, 13
ROUNDING = 1e-11  # float64; logits are at most a few hundred
STATIC = [name for name, config in NAMED.items() if why_not_static(gpt(config)) is None]


def tiny_llama(groups: int = 2, **more: Any) -> LlamaForCausalLM:
    """Rotary positions, six query heads on `groups` key heads."""
    config = LlamaConfig(
        vocab_size=56,
        max_position_embeddings=37,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=groups,
        intermediate_size=41,
        **more,
    )
    model = LlamaForCausalLM(config).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(3 if p.ndim > 1 else 1)
    return model


def padding() -> Tensor:
    """Row i has i pads on its left."""
    return torch.arange(PROMPT)[None] < torch.arange(ROWS)[:, None]


def stepped(steps: Any, ids: Tensor, hidden: Tensor | None) -> Tensor:
    """Logits after the prompt and after every later id."""
    found = [steps.start(ids[:, :PROMPT], hidden).clone()]
    found += [steps.step(ids[:, at : at + 1]).clone() for at in range(PROMPT, ids.shape[1])]
    return torch.stack(found, dim=1)


def whole(forward: Callable[[Tensor, Tensor | None], Tensor], ids: Tensor, pads: bool) -> Tensor:
    """The same logits by one forward without a cache."""
    hidden = None
    if pads:
        more = torch.zeros((ROWS, ids.shape[1] - PROMPT), dtype=torch.bool)
        hidden = torch.cat([padding(), more], dim=1)
    return forward(ids, hidden)[:, PROMPT - 1 :]


@pytest.mark.parametrize("pads", [False, True])
@pytest.mark.parametrize("name", STATIC)
def test_every_fused_variant_of_our_gpt(name: str, pads: bool) -> None:
    model, ids = gpt(NAMED[name]), some_ids(ROWS, LENGTH)
    found = stepped(StaticGPT(model, ROWS, 19), ids, padding() if pads else None)
    assert (found - whole(model.logits, ids, pads)).abs().max() < ROUNDING


def test_most_variants_are_fused_and_the_others_are_refused() -> None:
    assert len(STATIC) > len(NAMED) / 2
    for name in set(NAMED) - set(STATIC):
        with pytest.raises(UsageError, match="fixed shapes"):
            StaticGPT(gpt(NAMED[name]), ROWS, 19)


@pytest.mark.parametrize("pads", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_a_llama_with_grouped_queries(groups: int, pads: bool) -> None:
    model, ids = tiny_llama(groups), some_ids(ROWS, LENGTH)

    def forward(ids: Tensor, hidden: Tensor | None) -> Tensor:
        real = torch.ones_like(ids) if hidden is None else (~hidden).long()
        at = (real.cumsum(1) - 1).clamp_min(0)
        with torch.no_grad():
            return model(input_ids=ids, attention_mask=real, position_ids=at).logits

    found = stepped(LlamaSteps(model, ROWS, 19), ids, padding() if pads else None)
    # the library turns queries and keys by angles in float32
    assert (found - whole(forward, ids, pads)).abs().max() < 1e-5
    assert found.shape == (ROWS, LENGTH - PROMPT + 1, 56)


def test_a_llama_of_another_make_is_refused() -> None:
    assert not is_llama(tiny_llama(attention_bias=True))
    with pytest.raises(UsageError, match="no plain Llama"):
        LlamaSteps(tiny_llama(mlp_bias=True), ROWS, 19)


@pytest.mark.parametrize("kind", [StaticGPT, LlamaSteps])
def test_rows_can_be_exchanged_and_the_room_is_kept(kind: Any) -> None:
    ids, order = some_ids(ROWS, LENGTH), torch.tensor([2, 0, 0])
    model: Any = gpt(small()) if kind is StaticGPT else tiny_llama()
    steps, other = kind(model, ROWS, LENGTH), kind(model, ROWS, LENGTH)
    steps.start(ids[:, :PROMPT], padding())
    steps.take(order)
    other.start(ids[order, :PROMPT], padding()[order])
    gap = steps.step(ids[:, PROMPT]) - other.step(ids[:, PROMPT])
    assert gap.abs().max() < ROUNDING
    with pytest.raises(UsageError, match="fixed shapes"):
        steps.take(order[:2])
    for at in range(PROMPT + 1, LENGTH):
        steps.step(ids[:, at])
    with pytest.raises(UsageError, match="room for 13"):
        steps.step(ids[:, 0])
    with pytest.raises(UsageError, match="room for 3 × 13"):
        steps.start(some_ids(ROWS, LENGTH + 1))


@pytest.mark.gpu
def test_a_recorded_step_is_the_step() -> None:
    model, ids = gpt(small(), torch.float32).cuda(), some_ids(ROWS, LENGTH).cuda()
    found = stepped(StaticGPT(model, ROWS, 19), ids, padding().cuda())
    hidden = torch.cat([padding(), torch.zeros(ROWS, LENGTH - PROMPT, dtype=torch.bool)], dim=1)
    expected = model.logits(ids, hidden.cuda())[:, PROMPT - 1 :]
    assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
