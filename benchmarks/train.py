"""Training speed of our GPT against transformers' GPT-2 of the same shape, in one run.

python benchmarks/train.py [--json] [--compile]        nano, fp32, on this machine's cores
python benchmarks/train.py --device cuda [--json]      124M, bf16, batch 16 × 1,024, compiled too

Both sides start from the same weights, see the same batches, use the same fused AdamW, no dropout
and torch's own scaled-dot-product attention; that they compute the same loss is asserted.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from common import Row, arguments, report
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnlab.core.seeds import Seed
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.models.gpt2 import gpt2_settings, to_gpt2

CUDNN_FIRST = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]


@dataclass(frozen=True)
class Shape:
    """What is trained on what."""

    config: GPTConfig
    batch: int
    device: str
    dtype: torch.dtype

    @property
    def tokens(self) -> int:
        """Scored in one step."""
        return self.batch * self.config.block

    def flops_per_token(self) -> float:
        """6 · weights that are multiplied + 12 · layers · width · block, the usual count."""
        c = self.config
        weights = 12 * c.layers * c.d_model**2 + c.vocab * c.d_model
        return 6 * weights + 12 * c.layers * c.d_model * c.block

    def batches(self) -> tuple[Tensor, Tensor]:
        """Ids and the ids that follow them."""
        size, generator = (self.batch, self.config.block + 1), Seed(0).torch_generator()
        rows = torch.randint(0, self.config.vocab, size, generator=generator).to(self.device)
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


NANO = Shape(GPTConfig.named("nano", vocab=5000), 32, "cpu", torch.float32)
GPT2_SMALL = Shape(
    GPTConfig(50_257, block=1024, layers=12, heads=12, d_model=768), 16, "cuda", torch.bfloat16
)

Step = Callable[[], Tensor]
Clock = Callable[[], float]


def ours(shape: Shape, compiled: bool) -> Step:
    """One step of our GPT; returns the mean loss."""
    model = GPT(shape.config, Seed(1).torch_generator()).to(shape.device)
    nll: Any = torch.compile(model.nll) if compiled else model.nll
    ids, targets = shape.batches()

    def loss() -> Tensor:
        total, count = nll(ids, targets)
        return total / count

    return _step(shape, model, loss)


def theirs(shape: Shape, compiled: bool) -> Step:
    """One step of transformers' GPT-2 from the same weights; returns the mean loss."""
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.utils import logging

    logging.set_verbosity_error()
    settings: Any = GPT2Config(**gpt2_settings(shape.config), bos_token_id=0, eos_token_id=0)
    settings._attn_implementation = "sdpa"
    model = GPT2LMHeadModel(settings).train()
    start = GPT(shape.config, Seed(1).torch_generator()).state_dict()
    model.load_state_dict(to_gpt2(start, shape.config), strict=False)  # the head is tied
    model = model.to(shape.device)  # pyright: ignore[reportArgumentType]
    run: Any = torch.compile(model) if compiled else model
    ids, targets = shape.batches()
    return _step(
        shape,
        model,
        lambda: run(input_ids=ids, labels=targets, shift_labels=targets, use_cache=False).loss,
    )


def _step(shape: Shape, model: torch.nn.Module, loss: Callable[[], Tensor]) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    low = shape.dtype != torch.float32

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(shape.device, shape.dtype) if low else nullcontext():
            value = loss()
        value.backward()
        optimizer.step()
        return value.detach()

    return step


def seconds(step: Step, steps: int, device: str, clock: Clock = time.perf_counter) -> float:
    """Of one step, the mean over `steps`."""
    if device == "cuda":
        torch.cuda.synchronize()
    began = clock()
    for _ in range(steps):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    return (clock() - began) / steps


def same_loss(losses: list[float], tolerance: float) -> tuple[bool, str]:
    """Whether all sides have learnt the same in the same steps, and a sentence on it."""
    low, high = min(losses), max(losses)
    return high - low < tolerance * high, f"loss after warm-up {low:.4f} to {high:.4f}"


def interleaved(sides: dict[str, Step], rounds: int, clock: Clock) -> dict[str, list[float]]:
    """Seconds of a step, side by side in every round, so that what disturbs one disturbs all."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, step in sides.items():
            times[name].append(seconds(step, 2, "cpu", clock))
    return times


def row(name: str, ours: list[float], theirs: list[float], target: float | None) -> Row:
    """Medians, and the middle half of the rounds' own ratios."""
    mine, other = (NANO.tokens / statistics.median(times) for times in (ours, theirs))
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    note = (
        f"middle half of {len(ratios)} rounds: {low:.2f} to {high:.2f}; fastest of each: "
        f"{NANO.tokens / min(ours):,.0f} and {NANO.tokens / min(theirs):,.0f}, "
        f"{min(theirs) / min(ours):.2f}"
    )
    label = f"training, nano, {name}"
    return Row(label, mine, other, "tokens/s", mine / other, target, note)


def nano(compiled: bool, rounds: int) -> Iterator[Row]:
    """All cores by the clock; one thread by its own CPU time, which neighbours disturb little."""
    sides = {"ours": ours(NANO, False), "theirs": theirs(NANO, False)}
    if compiled:
        sides |= {"ours compiled": ours(NANO, True), "theirs compiled": theirs(NANO, True)}
    same, losses = same_loss([[float(s()) for _ in range(3)][-1] for s in sides.values()], 1e-4)
    assert same, losses
    times = interleaved(sides, rounds, time.perf_counter)
    yield row(f"{torch.get_num_threads()} threads", times["ours"], times["theirs"], 2.0)
    if compiled:
        both = times["ours compiled"], times["theirs compiled"]
        yield row("both compiled", *both, None)
        yield row("ours eager, theirs compiled", times["ours"], both[1], None)
        yield row("ours compiled, theirs eager", both[0], times["theirs"], None)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times = interleaved(
        {name: sides[name] for name in ("ours", "theirs")}, rounds, time.process_time
    )
    torch.set_num_threads(threads)
    yield row("1 thread, CPU time", times["ours"], times["theirs"], 2.0)


@dataclass(frozen=True)
class Measured:
    """One side on the GPU."""

    tokens_per_second: float
    gibibytes: float
    loss: float


def measure(make: Callable[[], Step], rounds: int) -> Measured:
    """Alone on the device: the median of rounds of ten steps, and the most memory held."""
    torch.compiler.reset()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step = make()
    loss = [float(step()) for _ in range(5)][-1]
    times = [seconds(step, 10, "cuda") for _ in range(rounds)]
    memory = (torch.cuda.max_memory_allocated() - before) / 2**30
    return Measured(GPT2_SMALL.tokens / statistics.median(times), memory, loss)


def bf16_peak() -> float:
    """FLOP/s of one large product on random numbers: what the matrix units can do here."""
    size = 8192
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = lambda: torch.mm(a, b)  # noqa: E731
    seconds(product, 5, "cuda")
    return 2 * size**3 / seconds(product, 30, "cuda")


def sides_on_gpu(rounds: int, only: str) -> Iterator[tuple[str, Measured | str]]:
    """Every side, or why it could not run; one that fails does not stop the others."""
    arms: list[tuple[str, Callable[..., Step], bool, bool]] = [
        ("theirs eager", theirs, False, False),
        ("ours eager", ours, False, False),
        ("theirs compiled", theirs, True, False),
        ("ours compiled", ours, True, False),
        ("theirs compiled, cudnn", theirs, True, True),
        ("ours compiled, cudnn", ours, True, True),
    ]
    for name, make, compiled, cudnn in arms:
        if only not in name:
            continue
        try:
            with sdpa_kernel(CUDNN_FIRST, set_priority=True) if cudnn else nullcontext():
                yield name, measure(lambda m=make, c=compiled: m(GPT2_SMALL, c), rounds)
        except Exception as error:
            yield name, f"{type(error).__name__}: {str(error)[:300]}"


def gpt2_small(rounds: int, only: str) -> Iterator[Row]:
    """GPT-2's 124M shape in bf16; the share of the peak and the memory of every side."""
    torch.set_float32_matmul_precision("high")
    found: dict[str, Measured] = {}
    for name, result in sides_on_gpu(rounds, only):
        print(name, result, file=sys.stderr, flush=True)
        if isinstance(result, Measured):
            found[name] = result
        else:
            yield Row(f"124M, {name}", 0.0, None, "tokens/s", None, None, f"failed: {result}")
    same, note = same_loss([side.loss for side in found.values()] or [1.0], 0.02)
    note += "" if same else ": NOT THE SAME"  # said, not raised: a GPU's time is dear
    for kind in ("eager", "compiled", "compiled, cudnn"):
        if f"ours {kind}" in found and f"theirs {kind}" in found:
            a, b = found[f"ours {kind}"], found[f"theirs {kind}"]
            rates = a.tokens_per_second, b.tokens_per_second
            yield Row(f"124M, {kind}", *rates, "tokens/s", rates[0] / rates[1], 1.0, note)
            memory = a.gibibytes, b.gibibytes
            yield Row(f"124M, {kind}, memory", *memory, "GiB", memory[1] / memory[0], None)
    peak = bf16_peak()
    for name, side in found.items():
        done = side.tokens_per_second * GPT2_SMALL.flops_per_token()
        yield Row(
            f"124M, {name}, share of the bf16 peak",
            done / 1e12,
            peak / 1e12,
            "TFLOP/s",
            done / peak,
            None,
            f"{side.tokens_per_second:,.0f} tokens/s",
        )


def main() -> None:
    """Run the part of the chosen device and print its rows."""
    parser = arguments("Training speed against transformers' GPT-2")
    parser.add_argument("--compile", action="store_true", help="compiled sides too (CPU)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=9, help="of each side")
    parser.add_argument("--only", default="", help="sides whose name holds this (CUDA)")
    chosen = parser.parse_args()
    on_gpu = chosen.device == "cuda"
    rows = gpt2_small(chosen.rounds, chosen.only) if on_gpu else nano(chosen.compile, chosen.rounds)
    report(list(rows), chosen.json)


if __name__ == "__main__":
    main()
