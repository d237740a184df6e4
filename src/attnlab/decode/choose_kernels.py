"""Kernels that choose the likeliest id of every row, in Triton: by chunks of the vocabulary."""
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportOperatorIssue=false
# ruff: noqa: PLR0913  (a kernel is told everything, and is one piece)

import triton
import triton.language as tl

from attnlab.decode.kernels import wait_turn


@triton.jit
def best_of_chunk(
    logits, best_so_far, VOCABULARY: tl.constexpr, CHUNK: tl.constexpr, EARLY: tl.constexpr
):
    """Of one row and chunk: the largest logit, the lowest id that has it, Σ exp(l − largest)."""
    wait_turn(EARLY)
    row, chunk = tl.program_id(0), tl.program_id(1)
    token = chunk * CHUNK + tl.arange(0, CHUNK)
    real = token < VOCABULARY
    value = tl.load(logits + row * VOCABULARY + token, mask=real, other=float("-inf")).to(
        tl.float32
    )
    most = tl.max(value, 0)
    which = tl.min(tl.where(value == most, token, VOCABULARY), 0)
    base = tl.where(most == float("-inf"), 0.0, most)  # −inf − −inf is no number
    sums = tl.sum(tl.exp(value - base), 0)  # beyond the vocabulary exp(−inf) = 0
    best_so_far += (row * tl.num_programs(1) + chunk) * 3
    tl.store(best_so_far, most)
    tl.store(best_so_far + 1, which.to(tl.float32))
    tl.store(best_so_far + 2, sums)


@triton.jit
def choose(
    best_so_far,
    ids,
    at,
    slot,
    tokens,
    logprobs,
    written,
    chunks,
    VOCABULARY: tl.constexpr,
    BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
):
    """The likeliest id of a row becomes its next; log p of it; everything moves on by one."""
    wait_turn(EARLY)
    row = tl.program_id(0)
    chunk = tl.arange(0, BLOCK)
    real = chunk < chunks
    here = best_so_far + (row * chunks + chunk) * 3
    most = tl.load(here, mask=real, other=float("-inf"))
    which = tl.load(here + 1, mask=real, other=VOCABULARY)
    sums = tl.load(here + 2, mask=real, other=0.0)
    best = tl.max(most, 0)
    token = tl.min(tl.where(most == best, which, VOCABULARY), 0).to(tl.int64)
    total = tl.sum(tl.where(real, sums * tl.exp(most - best), 0.0), 0)
    step = tl.load(written + row)
    rows = tl.num_programs(0)
    tl.store(ids + row, tl.minimum(token, VOCABULARY - 1))
    tl.store(tokens + step * rows + row, token)
    tl.store(logprobs + step * rows + row, -tl.log(total))
    tl.store(at + row, tl.load(at + row) + 1)
    tl.store(written + row, step + 1)
    if row == 0:
        tl.store(slot, tl.load(slot) + 1)
