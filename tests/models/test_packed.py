"""Laid-out copies give the same products, and follow their weights."""

import gc
import weakref

import pytest
import torch
from torch import nn

from attnlab.models import packed as room
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.models.packed import packed_maps, why_not_packed
from tests.models.variants import gpt, llama, small, some_ids

ROUNDING = 2e-5  # of logits, in float32


def gap(model: GPT, rows: int) -> float:
    """Logits of one more token from the copies, against the model itself."""
    ids = some_ids(rows, 7)
    cached, expected = model.cached(rows, 7), model.logits(ids)[:, -1:]
    cached.step(ids[:, :6])
    with packed_maps(model, rows):
        found = cached.step(ids[:, 6:])
    return float((found - expected).abs().max() / expected.abs().max())


@torch.no_grad()
@pytest.mark.parametrize("rows", [1, 3, 8])
@pytest.mark.parametrize(
    "config", [small(), llama(), small(tie=False)], ids=["gpt", "llama", "untied"]
)
def test_the_product_is_the_product(config: GPTConfig, rows: int) -> None:
    model = gpt(config, torch.float32)
    assert why_not_packed(model) is None
    assert gap(model, rows) < ROUNDING
    assert gap(model, rows) < ROUNDING  # and again from what is kept
    linear = next(module for module in model.modules() if type(module) is nn.Linear)
    assert "forward" not in vars(linear) and "to_logits" not in vars(model)


@torch.no_grad()
def test_copies_follow_a_step_of_training() -> None:
    model = gpt(small(), torch.float32)
    assert gap(model, 3) < ROUNDING
    before = model.logits(some_ids(3, 7))
    out = next(model.layers()).attention.merge.out
    out.weight.mul_(-2)  # in place, as an optimizer does
    assert not torch.allclose(before, model.logits(some_ids(3, 7)), atol=1e-2)
    assert gap(model, 3) < ROUNDING
    out.weight.data = out.weight.data * 2
    assert gap(model, 3) < ROUNDING


def test_where_there_is_no_such_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = gpt(small(), torch.float32)
    assert "float32" in str(why_not_packed(gpt(small())))
    monkeypatch.setattr(room, "MOST", 100)
    assert "too large" in str(why_not_packed(model))
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert "oneDNN" in str(why_not_packed(model))


def test_copies_go_with_their_model() -> None:
    model = gpt(small(), torch.float32)
    gap(model, 3)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
