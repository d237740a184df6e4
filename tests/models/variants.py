"""Every variant of every seam inside a small GPT; a new part is here before its author says so."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attnlab.core.seeds import Seed
from attnlab.models.config import SEAMS, GPTConfig
from attnlab.models.gpt import GPT
from attnlab.parts.mask import Causal, Window
from attnlab.parts.mlp import Swiglu
from attnlab.parts.norm import Rms
from attnlab.parts.position import Rotary

VOCAB, BLOCK = 53, 31
# settings that have no default, by seam and name
NEEDED: dict[tuple[str, str], dict[str, Any]] = {
    ("project", "mlp"): {"depth": 2},
    ("project", "low-rank"): {"rank": 5},
    ("mask", "prefix"): {"length": 13},
    ("mask", "window"): {"size": 5},
    ("mask", "own-block"): {"size": 5},
    ("mask", "and"): {"sides": (Causal.Config(), Window.Config(size=7))},
    ("mask", "or"): {"sides": (Causal.Config(), Window.Config(size=2))},
}


def small(**changes: Any) -> GPTConfig:
    given = {"vocab": VOCAB, "block": BLOCK, "layers": 2, "heads": 3, "d_model": 42, **changes}
    return GPTConfig(**given)


def llama(**changes: Any) -> GPTConfig:
    """Every part as in a Llama, two query heads on each of three key heads."""
    parts = {"position": Rotary.Config(), "norm": Rms.Config(), "mlp": Swiglu.Config()}
    sizes = {"heads": 6, "kv_heads": 3, "d_head": 8, "d_mlp": 37, "bias": False}
    return small(**{**parts, **sizes, **changes})


def variants() -> Iterator[tuple[str, GPTConfig]]:
    for seam, base in SEAMS.items():
        for name, part in base.variants.items():
            config = part.Config(**NEEDED.get((seam, name), {}))
            yield f"{seam}-{name}", small(**{seam: config})
    yield "multi-query", small(kv_heads=1)
    yield "llama", llama()


NAMED = dict(variants())


def gpt(config: GPTConfig, dtype: torch.dtype = torch.float64, seed: int = 3) -> GPT:
    """Weights five times as large as at the start: attention is then far from uniform."""
    model = GPT(config, Seed(seed).torch_generator()).to(dtype).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim > 1:
                p.mul_(5)
            else:
                p.add_(torch.randn(p.shape, generator=Seed(p.numel()).torch_generator()) / 10)
    return model


def some_ids(rows: int = 3, length: int = 17, vocab: int = VOCAB, seed: int = 7) -> Tensor:
    return torch.randint(0, vocab, (rows, length), generator=Seed(seed).torch_generator())
