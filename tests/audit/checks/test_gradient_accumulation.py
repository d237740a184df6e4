"""gradient-accumulation: fires on a mean of means, a lost division, a lost piece; ours passes."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnlab.audit.checks.gradient_accumulation import (
    LIMIT,
    NAME,
    accumulated_step,
    gradient_accumulation,
)
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.tasks.batches import Batch, sequential_batches
from attnlab.training.optimizer import build_optimizer
from attnlab.training.settings import TrainSettings
from attnlab.training.update import Updater, nll

VOCAB, ROWS = 23, 8


def gpt() -> GPT:
    config = GPTConfig(vocab=VOCAB, block=17, layers=2, heads=2, d_model=14)
    return GPT(config, Seed(5).torch_generator())


def ragged() -> Batch:
    rng = Seed(7).numpy_generator()
    rows = [rng.integers(0, VOCAB, n) for n in (3, 13, 5, 17, 2, 11, 7, 4)]
    return next(sequential_batches(rows, ROWS))


def even() -> Batch:
    rng = Seed(7).numpy_generator()
    return next(sequential_batches([rng.integers(0, VOCAB, 11) for _ in range(ROWS)], ROWS))


def mean(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
    total, scored = nll(model, batch)
    return total / scored, torch.tensor(1)


def plain_step(model: nn.Module, fault: str = "") -> Callable[[Sequence[Any]], dict[str, Tensor]]:
    """A hand-written accumulating step, right or wrong in one of the usual ways."""
    model = copy.deepcopy(model).double()

    def step(parts: Sequence[Any]) -> dict[str, Tensor]:
        model.zero_grad()
        scored = sum(int((p.targets != IGNORE).sum()) for p in parts)
        for part in parts:
            if fault == "forgets":
                model.zero_grad()
            total, count = nll(model, part)
            share = {
                "": scored,
                "forgets": scored,
                "means": float(count) * len(parts),
                "sums": float(count),
                "twice": scored * len(parts),
                "times": scored / len(parts),
            }[fault]
            (total / share).backward()
        return {n: p.grad for n, p in model.named_parameters() if p.grad is not None}

    return step


def test_our_own_loss_passes() -> None:
    found = gradient_accumulation(nll, gpt(), ragged())
    assert (found.name, found.verdict, found.threshold) == (NAME, "pass", LIMIT)
    assert found.number is not None and found.number < 1e-12
    assert found.evidence["scored"] == [2, 12, 4, 16, 1, 10, 6, 3]


def test_our_own_training_step_passes() -> None:
    """The loop cuts a batch itself: `accumulate` pieces of it."""
    model, batch = gpt().double(), ragged()

    def step(parts: Sequence[Any]) -> dict[str, Tensor]:
        settings = TrainSettings(batch=ROWS, accumulate=len(parts))
        whole = batch if len(parts) > 1 else parts[0]
        updater = Updater(model, build_optimizer(model, settings), nll, settings)
        updater.optimizer.zero_grad()
        updater.start(whole)
        return {
            n: p.grad / updater.scored for n, p in model.named_parameters() if p.grad is not None
        }

    found = accumulated_step(step, batch)
    assert found.verdict == "pass" and found.number is not None and found.number < 1e-12


def test_the_clean_twin_of_an_arbitrary_step_passes() -> None:
    assert accumulated_step(plain_step(gpt()), ragged()).verdict == "pass"


def test_a_loss_that_is_a_mean_is_caught() -> None:
    found = gradient_accumulation(mean, gpt(), ragged())
    assert found.verdict == "not-applicable"  # it says that every row scores one token

    def counted(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        total, scored = nll(model, batch)
        return total / scored, scored

    assert gradient_accumulation(counted, gpt(), ragged()).verdict == "fail"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("means", "each piece is divided by its own count"),
        ("sums", "the pieces' means are added and not divided"),
        ("times", "the sum over pieces, not divided by their number"),
        ("twice", "divided by the number of pieces once too often"),
        ("forgets", ""),
    ],
)
def test_the_usual_faults_are_caught_and_named(fault: str, said: str) -> None:
    found = accumulated_step(plain_step(gpt(), fault), ragged())
    assert found.verdict == "fail" and found.number is not None and found.number > 1e-3
    assert said in found.why and found.evidence["tensor"] in found.why


def test_only_the_last_piece() -> None:
    step = plain_step(gpt())
    found = accumulated_step(lambda parts: step(parts[-1:]), ragged())
    assert found.verdict == "fail" and "only the last piece counts" in found.why


def test_a_gradient_that_is_not_there_is_caught() -> None:
    step = plain_step(gpt())

    def loses(parts: Sequence[Any]) -> dict[str, Tensor]:
        found = step(parts)
        return found if len(parts) == 1 else {n: g for n, g in found.items() if n != "norm.weight"}

    found = accumulated_step(loses, ragged())
    assert found.verdict == "fail" and "norm.weight has a gradient one way only" in found.why


def test_even_rows_cannot_tell() -> None:
    found = gradient_accumulation(nll, gpt(), even())
    assert found.verdict == "not-applicable" and "every row scores 10 tokens" in found.why
    # and indeed the mean of means would pass there
    assert accumulated_step(plain_step(gpt(), "means"), even()).verdict == "pass"


def test_one_row_has_no_pieces() -> None:
    batch = Batch(*(t[:1] if t is not None else None for t in ragged()))  # pyright: ignore[reportArgumentType]
    assert gradient_accumulation(nll, gpt(), batch).verdict == "not-applicable"


class Coarse(GPT):
    """Computes in float32 whatever it is given, as Mamba's D does; or has no float64 at all."""

    def __init__(self, refuses: bool = False) -> None:
        super().__init__(gpt().config, Seed(5).torch_generator())
        self.gain = nn.Parameter(torch.ones(14))
        self.refuses = refuses

    def states(self, ids: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        if self.refuses and self.gain.dtype == torch.float64:
            raise RuntimeError("expected Float32, got Double")
        x = super().states(ids, key_padding_mask)
        return x * self.gain.float().to(x.dtype)


@pytest.mark.parametrize("refuses", [False, True])
def test_a_model_that_computes_in_float32_is_no_fault(refuses: bool) -> None:
    """Its rounding is measured and allowed for."""
    model = Coarse(refuses)
    found = gradient_accumulation(nll, model, ragged())
    assert found.verdict == "pass" and found.evidence["noise"] > 1e-10, found.why
    assert found.threshold is not None and LIMIT < found.threshold < 1e-4
    if refuses:
        return
    wrong = accumulated_step(plain_step(model, "means"), ragged())
    assert wrong.verdict == "fail" and "its own count" in wrong.why


def test_rows_that_look_at_their_neighbours_are_caught() -> None:
    def loss(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        total, scored = nll(model, batch)
        return total * (1 + batch.ids[0, 0] / VOCAB), scored

    found = gradient_accumulation(loss, gpt(), ragged())
    assert found.verdict == "fail" and "the order of the rows alone" in found.why


def test_a_batch_without_tensors_cannot_be_cut() -> None:
    assert accumulated_step(lambda parts: {}, "text").verdict == "not-applicable"


def test_the_model_is_left_alone() -> None:
    model = gpt()
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    gradient_accumulation(nll, model, ragged())
    assert model.training and all(p.grad is None for p in model.parameters())
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())
