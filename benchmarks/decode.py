"""Decoding speed against transformers' `generate`, in one run.

python benchmarks/decode.py [--json]                  SmolLM2 135M, fp32, on this machine's cores
python benchmarks/decode.py --device cuda [--json]    GPT-2's shape (124M), bf16, 128 new tokens

Both sides start from the same weights and prompts and take the likeliest token; that they take the
same ones is asserted in fp32 and counted in bf16. A round is one whole call after another, side by
side; the ratio is the median over rounds. The limit is the time to read the weights once a step
(and on a GPU the keys and values too) at the bandwidth measured beside it.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from common import Row, arguments, report

from attnlab.core.seeds import Seed
from attnlab.decode.generate import generate
from attnlab.decode.strategy import parse_strategy
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT

GREEDY = parse_strategy("greedy")
PROMPT, NEW = 16, 48  # on a CPU
CUDA_PROMPT, CUDA_NEW = 32, 128
TARGETS = {("cpu", 1): 1.2, ("cpu", 8): 2.0, ("cuda", 1): 40.0, ("cuda", 64): 40.0}

Texts = list[list[int]]
Side = Callable[[], Texts]


def prompts(rows: int, length: int, vocabulary: int) -> Texts:
    """Random ids: what is said does not matter here, and no row ends early."""
    generator = Seed(0).torch_generator()
    return torch.randint(300, vocabulary, (rows, length), generator=generator).tolist()


def theirs(library: Any, given: Texts, new: int) -> Side:
    """transformers' own loop."""
    ids = torch.tensor(given, device=library.device)
    library.generation_config.eos_token_id = None  # exactly `new` tokens

    def call() -> Texts:
        found = library.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=new,
            do_sample=False,
            pad_token_id=0,
        )
        return found[:, ids.shape[1] :].tolist()

    return call


def ours(model: Any, given: Texts, new: int) -> Side:
    """Our loop, log-probabilities included."""

    def call() -> Texts:
        return [list(text.ids) for text in generate(model, given, GREEDY, max_new_tokens=new)]

    return call


def timed(side: Side, device: str) -> tuple[float, Texts]:
    """Seconds of one call."""
    began = time.perf_counter()
    found = side()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began, found


def compared(sides: Sequence[Side], device: str, rounds: int) -> tuple[float, float, float, float]:
    """Median seconds of each side, the median ratio, and the share of equal tokens."""
    for side in sides:
        side()
    found = [[timed(side, device) for side in sides] for _ in range(rounds)]
    mine, other = ([row[i][0] for row in found] for i in (0, 1))
    pairs = [
        a == b
        for row in found
        for x, y in zip(row[0][1], row[1][1], strict=True)
        for a, b in zip(x, y, strict=True)
    ]
    ratio = statistics.median(b / a for a, b in zip(mine, other, strict=True))
    return statistics.median(mine), statistics.median(other), ratio, sum(pairs) / len(pairs)


def bandwidth(device: str) -> float:
    """Bytes a second of reading: the best of a few sums over 400 MB (4 GB on a GPU)."""
    size = 4_000_000_000 if device == "cuda" else 400_000_000
    data = torch.ones(size // 4, device=device)
    best = float("inf")
    for _ in range(7):
        began = time.perf_counter()
        data.sum().item()
        best = min(best, time.perf_counter() - began)
    return size / best


def on_cpu(rounds: int) -> list[Row]:
    """SmolLM2 in fp32."""
    from attnlab.api.targets import load_target

    model = load_target("smollm2").model
    library: Any = model.library  # pyright: ignore[reportAttributeAccessIssue]
    size = 4 * sum(p.numel() for p in library.parameters())
    limit, rows = bandwidth("cpu"), []
    for batch in (1, 8):
        given = prompts(batch, PROMPT, model.vocabulary)
        sides = (ours(model, given, NEW), theirs(library, given, NEW))
        mine, other, ratio, equal = compared(sides, "cpu", rounds)
        if equal < 1:
            sys.exit(f"batch {batch}: only {equal:.2%} of the tokens agree")
        rows.append(
            _row(
                "cpu",
                batch,
                (mine, other, ratio),
                NEW,
                size / limit,
                f"bandwidth {limit / 1e9:.1f} GB/s; all tokens equal",
            )
        )
    return rows


def on_cuda(rounds: int) -> list[Row]:
    """GPT-2's shape in bf16; the weights are random."""
    from transformers import GPT2Config, GPT2LMHeadModel

    from attnlab.models.gpt2 import gpt2_settings, to_gpt2

    config = GPTConfig(50_257, block=1024, layers=12, heads=12, d_model=768)
    model = GPT(config, Seed(1).torch_generator())
    library: Any = GPT2LMHeadModel(
        GPT2Config(**gpt2_settings(config), bos_token_id=0, eos_token_id=0)
    )
    library.load_state_dict(to_gpt2(model.state_dict(), config), strict=False)  # the head is tied
    model, library = model.to("cuda", torch.bfloat16).eval(), library.to("cuda", torch.bfloat16)
    weights = 2 * sum(p.numel() for p in model.parameters())
    limit, rows = bandwidth("cuda"), []
    for batch in (1, 64):
        given = prompts(batch, CUDA_PROMPT, model.vocabulary)
        sides = (ours(model, given, CUDA_NEW), theirs(library.eval(), given, CUDA_NEW))
        mine, other, ratio, equal = compared(sides, "cuda", rounds)
        read = 2 * 2 * config.layers * config.d_model * batch * (CUDA_PROMPT + CUDA_NEW / 2)
        rows.append(
            _row(
                "cuda",
                batch,
                (mine, other, ratio),
                CUDA_NEW,
                (weights + read) / limit,
                f"bandwidth {limit / 1e9:,.0f} GB/s; {equal:.1%} of the tokens equal "
                "(bf16: near-ties part)",
            )
        )
    return rows


def _row(
    device: str, batch: int, found: tuple[float, float, float], new: int, least: float, note: str
) -> Row:
    mine, other, ratio = found
    share = least / (mine / new)
    return Row(
        f"generate, {device}, batch {batch}",
        batch * new / mine,
        batch * new / other,
        "tokens/s",
        ratio,
        TARGETS[device, batch],
        f"{share:.0%} of the limit of reading everything once a step; {note}",
    )


def main() -> None:
    """Measure and print."""
    parser = arguments("Decoding speed against transformers' generate.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=5, help="of both sides")
    given = parser.parse_args()
    rows = on_cuda(given.rounds) if given.device == "cuda" else on_cpu(given.rounds)
    report(rows, given.json)


if __name__ == "__main__":
    main()
