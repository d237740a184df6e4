"""Planted and Clean: one entry of the catalogue each; weights drawn from an explicit seed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from attnlab.audit.finding import Verdicts

Build = Callable[[], nn.Module]
Cached = Callable[[nn.Module, list[Tensor]], Tensor]
RoundTrip = Callable[[nn.Module], nn.Module]
Past = list[tuple[Tensor, Tensor]]
M = TypeVar("M", bound=nn.Module)

VOCABULARY = 53
CONTEXT = 257


@dataclass(frozen=True, kw_only=True)
class Planted:
    """One fault and its clean twin: `build()` and `build_clean()` give fp32 modules in eval mode.

    caught_by: audits that must fail on the fault; also: audits that may rightly fail as well.
    An attention leak may also be reported by mask-strength, where that audit sees the scores.
    cause: what the explanation should say; where: name of the module (or its parent) whose output
    is the first, in the order modules finish, to show it ("" where no module does).
    length: the shortest convenient input that shows it; training: it shows in training mode only.
    cached: logits of consecutive chunks through the model's own cache. save_load, clean_save_load:
    the model after a round trip through its own files.
    floor: relative movement that rounding alone makes in the clean twin's float64 copy.
    shows: its own brute force, where the usual one would not meet the fault: a relative movement.
    """

    name: str
    build: Build
    build_clean: Build
    caught_by: tuple[str, ...]
    cause: str
    notes: str = ""
    where: str = ""
    also: tuple[str, ...] = ()
    vocabulary: int = VOCABULARY
    context: int = CONTEXT
    length: int = 23
    training: bool = False
    cached: Cached | None = None
    save_load: RoundTrip | None = None
    clean_save_load: RoundTrip | None = None
    floor: float = 1e-9
    shows: Callable[[nn.Module], float] | None = None


@dataclass(frozen=True, kw_only=True)
class Clean:
    """A sound model on which every audit must pass or say that it does not apply.

    reach: how many of the last inputs an output reads, by design (None: all of them).
    """

    name: str
    build: Build
    notes: str = ""
    vocabulary: int = VOCABULARY
    context: int = CONTEXT
    length: int = 23
    reach: int | None = None
    cached: Cached | None = None
    save_load: RoundTrip | None = None
    floor: float = 1e-9


@dataclass
class Output:
    """What Hugging Face models return, as far as it matters here."""

    logits: Tensor
    past_key_values: Past | None = None


def seeded(model: M, seed: int) -> M:
    """Matrices N(0, 1/fan-in), embeddings N(0, 1/4), scales 1 and biases 0 with noise of 0.1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            for name, weight in module.named_parameters(recurse=False):
                noise = torch.randn(weight.shape, generator=generator)
                if isinstance(module, nn.Embedding):
                    weight.copy_(0.5 * noise)
                elif weight.ndim > 1:
                    weight.copy_(noise / math.sqrt(weight[0].numel()))
                else:
                    weight.copy_((1.0 if name == "weight" else 0.0) + 0.1 * noise)
    return model


def built(make: Callable[[], M], seed: int, after: Callable[[M], None] | None = None) -> Build:
    """A builder: make() without touching the global generator, weights from seed, then after()."""

    def build() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            model = seeded(make(), seed)
        if after is not None:
            with torch.no_grad():
                after(model)
        return model.eval()

    return build


def failures(found: Verdicts) -> dict[str, str]:
    """The audits that fail, and why."""
    return {f.name: f.why for f in found.findings if f.verdict == "fail"}


def through_past(model: nn.Module, chunks: list[Tensor]) -> Tensor:
    """Chunk after chunk with past_key_values, as Hugging Face models are driven."""
    past, logits = None, []
    for chunk in chunks:
        output = model(chunk, past_key_values=past, use_cache=True)
        past = output.past_key_values
        logits.append(output.logits)
    return torch.cat(logits, dim=1)
