"""Kernels of one decoding step, in Triton: what a layer does to a row, in five launches.

    qkv = W LN(x) + b        heads = softmax(q·K / √d) V, K and V grown in place
    x ← x + W heads + b      wide = gelu(W LN(x) + b)      x ← x + W wide + b

A step reads every weight once; on a GPU that takes less time than to launch what torch needs for
it. Where the GPU can (EARLY: Hopper and later), a kernel starts while the one before it runs: it
fetches weights and kept keys, which nobody is writing, and waits before it touches anything else.
Only after its own wait does it let the next one start, so never more than two overlap. Sums are
float32 and in a fixed order: the same rows give the same bits.
"""
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportOperatorIssue=false
# ruff: noqa: PLR0913, C901  (a kernel is told everything, and is one piece)

import triton
import triton.language as tl

from attnlab.decode.token_kernels import await_previous


@triton.jit
def _gelu(y):
    """By its tanh formula, as in GPT-2; tanh(u) = 1 − 2 / (1 + exp 2u)."""
    u = 0.7978845608028654 * (y + 0.044715 * y * y * y)
    return 0.5 * y * (2.0 - 2.0 / (1.0 + tl.exp(2.0 * u)))


@triton.jit
def _normalised(value, inside, gain, shift, EPS: tl.constexpr, INPUTS: tl.constexpr):
    """(x − mean) / √(variance + EPS) · gain + shift; zeros beyond the inputs."""
    centred = tl.where(inside, value - tl.sum(value, 0) / INPUTS, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / INPUTS + EPS)
    return centred * scale * gain + shift


@triton.jit
def few_rows(
    x,
    gain,
    shift,
    weight,
    bias,
    out,
    EPS: tl.constexpr,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    NORM: tl.constexpr,
    SHIFT: tl.constexpr,
    BIAS: tl.constexpr,
    GELU: tl.constexpr,
    ADD: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
):
    """out = W x + b for one row and TILE outputs: products and sums, for a row or a few.

    NORM: of LN(x). GELU: gelu of it. ADD: onto what `out` holds.
    """
    output, inputs = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, BLOCK)
    real, inside = output < OUTPUTS, inputs < INPUTS
    matrix = tl.load(
        weight + output[:, None].to(tl.int64) * INPUTS + inputs[None, :],
        mask=real[:, None] & inside[None, :],
        other=0.0,
    )
    gains, shifts = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    if NORM:
        gains = tl.load(gain + inputs, mask=inside, other=0.0).to(tl.float32)
        if SHIFT:
            shifts = tl.load(shift + inputs, mask=inside, other=0.0).to(tl.float32)
    added = tl.zeros([TILE], tl.float32)
    if BIAS:
        added = tl.load(bias + output, mask=real, other=0.0).to(tl.float32)
    await_previous(EARLY)
    row = tl.program_id(1)
    value = tl.load(x + row * INPUTS + inputs, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        value = _normalised(value, inside, gains, shifts, EPS, INPUTS)
    y = tl.sum(matrix.to(tl.float32) * value[None, :], 1) + added
    if GELU:
        y = _gelu(y)
    out += row * OUTPUTS + output
    if ADD:
        y += tl.load(out, mask=real, other=0.0).to(tl.float32)
    tl.store(out, y, mask=real)


@triton.jit
def norm(
    x,
    gain,
    shift,
    out,
    EPS: tl.constexpr,
    INPUTS: tl.constexpr,
    SHIFT: tl.constexpr,
    BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
):
    """out = LN(x), one row per program."""
    inputs = tl.arange(0, BLOCK)
    inside = inputs < INPUTS
    gains = tl.load(gain + inputs, mask=inside, other=0.0).to(tl.float32)
    shifts = tl.zeros([BLOCK], tl.float32)
    if SHIFT:
        shifts = tl.load(shift + inputs, mask=inside, other=0.0).to(tl.float32)
    await_previous(EARLY)
    at = tl.program_id(0) * INPUTS + inputs
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, _normalised(value, inside, gains, shifts, EPS, INPUTS), mask=inside)


@triton.jit
def many_rows(
    x,
    weight,
    bias,
    out,
    parts,
    counts,
    rows,
    INPUTS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    BIAS: tl.constexpr,
    GELU: tl.constexpr,
    ADD: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    CHUNK: tl.constexpr,
    SPLIT: tl.constexpr,
    EARLY: tl.constexpr,
):
    """The same for ROWS rows and TILE outputs at once, on the matrix units.

    SPLIT programs share the inputs of a tile; the last to arrive adds their parts, first to last.
    """
    tile, group, share = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row = group * ROWS + tl.arange(0, ROWS)
    output = tile * TILE + tl.arange(0, TILE)
    here, real = row < rows, output < OUTPUTS
    await_previous(EARLY)
    total = tl.zeros([ROWS, TILE], tl.float32)
    for start in range(0, INPUTS // SPLIT, CHUNK):
        at = share * (INPUTS // SPLIT) + start + tl.arange(0, CHUNK)
        value = tl.load(x + row[:, None] * INPUTS + at[None, :], mask=here[:, None], other=0.0)
        matrix = tl.load(
            weight + output[None, :].to(tl.int64) * INPUTS + at[:, None],
            mask=real[None, :],
            other=0.0,
        )
        total = tl.dot(value, matrix, total)
    place = row[:, None] * OUTPUTS + output[None, :]
    mask = here[:, None] & real[None, :]
    last = True
    if SPLIT > 1:
        size = rows * OUTPUTS
        tl.store(parts + share * size + place, total, mask=mask)
        tl.debug_barrier()
        count = counts + group * tl.num_programs(0) + tile
        last = tl.atomic_add(count, 1, sem="acq_rel") == SPLIT - 1
        if last:
            tl.store(count, 0)
            total = tl.zeros([ROWS, TILE], tl.float32)
            for each in tl.static_range(SPLIT):
                total += tl.load(
                    parts + each * size + place, mask=mask, other=0.0, cache_modifier=".cg"
                )
    if last:
        if BIAS:
            total += tl.load(bias + output, mask=real, other=0.0).to(tl.float32)[None, :]
        if GELU:
            total = _gelu(total)
        if ADD:
            total += tl.load(out + place, mask=mask, other=0.0).to(tl.float32)
        tl.store(out + place, total, mask=mask)


@triton.jit
def attend(
    qkv,
    keys,
    values,
    padding,
    slot,
    out,
    scale,
    length,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    TIMES: tl.constexpr,
    EARLY: tl.constexpr,
):
    """One head of one row: those kept in the slots before `slot`, and the new key and value."""
    row, head = tl.program_id(0), tl.program_id(1)
    column, times = tl.arange(0, BLOCK), tl.arange(0, TIMES)
    inside = column < WIDTH
    base = (row * HEADS + head).to(tl.int64) * length * WIDTH
    keys, values, padding = keys + base, values + base, padding + row * length
    tile = times[:, None] * WIDTH + column[None, :]
    filled = tl.load(slot)
    kept = times < filled
    both = kept[:, None] & inside[None, :]
    old = tl.load(keys + tile, mask=both, other=0.0)
    held = tl.load(values + tile, mask=both, other=0.0)
    unseen = tl.load(padding + times, mask=kept, other=1)
    await_previous(EARLY)
    here = qkv + row * 3 * HEADS * WIDTH + head * WIDTH + column
    q = tl.load(here, mask=inside, other=0.0).to(tl.float32) * scale
    key = tl.load(here + HEADS * WIDTH, mask=inside, other=0.0)
    value = tl.load(here + 2 * HEADS * WIDTH, mask=inside, other=0.0)
    tl.store(keys + filled * WIDTH + column, key, mask=inside)
    tl.store(values + filled * WIDTH + column, value, mask=inside)
    most = tl.sum(q * key.to(tl.float32), 0)
    weight = 1.0
    total = value.to(tl.float32)
    weight, most, total = _with(weight, most, total, q, old, held, unseen)
    for start in range(TIMES, filled, TIMES):
        kept = start + times < filled
        both = kept[:, None] & inside[None, :]
        old = tl.load(keys + start * WIDTH + tile, mask=both, other=0.0)
        held = tl.load(values + start * WIDTH + tile, mask=both, other=0.0)
        unseen = tl.load(padding + start + times, mask=kept, other=1)
        weight, most, total = _with(weight, most, total, q, old, held, unseen)
    tl.store(out + row * HEADS * WIDTH + head * WIDTH + column, total / weight, mask=inside)


@triton.jit
def _with(weight, most, total, q, old, held, unseen):
    """Σ exp(score − most) v and its weight, with more keys and values added to them."""
    scores = tl.where(unseen == 0, tl.sum(old.to(tl.float32) * q[None, :], 1), float("-inf"))
    higher = tl.maximum(most, tl.max(scores, 0))
    shrink, new = tl.exp(most - higher), tl.exp(scores - higher)
    total = total * shrink + tl.sum(held.to(tl.float32) * new[:, None], 0)
    return weight * shrink + tl.sum(new, 0), higher, total
