"""Time and memory of a training step against sequence length: full attention and the Perceiver.

python benchmarks/perceiver.py [--json]                 small, on this machine's cores
python benchmarks/perceiver.py --device cuda [--json]   4 layers, 8 heads, width 256, to 16,384

Rows: ours the Perceiver (64 latents; "block" has no local layer), theirs the GPT of the same
layers, heads and width, forward and backward over one text on a CPU and 16 on a GPU. The note gives
the ratio that `full_cost` and `perceiver_cost` predict: they count multiplications without constant
factors and without the feed-forward layers. Memory is the peak of what torch allocates on a GPU,
and on a CPU what the forward pass keeps for the backward; fused attention keeps no ℓ × ℓ scores on
either.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from common import Row, arguments, best_time, report
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from attnlab.core.devices import resolve_device
from attnlab.core.seeds import Seed
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.models.perceiver import Perceiver, PerceiverConfig, Reads

MIB = 2**20


@dataclass(frozen=True)
class Plan:
    """What is measured where."""

    base: GPTConfig
    lengths: tuple[int, ...]
    latents: int
    texts: int  # a batch: a GPU is idle most of the time with one
    rounds: int
    dtype: torch.dtype


CPU = Plan(GPTConfig(97, layers=4, heads=4, d_model=64), (256, 1024, 4096), 64, 1, 2, torch.float32)
CUDA = Plan(
    GPTConfig(97, layers=4, heads=8, d_model=256),
    (256, 512, 1024, 2048, 4096, 8192, 16384),
    64,
    16,
    5,
    torch.bfloat16,
)
WAYS: tuple[Reads, ...] = ("block", "block+local")


def full_cost(length: int, width: int, layers: int) -> int:
    """L (ℓ² d + ℓ d²)."""
    return layers * (length**2 * width + length * width**2)


def perceiver_cost(
    length: int, width: int, layers: int, latents: int, *, local: bool = False
) -> int:
    """2 ℓ m d + (L − 2) m² d + (2ℓ + L m) d²; `local`: one of the layers attends within blocks."""
    between, block = layers - local, -(-length // latents)
    scores = 2 * length * latents + (between - 2) * latents**2
    maps = 2 * length + between * latents
    if local:
        scores, maps = scores + length * block, maps + length
    return scores * width + maps * width**2


def step_of(model: GPT | Perceiver, length: int, plan: Plan, device: str) -> Callable[[], Tensor]:
    """Forward and backward over a batch."""
    ids = torch.randint(0, 97, (plan.texts, length + 1), generator=Seed(0).torch_generator())
    ids = ids.to(device)

    def step() -> Tensor:
        model.zero_grad(set_to_none=True)
        with torch.autocast(device, plan.dtype, enabled=plan.dtype != torch.float32):
            total, _ = model.nll(ids[:, :-1], ids[:, 1:])
        total.backward()
        if device == "cuda":
            torch.cuda.synchronize()
        return total

    return step


def memory(step: Callable[[], Tensor], device: str) -> float:
    """MiB: the peak above what the model holds on a GPU, what backward needs on a CPU."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step()
        return (torch.cuda.max_memory_allocated() - before) / MIB
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        step()
    return sum(kept.values()) / MIB


def measured(model: GPT | Perceiver, length: int, plan: Plan, device: str) -> tuple[float, float]:
    """Milliseconds and MiB of a step."""
    step = step_of(model.to(device), length, plan, device)
    return 1000 * best_time(step, plan.rounds), memory(step, device)


def rows_of(length: int, plan: Plan, device: str) -> list[Row]:
    """Time and memory of both ways of the Perceiver beside the GPT at one length."""
    base = replace(plan.base, block=length)
    theirs = measured(GPT(base, Seed(1).torch_generator()), length, plan, device)
    found = []
    for reads in WAYS:
        config = PerceiverConfig(base, min(plan.latents, length), reads)
        ours = measured(Perceiver(config, Seed(1).torch_generator()), length, plan, device)
        cost = perceiver_cost(length, base.d_model, base.layers, config.latents, local=config.local)
        predicted = full_cost(length, base.d_model, base.layers) / cost
        note = f"formula: {predicted:.3g} times fewer multiplications"
        for unit, one, other in zip(("ms", "MiB"), ours, theirs, strict=True):
            name = f"{reads}, {length} tokens, {'time' if unit == 'ms' else 'memory'}"
            found.append(
                Row(name, one, other, unit, other / one, None, note if unit == "ms" else "")
            )
    return found


def main() -> None:
    """Every length of the plan, or up to --longest."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--longest", type=int, default=0, help="leave out longer texts")
    given = parser.parse_args()
    device = resolve_device(given.device)
    plan = CUDA if device == "cuda" else CPU
    lengths = [n for n in plan.lengths if not given.longest or n <= given.longest]
    report([row for length in lengths for row in rows_of(length, plan, device)], given.json)


if __name__ == "__main__":
    main()
