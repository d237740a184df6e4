"""On a GPU: bfloat16 is near float32, and deterministic mode resumes bit for bit."""

from pathlib import Path

import pytest
import torch

from attnlab.training.loop import train
from attnlab.training.result import Hooks

from .test_gpt import PARTS, VOCAB, PackedBatches, Seed, gpt, text
from .test_loop import stopping
from .tiny import digest, settings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
BATCHES = PackedBatches(text(), 11, 7, Seed(7))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("merge", "position"), PARTS, ids=["concat", "shuffle"])
def test_deterministic_resumes_bit_for_bit(
    in_memory: Path, precision: str, merge: object, position: object
) -> None:
    wanted = settings(steps=12, precision=precision, deterministic=True, learning_rate=0.02)

    def fit(folder: Path, hooks: Hooks) -> None:
        model = gpt(merge, position).cuda()  # pyright: ignore[reportArgumentType]
        train(model, BATCHES, wanted, checkpoints=folder, hooks=hooks)

    fit(in_memory / "whole", Hooks())
    for after in (2, 4, 3):
        fit(in_memory / "own", Hooks(stop=stopping(after).stop))
    fit(in_memory / "own", Hooks())
    assert digest(in_memory / "own") == digest(in_memory / "whole")


def test_bfloat16_learns_as_float32_does() -> None:
    losses = []
    for precision in ("float32", "bfloat16"):
        model = gpt(*PARTS[0]).cuda()
        found = train(model, BATCHES, settings(steps=60, precision=precision, learning_rate=0.02))
        losses.append(sum(found.losses[-5:]) / 5)
    uniform = float(torch.log(torch.tensor(VOCAB)))
    assert max(losses) < 0.5 * uniform and abs(losses[0] - losses[1]) < 0.1 * uniform


def test_a_checkpoint_moves_between_devices(in_memory: Path) -> None:
    wanted = settings(steps=12)
    train(gpt(*PARTS[0]).cuda(), BATCHES, wanted, checkpoints=in_memory, hooks=stopping_only(5))
    with pytest.warns(UserWarning, match="not bit-comparable"):
        found = train(gpt(*PARTS[0]), BATCHES, wanted, checkpoints=in_memory)
    assert found.ending == "done" and not found.bit_comparable


def stopping_only(after: int) -> Hooks:
    return Hooks(stop=stopping(after).stop)
