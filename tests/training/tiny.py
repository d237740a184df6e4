"""A language model of a few hundred parameters and its endless data, for the tests of the loop.

It has what makes resuming hard: tied weights, dropout that draws from torch's global generator,
and a buffer that counts its calls and changes what the next one computes.
"""

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from attnlab.core.config import build
from attnlab.core.seeds import Seed
from attnlab.training.checkpoint import latest_checkpoint
from attnlab.training.settings import TrainSettings

VOCAB, WIDTH, ROWS, LENGTH = 13, 7, 8, 5
IGNORE = -100


@dataclass(frozen=True)
class Batch:
    ids: Tensor
    targets: Tensor
    key_padding_mask: Tensor | None = None


class Tiny(nn.Module):
    calls: Tensor

    def __init__(self, seed: int = 3, noisy: bool = True, dtype: torch.dtype = torch.float32):
        super().__init__()
        generator = Seed(seed).torch_generator()
        self.noisy = noisy
        self.embedding = nn.Embedding(VOCAB, WIDTH, dtype=dtype)
        self.mix = nn.Linear(WIDTH, WIDTH, dtype=dtype)
        self.norm = nn.LayerNorm(WIDTH, dtype=dtype)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False, dtype=dtype)
        self.head.weight = self.embedding.weight
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        x = x + torch.tanh(self.mix(x.cumsum(1)))
        if self.noisy:
            self.calls += 1
            x = functional.dropout(x, 0.1, self.training) * (1 + 0.01 * (self.calls % 3))
        return self.head(self.norm(x))

    def nll(
        self, ids: Tensor, targets: Tensor, key_padding_mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        logits = self(ids)
        total = functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="sum"
        )
        return total, (targets != IGNORE).sum()


class Endless:
    """Endless batches: rows count upwards from a random id, and some targets are ignored."""

    def __init__(self, seed: int = 0, pause: float = 0.0) -> None:
        self.seed, self.pause = seed, pause

    def batch(self, step: int) -> Batch:
        time.sleep(self.pause)  # so that a kill has something to fall into
        generator = Seed(self.seed).child("batch", step).torch_generator()
        first = torch.randint(VOCAB, (ROWS, 1), generator=generator)
        words = (first + torch.arange(LENGTH + 1) * (1 + first % 3)) % VOCAB
        scored = torch.rand((ROWS, LENGTH), generator=generator) < 0.8
        return Batch(words[:, :-1], words[:, 1:].where(scored, torch.tensor(IGNORE)))


def settings(**values: Any) -> TrainSettings:
    plain = {"steps": 12, "batch": ROWS, "evaluate_every": 5, "checkpoint_every": 3}
    return build(TrainSettings, plain | values)


def dev_loss(model: nn.Module) -> float:
    """Loss on a held-out batch; it increases the model's counter as real evaluations may."""
    assert isinstance(model, Tiny) and not model.training and not torch.is_grad_enabled()
    batch = Endless(seed=999).batch(0)
    total, scored = model.nll(batch.ids, batch.targets, None)
    return (total / scored).item()


def digest(folder: Path) -> str:
    """SHA-256 over weights, optimizer and log of the newest checkpoint, and the log beside it."""
    found = latest_checkpoint(folder)
    assert found is not None
    everything = hashlib.sha256(str(found.state.step).encode())
    for name in ("model.safetensors", "optimizer.safetensors", "log.jsonl"):
        everything.update(hashlib.sha256(found.read(name)).digest())
    everything.update((folder / "log.jsonl").read_bytes())
    return everything.hexdigest()


def one_thread() -> None:
    """A forked process may not use threads its parent started, so none may be started."""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
