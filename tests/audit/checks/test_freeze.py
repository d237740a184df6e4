"""freeze: fires on a tensor that wrongly learns or does not, and on a wrong count."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from attnlab.audit.checks.freeze import NAME, count_unique, freeze
from attnlab.core.seeds import Seed
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.tasks.batches import sequential_batches
from attnlab.training.optimizer import build_optimizer
from attnlab.training.settings import TrainSettings
from attnlab.training.update import Updater, nll

WIDTH, CLASSES = 7, 3


class Classifier(nn.Module):
    def __init__(self, head_only: bool = True) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.random.manual_seed(3)
            self.first, self.norm = nn.Linear(5, WIDTH), nn.BatchNorm1d(WIDTH)
            self.head = nn.Linear(WIDTH, CLASSES)
        for part in (self.first, self.norm):
            part.requires_grad_(not head_only)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.norm(self.first(x))))


def step_of(
    model: nn.Module, parameters: list[nn.Parameter], rate: float = 0.1
) -> Callable[[], None]:
    optimizer = torch.optim.SGD(parameters, lr=rate)
    x = torch.randn(11, 5, generator=Seed(1).torch_generator())

    def step() -> None:
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()

    return step


def head(name: str) -> bool:
    return name.startswith("head.")


def test_the_clean_twin_passes() -> None:
    model = Classifier()
    step = step_of(model, list(model.head.parameters()))
    found = freeze(model, step, head, count=WIDTH * CLASSES + CLASSES)
    assert (found.name, found.verdict, found.number) == (NAME, "pass", 0)
    assert found.evidence["numbers"] == 24 and "24 numbers" in found.why
    assert "norm.running_mean" in found.evidence["buffers_moved"]


def test_head_mode_that_left_everything_trainable_is_caught() -> None:
    model = Classifier(head_only=False)
    found = freeze(model, step_of(model, list(model.parameters())), head)
    assert found.verdict == "fail" and "changed that should be frozen, first." in found.why


def test_what_the_optimizer_does_not_hold_is_caught() -> None:
    model = Classifier()
    found = freeze(model, step_of(model, list(model.head.parameters())[:1]), head)
    assert (found.verdict, found.number) == ("fail", 1)
    assert "1 tensors did not change that should learn, head.bias" in found.why


def test_a_step_that_does_nothing_is_caught() -> None:
    model = Classifier()
    found = freeze(model, step_of(model, list(model.head.parameters()), rate=0.0), head)
    assert found.verdict == "fail" and "nothing changed at all" in found.why


def test_a_count_that_is_off_is_caught() -> None:
    model = Classifier()
    step = step_of(model, list(model.head.parameters()))
    found = freeze(model, step, ["head.weight", "head.bias"], count=2 * WIDTH + 2)
    assert found.verdict == "fail" and "24 numbers learn, the formula says 16" in found.why


def test_weight_decay_on_frozen_tensors_is_caught() -> None:
    """No gradient, yet the optimizer shrinks it."""
    model = Classifier(head_only=False)
    model.first.weight.grad = torch.zeros_like(model.first.weight)
    optimizer = torch.optim.AdamW([model.first.weight], lr=0.1, weight_decay=0.1)
    found = freeze(model, optimizer.step, head)
    assert "first.weight" in found.evidence["moved"]


def test_a_factor_that_starts_at_zero_needs_two_steps() -> None:
    class Lora(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(torch.ones(5, 2))
            self.b = nn.Parameter(torch.zeros(2, 3))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.a @ self.b + 1

    one, two = Lora(), Lora()
    assert freeze(one, step_of(one, list(one.parameters())), ["a", "b"]).verdict == "fail"
    found = freeze(two, step_of(two, list(two.parameters())), ["a", "b"], steps=2)
    assert found.verdict == "pass"


def test_our_own_step_trains_all_of_a_gpt_and_counts_tied_weights_once() -> None:
    config = GPTConfig(vocab=13, block=11, layers=1, heads=2, d_model=6)
    model, settings = GPT(config, Seed(5).torch_generator()), TrainSettings(batch=4)
    updater = Updater(model, build_optimizer(model, settings), nll, settings)
    batch = next(sequential_batches([[0, 5, 3, 1], [0, 2, 1], [0, 7, 1, 4, 2]], 4))

    def step() -> None:
        updater.start(batch)
        updater.finish(0, 0.01)

    found = freeze(model, step, lambda name: True, count=model.parameter_count())
    assert found.verdict == "pass", found.why


def test_the_model_is_put_back() -> None:
    model = Classifier()
    before = {n: t.clone() for n, t in model.state_dict().items()}
    freeze(model, step_of(model, list(model.head.parameters())), head)
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())


def test_shared_storage_is_counted_once() -> None:
    whole = torch.zeros(5, 7)
    assert count_unique([whole, whole]) == 35
    assert count_unique([whole[:2], whole[2:]]) == 35
    assert count_unique([torch.zeros(3), torch.zeros(3)]) == 6


def test_not_applicable_and_unknown_names() -> None:
    model = Classifier()
    assert freeze(model, lambda: None, []).verdict == "not-applicable"
    with pytest.raises(ValueError, match="no parameter 'tail'"):
        freeze(model, lambda: None, ["tail"])
