"""Tiny with blocks, and with parameters that are hard to shard.

embedding = head   tied, outside of the blocks
scale              a scalar: cannot be sharded
turn               one matrix that two blocks own
bend               one module that the model and both blocks contain
"""

import hashlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import torch
from tiny import VOCAB, WIDTH, Tiny, settings
from torch import Tensor, nn
from torch.nn import functional

from attnlab.core.seeds import Seed
from attnlab.training.checkpoint import latest_checkpoint
from attnlab.training.optimizer import build_optimizer, optimizer_tensors
from attnlab.training.tensors import model_tensors, to_safetensors

WIDE, BLOCKS = 11, 2


class Layer(nn.Module):
    def __init__(self, bend: nn.Module, turn: nn.Parameter, dtype: torch.dtype) -> None:
        super().__init__()
        self.bend, self.turn = bend, turn
        self.wide = nn.Linear(WIDTH, WIDE, dtype=dtype)
        self.out = nn.Linear(WIDE, WIDTH, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.out(torch.tanh(self.wide(self.bend(x) @ self.turn)))


class Stack(Tiny):
    def __init__(self, noisy: bool = True, dtype: torch.dtype = torch.float32):
        super().__init__(noisy=noisy, dtype=dtype)
        self.bend = nn.LayerNorm(WIDTH, dtype=dtype)
        self.scale = nn.Parameter(torch.ones((), dtype=dtype))
        turn = nn.Parameter(torch.eye(WIDTH, dtype=dtype))
        self.blocks = nn.ModuleList(Layer(self.bend, turn, dtype) for _ in range(BLOCKS))
        generator = Seed(5).torch_generator()
        with torch.no_grad():
            for parameter in self.blocks.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)

    @staticmethod
    def cut() -> list[nn.Parameter]:
        """The parameters that a sharded training shards."""
        whole = {"scale", "blocks.0.turn"}
        return [p for name, p in Stack().named_parameters() if name not in whole]

    @staticmethod
    def uncut() -> int:
        """Number of unsharded parameters: those of `scale` and `turn`."""
        return 1 + WIDTH * WIDTH

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        x = x + torch.tanh(self.mix(self.bend(x.cumsum(1)) * self.scale))
        for block in self.blocks:
            x = block(x)
        if self.noisy:
            self.calls += 1
            x = functional.dropout(x, 0.1, self.training) * (1 + 0.01 * (self.calls % 3))
        return self.head(self.norm(x))


assert VOCAB % 2 and VOCAB % 3 and WIDE % 2, "uneven shards"


def content(folder: Path, dtype: torch.dtype = torch.float32, **asked: Any) -> str:
    """SHA-256 over step, weights, optimizer and log of the newest checkpoint, in any layout."""
    found, model = latest_checkpoint(folder), Stack(dtype=dtype)
    assert found is not None
    optimizer = build_optimizer(model, settings(**asked))
    found.load_model(model)
    found.load_optimizer(model, optimizer)
    everything = hashlib.sha256(str(found.state.step).encode())
    for tensors in (model_tensors(model), optimizer_tensors(model, optimizer)):
        everything.update(to_safetensors(tensors))
    everything.update(found.read("log.jsonl") + (folder / "log.jsonl").read_bytes())
    return everything.hexdigest()
