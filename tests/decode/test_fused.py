"""Steps by our own kernels, and steps that run ahead of the host, equal the plain ones."""

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.decode import fast
from attnlab.decode.fused import FusedGPT, why_not_fused
from attnlab.decode.generate import generate
from attnlab.decode.strategy import parse_strategy
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.models.static import StaticGPT
from attnlab.parts.position import Rotary
from tests.models.variants import gpt, small, some_ids

PROMPT, LENGTH = 11, 53
GREEDY = parse_strategy("greedy")


def wide(bias: bool = True) -> GPT:
    """The shape the kernels are for, small; norms and biases that do something."""
    config = GPTConfig(5003, block=331, layers=2, heads=4, d_model=256, bias=bias)
    model = GPT(config, Seed(1).torch_generator()).eval()
    noise = Seed(2).torch_generator()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.05 * torch.randn(p.shape, generator=noise))
    return model


def padding(rows: int) -> Tensor:
    """Row i has i mod 5 pads on its left."""
    return torch.arange(PROMPT)[None] < (torch.arange(rows) % 5)[:, None]


def test_decoding_ahead_equals_step_by_step() -> None:
    model, ids = gpt(small()), some_ids(3, 7)
    one, many = StaticGPT(model, 3, 19), StaticGPT(model, 3, 19)
    first = one.start(ids).argmax(-1)
    many.start(ids)
    found, logprobs = [], []
    tokens, likely = zip(*(many.ahead(first, 5), many.ahead(torch.zeros(3).long(), 2)), strict=True)
    for given in (first, torch.zeros(3).long()):
        ids = given
        for _ in range(5 if given is first else 2):
            scores = one.step(ids)
            ids = scores.argmax(-1)
            found.append(ids)
            logprobs.append(scores.log_softmax(-1).amax(-1))
    assert torch.equal(torch.cat(tokens), torch.stack(found))
    gap = torch.cat(likely).double() - torch.stack(logprobs)
    assert gap.abs().max() < 64 * torch.finfo(torch.float32).eps
    with pytest.raises(UsageError, match="room for 19"):
        many.ahead(first, 6)


def test_the_loop_runs_ahead_and_finds_the_same_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = gpt(small())
    prompts = [[5, 3, 8], [2], [9, 9]]
    stop = generate(model, prompts, GREEDY, max_new_tokens=23)[1].ids[18]
    plain = generate(model, prompts, GREEDY, max_new_tokens=23, stop_ids=[stop])
    monkeypatch.setattr(
        "attnlab.decode.stepper.fast_stepper",
        lambda model, batch, length: StaticGPT(model, batch, length),
    )
    heard: list[tuple[int, int]] = []
    ahead = generate(
        model,
        prompts,
        GREEDY,
        max_new_tokens=23,
        stop_ids=[stop],
        on_token=lambda row, token: heard.append((row, token)),
    )
    assert [t.ids for t in ahead] == [t.ids for t in plain]
    assert [t.ended for t in ahead] == [t.ended for t in plain]
    gaps = [
        abs(a - b)
        for x, y in zip(ahead, plain, strict=True)
        for a, b in zip(x.logprobs, y.logprobs, strict=True)
    ]
    assert max(gaps) < 64 * torch.finfo(torch.float32).eps
    assert [tuple(t for r, t in heard if r == row) for row in range(3)] == [t.ids for t in plain]


def test_logits_that_are_no_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = gpt(small())
    monkeypatch.setattr(
        "attnlab.decode.stepper.fast_stepper",
        lambda model, batch, length: StaticGPT(model, batch, length),
    )
    table: Any = model.position.table
    with torch.no_grad():
        table[13].fill_(torch.nan)
    with pytest.raises(UsageError, match="NaN or infinite"):
        generate(model, [[5, 3]], GREEDY, max_new_tokens=23)


def test_what_the_kernels_are_not_for() -> None:
    assert "half precision" in str(why_not_fused(wide()))
    config = GPTConfig(50, heads=4, d_model=256, position=Rotary.Config())
    assert "parts" in str(why_not_fused(GPT(config, Seed(1).torch_generator())))


def test_a_recording_is_used_again_and_never_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    model = wide()
    monkeypatch.setattr(fast, "why_not_fused", lambda model: "a CPU")
    first = fast.recorded_steps(model, 3, 60)
    assert first.length == 64
    first.recorded = object()  # pyright: ignore[reportAttributeAccessIssue]
    assert fast.recorded_steps(model, 3, 60) is not first  # it is in use
    fast.keep_recording(first)
    assert fast.recorded_steps(model, 3, 64) is first
    fast.keep_recording(first)
    assert fast.recorded_steps(model, 5, 64) is not first
    first.model = model
    fast.keep_recording(first)
    model.embedding.data = model.embedding.data.clone()  # a recording would read the old weights
    assert fast.recorded_steps(model, 3, 64) is not first
    gone = weakref.ref(model)
    del model, first
    gc.collect()
    assert gone() is None


@pytest.mark.gpu
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 3, 5, 67])
def test_kernels_are_no_further_from_float64_than_torch(rows: int, bias: bool) -> None:
    exact = wide(bias).to("cuda", torch.bfloat16)
    model = wide(bias).to("cuda", torch.bfloat16)
    assert why_not_fused(model) is None
    exact = exact.double()
    ids = torch.randint(0, 5003, (rows, LENGTH + 241), generator=Seed(3).torch_generator()).cuda()
    sides = StaticGPT(exact, rows, 331), StaticGPT(model, rows, 331), FusedGPT(model, rows, 331)
    for side in sides:
        side.start(ids[:, :PROMPT], padding(rows).cuda())
    gaps = []
    for at in range(PROMPT, ids.shape[1]):
        truth, plain, fused = (side.step(ids[:, at]).double() for side in sides)
        gaps.append(
            [float((plain - truth).square().mean()), float((fused - truth).square().mean())]
        )
        assert torch.equal(sides[2].tokens[at - PROMPT], fused.argmax(-1))
    of_plain, of_fused = (sum(column) for column in zip(*gaps, strict=True))
    assert of_fused < 1.1 * of_plain


@pytest.mark.gpu
def test_the_same_rows_give_the_same_bits() -> None:
    model, prompts = wide().to("cuda", torch.bfloat16), some_ids(29, 7).tolist()
    found = [generate(model, prompts, GREEDY, max_new_tokens=200) for _ in range(3)]
    assert found[0] == found[1] == found[2]
    fresh = wide().to("cuda", torch.bfloat16)
    assert generate(fresh, prompts, GREEDY, max_new_tokens=200) == found[0]
