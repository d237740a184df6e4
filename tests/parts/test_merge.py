"""Merges: what only permutes has no effect, what is random can be resumed, what is loud leaks."""

import copy
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab.core.seeds import Seed
from attnlab.parts.merge import Concat, Merge, Reweight, ReweightCausal, Shift, Shuffle
from tests.parts.cases import BATCH, DIMS, LENGTH, Case, rows


def heads(seed: int = 7, batch: int = BATCH) -> Tensor:
    shape = (batch, DIMS.heads, LENGTH, DIMS.d_head)
    return torch.randn(shape, generator=Seed(seed).torch_generator())


def made(config: Merge.Config, seed: int = 3) -> Any:
    return config.build(DIMS, Seed(seed).torch_generator())


@pytest.mark.parametrize("config", [Shift.Config(by=1), Shuffle.Config(when="once")])
def test_a_fixed_order_is_concat_with_columns_of_the_output_map_permuted(
    config: Merge.Config,
) -> None:
    """The theorem behind "no effect": the same function, so the same loss and gradients."""
    merge, plain = made(config), made(Concat.Config())
    inner = DIMS.heads * DIMS.d_head
    column = torch.arange(inner, dtype=torch.float32).reshape(1, DIMS.heads, 1, DIMS.d_head)
    order = merge.arrange(column).flatten().long()
    with torch.no_grad():
        plain.out.bias.copy_(merge.out.bias)
        plain.out.weight[:, order] = merge.out.weight
    x = heads()
    torch.testing.assert_close(merge(x), plain(x), rtol=1e-5, atol=1e-7)
    assert sorted(order.tolist()) == list(range(inner))


def orders(merge: Shuffle, count: int) -> list[tuple[int, ...]]:
    mark = torch.arange(DIMS.heads).float().reshape(1, -1, 1, 1)
    return [tuple(merge.arrange(mark).flatten().int().tolist()) for _ in range(count)]


def test_every_forward_draws_an_order_and_all_are_equally_likely() -> None:
    merge = made(Shuffle.Config())
    found = Counter(orders(merge, 600))
    assert len(found) == 6  # 3!
    # chi-square with 5 degrees of freedom: 20.5 is passed once in a thousand
    assert sum((n - 100) ** 2 / 100 for n in found.values()) < 20.5


def test_an_interrupted_run_repeats_the_orders() -> None:
    merge = made(Shuffle.Config())
    orders(merge, 5)
    saved = copy.deepcopy(merge.state_dict())
    expected = orders(merge, 20)
    resumed = made(Shuffle.Config(), seed=11)
    resumed.load_state_dict(saved)
    assert orders(resumed, 20) == expected
    assert orders(made(Shuffle.Config(), seed=11), 20) != expected


def test_evaluation_draws_too_and_leaves_training_alone() -> None:
    often, never = made(Shuffle.Config()), made(Shuffle.Config())
    evaluated = orders(often.eval(), 50)
    assert len(set(evaluated)) > 1
    assert orders(often.train(), 20) == orders(never.train(), 20)
    assert evaluated != orders(made(Shuffle.Config()), 50)


def test_an_order_drawn_once_stays() -> None:
    merge = made(Shuffle.Config(when="once"))
    assert len(set(orders(merge, 20))) == 1
    assert len({orders(made(Shuffle.Config(when="once"), s), 1)[0] for s in range(40)}) == 6


def weights(merge: Any, x: Tensor) -> Tensor:
    """What each head was multiplied by."""
    return (merge.arrange(x) / x).mean(dim=(2, 3))


def test_over_the_batch_a_single_sentence_gets_weight_one() -> None:
    merge, x = made(Reweight.Config()), heads(batch=5)
    torch.testing.assert_close(weights(merge, x).sum(dim=0), torch.ones(DIMS.heads))
    torch.testing.assert_close(weights(merge, x[:1]), torch.ones(1, DIMS.heads))


def test_over_the_heads_weights_of_a_row_sum_to_one() -> None:
    merge, x = made(Reweight.Config(over="heads")), heads(batch=5)
    torch.testing.assert_close(weights(merge, x).sum(dim=1), torch.ones(5))
    louder = x.clone()
    louder[2, 1] *= 10
    assert weights(merge, louder)[2, 1] > 2 * weights(merge, x)[2, 1]


@pytest.mark.parametrize(
    ("config", "share"),
    [
        (Reweight.Config(over="batch", off_at_inference=True), 1 / 5),
        (Reweight.Config(over="heads", off_at_inference=True), 1 / DIMS.heads),
        (ReweightCausal.Config(off_at_inference=True), 1 / DIMS.heads),
    ],
)
def test_switched_off_a_head_keeps_the_mean_weight_of_training(
    config: Merge.Config, share: float
) -> None:
    merge = made(config)
    merge.arrange(heads(batch=5))
    x = heads(batch=2)
    torch.testing.assert_close(merge.eval().arrange(x), x * share)
    assert not torch.allclose(merge.train().arrange(x), x * share)


@pytest.mark.parametrize("over", ["batch", "heads"])
def test_switched_off_nothing_leaks_at_inference(over: Any) -> None:
    attention = Case(Reweight.Config(over=over, off_at_inference=True)).attention()
    x, changed = rows(), rows()
    changed[:, 3:] += 1
    assert not torch.equal(attention(x)[:, :3], attention(changed)[:, :3])
    attention.eval()
    assert torch.equal(attention(x)[:, :3], attention(changed)[:, :3])


def test_causal_weights_at_the_end_are_those_over_the_whole_row() -> None:
    x = heads()
    causal, whole = made(ReweightCausal.Config()), made(Reweight.Config(over="heads"))
    torch.testing.assert_close(causal.arrange(x)[:, :, -1], whole.arrange(x)[:, :, -1])
    assert not torch.allclose(causal.arrange(x)[:, :, 0], whole.arrange(x)[:, :, 0])


@pytest.mark.parametrize("config", [Reweight.Config(), ReweightCausal.Config()])
def test_silent_heads_stay_silent_with_finite_gradients(config: Merge.Config) -> None:
    merge, x = made(config), torch.zeros(BATCH, DIMS.heads, LENGTH, DIMS.d_head)
    x.requires_grad_()
    out = merge.arrange(x)
    out.sum().backward()
    assert torch.equal(out, torch.zeros_like(out))
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
