"""Our GPT in the training loop: it learns, and its random parts resume bit for bit."""

from pathlib import Path

import pytest
import torch

from attnlab.core.seeds import Seed
from attnlab.models.gpt import GPT, GPTConfig
from attnlab.parts.merge import Concat, Merge, Shuffle
from attnlab.parts.position import Learned, Position, Rotary
from attnlab.tasks.batches import PackedBatches
from attnlab.training.loop import train
from attnlab.training.result import Hooks, TrainResult
from attnlab.training.settings import TrainSettings

from .test_loop import stopping
from .tiny import digest, settings

VOCAB, BLOCK = 17, 11
PARTS = [(Concat.Config(), Learned.Config()), (Shuffle.Config(), Rotary.Config())]


def gpt(merge: Merge.Config, position: Position.Config) -> GPT:
    config = GPTConfig(
        vocab=VOCAB, block=BLOCK, layers=2, heads=3, d_model=18, merge=merge, position=position
    )
    return GPT(config, Seed(5).torch_generator())


def text() -> list[int]:
    """Each token is three times the previous one (mod size): one step of context is enough."""
    words, word = [], 1
    for number in range(600):
        words.append(word)
        word = word * 3 % VOCAB if number % 16 else number % VOCAB or 1
    return words


def fit(model: GPT, wanted: TrainSettings, folder: Path | None, hooks: Hooks) -> TrainResult:
    blocks = PackedBatches(text(), BLOCK, wanted.batch, Seed(7))
    return train(model, blocks, wanted, checkpoints=folder, hooks=hooks)


def dev(model: torch.nn.Module) -> float:
    assert isinstance(model, GPT)
    batch = PackedBatches(text(), BLOCK, 5, Seed(8)).batch(0)
    total, scored = model.nll(batch.ids, batch.targets)
    return (total / scored).item()


@pytest.mark.parametrize(("merge", "position"), PARTS, ids=["concat", "shuffle"])
def test_it_learns(merge: Merge.Config, position: Position.Config) -> None:
    model = gpt(merge, position)
    wanted = settings(steps=60, batch=7, learning_rate=0.02, evaluate_every=20)
    found = fit(model, wanted, None, Hooks(evaluate=dev))
    uniform = float(torch.log(torch.tensor(VOCAB)))
    assert found.losses[0] == pytest.approx(uniform, rel=0.05), "it knows nothing at first"
    assert found.best_value is not None and found.best_value < 0.5 * uniform


@pytest.mark.parametrize(("merge", "position"), PARTS, ids=["concat", "shuffle"])
def test_it_resumes(in_memory: Path, merge: Merge.Config, position: Position.Config) -> None:
    wanted = settings(steps=12, batch=7, learning_rate=0.02)
    fit(gpt(merge, position), wanted, in_memory / "whole", Hooks(evaluate=dev))
    for after in (2, 4, 0):
        asked = stopping(after).stop
        hooks = Hooks(evaluate=dev, stop=asked)
        assert fit(gpt(merge, position), wanted, in_memory / "own", hooks).ending == "stopped"
    fit(gpt(merge, position), wanted, in_memory / "own", Hooks(evaluate=dev))
    assert digest(in_memory / "own") == digest(in_memory / "whole")


def test_pieces_are_the_same_step() -> None:
    one, other = (gpt(*PARTS[0]).double() for _ in range(2))
    fit(one, settings(steps=5, batch=8), None, Hooks())
    fit(other, settings(steps=5, batch=8, accumulate=8), None, Hooks())
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        assert (a - b).abs().max() < 1e-12, name
