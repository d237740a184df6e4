"""A step equals the same step written out in float64; a step with a problem changes nothing."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from attnlab.core.errors import UsageError
from attnlab.training.loop import train
from attnlab.training.result import Hooks
from attnlab.training.schedule import learning_rate
from attnlab.training.settings import TrainSettings
from attnlab.training.update import nll

from .tiny import IGNORE, ROWS, Batch, Endless, Tiny, settings

EXACT = 1e-12  # float64: thousands of roundings of 1e-16


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def largest_gap(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    return max((one[name] - other[name]).abs().max().item() for name in one)


def plain_loop(model: Tiny, wanted: TrainSettings) -> None:
    """The textbook step: mean loss, norm over all gradients, torch's unfused optimizer."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": wanted.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    if wanted.optimizer == "adamw":
        optimizer = torch.optim.AdamW(groups, betas=wanted.betas, foreach=False, fused=False)
    elif wanted.optimizer == "sgd":
        optimizer = torch.optim.SGD(groups, momentum=wanted.momentum, foreach=False, fused=False)
    else:
        optimizer = torch.optim.Adagrad(groups, foreach=False, fused=False)
    for step in range(wanted.steps):
        batch = Endless().batch(step)
        logits = model(batch.ids).flatten(0, 1)
        functional.cross_entropy(logits, batch.targets.flatten(), ignore_index=IGNORE).backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        norm = math.sqrt(sum(g.pow(2).sum().item() for g in gradients))
        for gradient in gradients:
            gradient.mul_(min(1.0, wanted.clip / norm) if wanted.clip else 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, wanted)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("clip", [0.0, 0.3, 1000.0])
@pytest.mark.parametrize(
    "choice",
    [{"optimizer": "adamw"}, {"optimizer": "sgd", "momentum": 0.8}, {"optimizer": "adagrad"}],
    ids=lambda choice: choice["optimizer"],
)
def test_the_loop_is_the_textbook(choice: dict[str, Any], clip: float) -> None:
    wanted = settings(steps=7, learning_rate=0.05, clip=clip, **choice)
    ours, theirs = (Tiny(noisy=False, dtype=torch.float64) for _ in range(2))
    begun = weights(ours)
    found = train(ours, Endless(), wanted)
    plain_loop(theirs, wanted)
    assert largest_gap(weights(ours), weights(theirs)) < EXACT
    assert largest_gap(weights(ours), begun) > 1e-2
    norms = [line["gradient_norm"] for line in found.log]
    assert min(norms) > 0.3 and max(norms) < 1000, "clipped always, or never"


@pytest.mark.parametrize("number", [2, 3, 8])
def test_a_batch_in_pieces_is_the_same_step(number: int) -> None:
    """1 x 8 = 8 x 1: normalised by what the whole step scored, not piece by piece."""
    whole, cut = (Tiny(noisy=False, dtype=torch.float64) for _ in range(2))
    one = train(whole, Endless(), settings(steps=5))
    other = train(cut, Endless(), settings(steps=5, accumulate=number))
    assert largest_gap(weights(whole), weights(cut)) < EXACT
    for a, b in zip(one.log, other.log, strict=True):
        assert a == pytest.approx(b, rel=EXACT)
    counts = (Endless().batch(0).targets != IGNORE).sum(1)
    assert len(counts) == ROWS and counts.unique().numel() > 1, "a mean of means would differ"


def test_the_mean_of_means_would_be_seen() -> None:
    """The planted fault of the test above: each micro-batch is divided by its own count."""

    def wrong(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        total, scored = nll(model, batch)
        return total / scored, torch.tensor(1)

    whole, cut = (Tiny(noisy=False, dtype=torch.float64) for _ in range(2))
    train(whole, Endless(), settings(steps=5), loss=wrong)
    train(cut, Endless(), settings(steps=5, accumulate=8), loss=wrong)
    assert largest_gap(weights(whole), weights(cut)) > 1e-6


class Broken:
    """A loss that is finite until step 4, then has this value or this gradient."""

    def __init__(self, value: float = 0.0, gradient: bool = False) -> None:
        self.value, self.gradient, self.calls = value, gradient, 0

    def __call__(self, model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        self.calls += 1
        total, scored = nll(model, batch)
        if self.calls == 4 and self.gradient:
            assert isinstance(model, Tiny)
            zero = (model.mix.weight - model.mix.weight.detach()).pow(2).sum()
            return total + zero.sqrt(), scored  # the value is right, the slope 0/0
        return total + (self.value if self.calls == 4 else 0.0), scored


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (Broken(math.nan), "step 4: the loss is nan"),
        (Broken(math.inf), "step 4: the loss is inf"),
        (Broken(gradient=True), "step 4: the gradient of mix.weight is not finite"),
    ],
    ids=["nan", "inf", "gradient"],
)
def test_a_step_that_is_not_finite_changes_nothing(loss: Broken, said: str) -> None:
    model, three = Tiny(noisy=False), Tiny(noisy=False)
    found = train(model, Endless(), settings(), loss=loss)
    assert (found.ending, found.steps, found.problem) == ("diverged", 3, said)
    assert len(found.log) == 3 and loss.calls == 4
    asked = iter([False] * 3 + [True])
    train(three, Endless(), settings(), hooks=Hooks(stop=lambda: next(asked)))
    assert largest_gap(weights(model), weights(three)) == 0


def test_a_batch_without_targets_says_so() -> None:
    class Empty:
        def batch(self, step: int) -> Batch:
            batch = Endless().batch(step)
            return Batch(batch.ids, torch.full_like(batch.targets, IGNORE)) if step == 2 else batch

    with pytest.raises(UsageError, match="step 3: no token"):
        train(Tiny(), Empty(), settings())


def test_bfloat16_is_for_products_only() -> None:
    plain, half = Tiny(noisy=False), Tiny(noisy=False)
    one = train(plain, Endless(), settings(steps=3))
    other = train(half, Endless(), settings(steps=3, precision="bfloat16"))
    assert {p.dtype for p in half.parameters()} == {torch.float32}
    gaps = [abs(a - b) / a for a, b in zip(one.losses, other.losses, strict=True)]
    assert 0 < max(gaps) < 3 * torch.finfo(torch.bfloat16).eps


def test_what_is_frozen_stays() -> None:
    model = Tiny()
    model.mix.requires_grad_(False)
    begun = weights(model)
    train(model, Endless(), settings())
    moved = {name for name, p in weights(model).items() if not torch.equal(p, begun[name])}
    assert moved == {"embedding.weight", "norm.weight", "norm.bias"}
    model.requires_grad_(False)
    with pytest.raises(UsageError, match="nothing to train"):
        train(model, Endless(), settings())


def test_any_loss_on_any_batch() -> None:
    """A classifier with labels in a mapping: no language model, no nll."""

    class Labels:
        def batch(self, step: int) -> dict[str, Tensor]:
            ids = Endless().batch(step).ids
            return {"ids": ids, "labels": ids[:, -1] % 2}

    def cross_entropy(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        scores = model(batch["ids"])[:, -1, :2]
        total = functional.cross_entropy(scores, batch["labels"], reduction="sum")
        return total, torch.tensor(len(scores))

    found = train(Tiny(), Labels(), settings(steps=40, learning_rate=0.03), loss=cross_entropy)
    assert found.losses[-1] < 0.5 * found.losses[0] and found.tokens == 40 * ROWS


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler uses torch.jit
def test_compiled_is_the_same_training() -> None:
    plain, compiled = (Tiny(noisy=False, dtype=torch.float64) for _ in range(2))
    train(plain, Endless(), settings(steps=5))
    train(compiled, Endless(), settings(steps=5, compile=True))
    assert largest_gap(weights(plain), weights(compiled)) < EXACT
