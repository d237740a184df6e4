"""Kernels around the layers of a decoding step: the embedding of a token, and the next id."""
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportOperatorIssue=false
# ruff: noqa: PLR0913  (a kernel is told everything)

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def await_previous(EARLY: tl.constexpr):
    """Wait until the kernel before this one is done; the next one may then come."""
    if EARLY:
        gdc_wait()
        gdc_launch_dependents()


@triton.jit
def embed(
    ids, at, tokens, positions, x, WIDTH: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr
):
    """x[row] = tokens[ids[row]] + positions[at[row]]."""
    await_previous(EARLY)
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    token, position = tl.load(ids + row), tl.load(at + row)
    value = tl.load(tokens + token * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
    added = tl.load(positions + position * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(x + row * WIDTH + column, value + added, mask=inside)


@triton.jit
def best_of_chunk(
    logits, best_so_far, VOCABULARY: tl.constexpr, CHUNK: tl.constexpr, EARLY: tl.constexpr
):
    """Of one row and chunk: the largest logit, the lowest id that has it, Σ exp(l − largest)."""
    await_previous(EARLY)
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
    await_previous(EARLY)
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
