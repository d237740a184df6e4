"""The layer as a whole: which way it goes, what it says of itself, and its cache."""

from unittest.mock import patch

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.parts import fast
from attnlab.parts.attention import Attention
from attnlab.parts.cached import CachedAttention, TextSoFar, why_not_cached
from attnlab.parts.fast import needed_padding_mask
from attnlab.parts.mask import Causal, Full, Window
from attnlab.parts.merge import Concat, Reweight, Shuffle
from attnlab.parts.normalise import Argmax
from attnlab.parts.part import Dims, Part
from attnlab.parts.position import Alibi, Learned, NoPosition, Rotary
from tests.parts.cases import BATCH, LENGTH, Case, paddings, rows, run

WAYS: list[tuple[Part.Config, str]] = [
    (NoPosition.Config(), "triangle"),
    (Learned.Config(), "triangle"),
    (Rotary.Config(), "triangle"),
    (Alibi.Config(), "bias"),
    (Window.Config(size=2), "bias"),
    (Argmax.Config(), "steps"),
    (Shuffle.Config(), "triangle"),
    (Reweight.Config(), "triangle"),
]


def way(attention: Attention, padding: torch.Tensor | None = None) -> str:
    """How forward got its heads."""
    with patch.object(
        fast, "scaled_dot_product_attention", wraps=scaled_dot_product_attention
    ) as fused:
        attention(rows(), None, padding)
    if not fused.called:
        return "steps"
    assert fused.call_args.kwargs["scale"] == pytest.approx(10**-0.5)
    return "triangle" if fused.call_args.kwargs["is_causal"] else "bias"


@pytest.mark.parametrize(("config", "expected"), WAYS)
def test_the_shortest_exact_way_is_taken(config: Part.Config, expected: str) -> None:
    assert way(Case(config).attention()) == expected


def test_padding_at_the_end_keeps_the_triangle() -> None:
    attention, reweighted = Case(Causal.Config()).attention(), Case(Reweight.Config()).attention()
    assert way(attention, paddings()["end"][0]) == "triangle"
    assert way(attention, paddings()["middle"][0]) == "bias"
    assert way(reweighted, paddings()["end"][0]) == "bias"


def test_what_is_hidden_is_forgotten_only_where_nobody_looks() -> None:
    generator = Seed(1).torch_generator()
    layer = Case(Causal.Config()).attention()
    end, middle = paddings()["end"][0], paddings()["middle"][0]
    full = Case(Full.Config()).attention().mask
    assert needed_padding_mask(None, layer.mask, layer.merge) is None
    assert needed_padding_mask(end, layer.mask, layer.merge) is None
    assert needed_padding_mask(torch.zeros_like(end), layer.mask, layer.merge) is None
    assert needed_padding_mask(middle, layer.mask, layer.merge) is middle
    assert needed_padding_mask(end, full, layer.merge) is end
    loud = Reweight.Config().build(Dims(7, 3, 10, 11), generator)
    assert needed_padding_mask(end, layer.mask, loud) is end
    assert Concat.Config().build(Dims(7, 3, 10, 11), generator).per_position


def test_a_layer_says_why_it_is_not_causal() -> None:
    assert Case(Causal.Config()).attention().leaks is None
    assert Case(Full.Config()).attention().leaks == "its mask looks ahead"
    assert Case(Reweight.Config()).attention().leaks == Reweight.leaks


def test_the_position_is_stored_once_with_the_model() -> None:
    attention = Case(Learned.Config()).attention()
    assert not [name for name in attention.state_dict() if "position" in name or "table" in name]
    assert attention.position.get_parameter("table").shape == (11, 7)


def test_a_cache_that_is_full_or_has_other_rows_says_so() -> None:
    attention, x = Case(Causal.Config()).attention(), rows()
    cache = CachedAttention(attention, TextSoFar(BATCH, 3))
    cache.step(x[:, :3])
    with pytest.raises(UsageError, match="2 rows of 3 tokens, got 2 of 4"):
        cache.step(x[:, 3:4])
    with pytest.raises(UsageError, match="got 1 of 1"):
        CachedAttention(attention, TextSoFar(BATCH, 3)).step(x[:1, :1])


def test_a_cache_is_refused_with_the_reason() -> None:
    for config in (Full.Config(), Reweight.Config(), Shuffle.Config()):
        attention = Case(config).attention()
        reason = why_not_cached(attention)
        assert reason
        with pytest.raises(UsageError, match="token by token"):
            CachedAttention(attention, TextSoFar(BATCH, LENGTH))


def test_rows_of_a_cache_can_be_taken_in_another_order() -> None:
    attention, x = Case(Alibi.Config()).attention(), rows()
    cache = CachedAttention(attention, TextSoFar(BATCH, LENGTH))
    cache.step(x[:, :3])
    rows_taken = torch.tensor([1, 1, 0])
    cache.text.take(rows_taken)
    cache.take(rows_taken)
    made = cache.step(x[rows_taken][:, 3:])
    torch.testing.assert_close(made, attention(x[rows_taken])[:, 3:])


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_on_the_gpu_both_ways_agree_where_nothing_is_seen(kind: torch.dtype) -> None:
    for config in (Causal.Config(), Alibi.Config(), Window.Config(size=2)):
        attention = Case(config).attention(dtype=kind).cuda()
        attention.position.cuda()
        padding = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
        padding[1] = True
        x = rows().to("cuda", kind).requires_grad_()
        forward, steps = run(attention, x, padding.cuda())
        room = 64 * torch.finfo(kind).eps
        torch.testing.assert_close(forward[0], steps.out[0], rtol=room, atol=room)
        (slope,) = torch.autograd.grad(forward.square().sum(), x)
        assert torch.isfinite(slope).all()
