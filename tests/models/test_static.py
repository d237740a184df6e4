"""Decoding in fixed shapes equals the whole forward, on every part that allows it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.models.static import StaticGPT, why_not_static
from tests.models.variants import NAMED, gpt, small, some_ids

ROWS, PROMPT, LENGTH = 3, 7, 13
ROUNDING = 1e-11  # float64; logits are at most a few hundred
STATIC = [name for name, config in NAMED.items() if why_not_static(gpt(config)) is None]


def padding() -> Tensor:
    """Row i has i pads on its left."""
    return torch.arange(PROMPT)[None] < torch.arange(ROWS)[:, None]


def stepped(steps: Any, ids: Tensor, mask: Tensor | None) -> Tensor:
    """Logits after the prompt and after every later id."""
    found = [steps.start(ids[:, :PROMPT], mask).clone()]
    found += [steps.step(ids[:, at : at + 1]).clone() for at in range(PROMPT, ids.shape[1])]
    return torch.stack(found, dim=1)


def whole(forward: Callable[[Tensor, Tensor | None], Tensor], ids: Tensor, pads: bool) -> Tensor:
    """The same logits by one forward without a cache."""
    mask = None
    if pads:
        more = torch.zeros((ROWS, ids.shape[1] - PROMPT), dtype=torch.bool)
        mask = torch.cat([padding(), more], dim=1)
    return forward(ids, mask)[:, PROMPT - 1 :]


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


def test_rows_can_be_exchanged_and_the_room_is_kept() -> None:
    ids, order = some_ids(ROWS, LENGTH), torch.tensor([2, 0, 0])
    model = gpt(small())
    steps, other = StaticGPT(model, ROWS, LENGTH), StaticGPT(model, ROWS, LENGTH)
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
    mask = torch.cat([padding(), torch.zeros(ROWS, LENGTH - PROMPT, dtype=torch.bool)], dim=1)
    expected = model.logits(ids, mask.cuda())[:, PROMPT - 1 :]
    assert (found - expected).abs().max() < 1e-4 * expected.abs().max()
