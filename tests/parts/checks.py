"""Shared checks of what is computed. Each takes a case and fails by an AssertionError.

A part that must fail one declares it beside its class (`leaks`, `expected_failed_checks`), and the
check must then fail.
"""

import torch
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.parts.attention import Attention
from attnlab.parts.cached import CachedAttention, TextSoFar, why_not_cached
from attnlab.parts.part import PositionIds
from tests.parts.cases import (
    BATCH,
    LENGTH,
    Case,
    paddings,
    place,
    plain,
    rows,
    run,
    twin,
)
from tests.parts.registry import check, gradients, outputs, probe, same
from tests.reference import attention as reference
from tests.reference import variants


@check
def definition(case: Case) -> None:
    """steps() is the fp64 loop, in value and gradient: self-attention and padding keys."""
    attention = case.attention()
    known = paddings()
    nothing = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    for padding, position_ids in ((nothing, None), known["start"], known["middle"]):
        at = plain() if position_ids is None else position_ids.query
        x = rows().requires_grad_()
        y = place(attention, x, at)
        steps = twin(attention).steps(y, y, position_ids, padding)
        by_hand = embedded(attention, x, at)
        loop = reference.attend(twin(attention), by_hand, by_hand, (at, at), padding)
        for name in ("scores", "weights", "heads", "out"):
            same(getattr(steps, name), getattr(loop, name), name)
        ours, theirs = (gradients(probe(made.out), attention, x) for made in (steps, loop))
        same(ours, theirs, "gradient")


def embedded(attention: Attention, x: Tensor, at: Tensor) -> Tensor:
    """x with its positions, one by one."""
    made = [
        variants.embedded(attention.position, vector, place)
        for row, position_ids in zip(x, at.tolist(), strict=True)
        for vector, place in zip(row, position_ids, strict=True)
    ]
    return torch.stack(made).reshape(x.shape)


@check
def other_keys(case: Case) -> None:
    """Queries and keys from different rows (4 and 5 of them), by the same loop."""
    attention = case.attention()
    queries, keys = rows(7, length=4), rows(11)
    steps = twin(attention).steps(queries, keys)
    at = (plain(length=4), plain())
    nothing = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    loop = reference.attend(twin(attention), queries, keys, at, nothing)
    same(steps.out, loop.out)


@check
def fast(case: Case) -> None:
    """forward() is steps().out at every visible position, in value and gradient."""
    attention = case.attention()
    for what, (padding, position_ids) in {"nothing padding": (None, None), **paddings()}.items():
        x = rows().requires_grad_()
        forward, steps = run(attention, x, padding, position_ids)
        visible = torch.ones(BATCH, LENGTH, dtype=torch.bool) if padding is None else ~padding
        same(forward[visible], steps.out[visible], what)
        ours, theirs = (
            gradients(probe(out, visible), attention, x) for out in (forward, steps.out)
        )
        same(ours, theirs, f"gradient, {what}")


@check
def causality(case: Case) -> None:
    """Change the inputs from t on: every output before t keeps every bit."""
    attention, x = case.attention(), rows()
    plain_outputs = outputs(attention, place(attention, x))
    for t in range(1, LENGTH):
        changed = x.clone()
        changed[:, t:] = rows(23)[:, t:]
        changed_outputs = outputs(attention, place(attention, changed))
        for before, after in zip(plain_outputs, changed_outputs, strict=True):
            assert torch.equal(before[:, :t], after[:, :t]), f"inputs from {t} on moved the past"


@check
def batch_independence(case: Case) -> None:
    """A row alone gives what it gives among others."""
    attention, x = case.attention(), rows()
    together = run(attention, x)
    for b in range(BATCH):
        alone = run(attention, x[b : b + 1])
        same(alone[0], together[0][b : b + 1], "forward")
        same(alone[1].out, together[1].out[b : b + 1], "steps")


@check
def padding(case: Case) -> None:
    """What stands at padding positions reaches no visible output."""
    attention = case.attention()
    for what, (padding, position_ids) in paddings().items():
        x = rows()
        changed = torch.where(padding[..., None], rows(29), x)
        before, after = (run(attention, y, padding, position_ids) for y in (x, changed))
        same(before[0][~padding], after[0][~padding], f"forward, {what}")
        same(before[1].out[~padding], after[1].out[~padding], f"steps, {what}")


@check
def left_padding(case: Case) -> None:
    """A row after padding, positions counted from its start, gives what it gives alone."""
    attention, x = case.attention(), rows()
    padding, position_ids = paddings()["start"]
    assert position_ids is not None
    forward, steps = run(attention, place(attention, x, position_ids.query), padding, position_ids)
    alone = x[1:2, 2:]
    expected, expected_steps = run(attention, place(attention, alone))
    same(forward[1:2, 2:], expected, "forward")
    same(steps.out[1:2, 2:], expected_steps.out, "steps")


@check
def nothing_to_see(case: Case) -> None:
    """A query that may look at nothing gets weights 0, and nothing becomes NaN."""
    attention, x = case.attention(), rows().requires_grad_()
    padding = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    padding[1] = True
    forward, steps = run(attention, x, padding)
    assert torch.all(steps.weights[1] == 0)
    sums = steps.weights[0].sum(-1)
    same(sums, torch.ones_like(sums), "visible rows of weights sum to 1")
    for out in (forward, steps.out):
        assert torch.isfinite(out).all()
        for name, slope in gradients(out.square().sum(), attention, x).items():
            assert torch.isfinite(slope).all(), name


@check
def gradient(case: Case) -> None:
    """Queries, keys, values and every parameter learn."""
    attention = case.attention()
    x = place(attention, rows())
    steps = twin(attention).steps(x, x)
    kept = (steps.q, steps.k, steps.v)
    slopes = torch.autograd.grad(probe(steps.out), kept, retain_graph=True, allow_unused=True)
    for name, slope in zip("qkv", slopes, strict=True):
        assert slope is not None, f"{name} gets no gradient"
        assert slope.abs().max() > 1e-9, f"{name} gets no gradient"
    found = gradients(probe(steps.out), attention, rows().requires_grad_())
    del found["x"]
    for name, slope in found.items():
        assert slope.abs().max() > 1e-9, f"{name} gets no gradient"


@check
def cached(case: Case) -> None:
    """Token by token is all at once; or the cache is refused with the part's reason."""
    attention, x = case.attention(), rows()
    reason = why_not_cached(attention)
    if reason is not None:
        try:
            CachedAttention(attention, TextSoFar(BATCH, LENGTH))
        except UsageError as error:
            assert reason in str(error)
            return
        raise AssertionError(f"a cache was made although {reason}")
    padding, position_ids = paddings()["start"]
    assert position_ids is not None
    for off, at in ((None, plain()), (padding, position_ids.query)):
        kept = CachedAttention(attention, TextSoFar(BATCH, LENGTH))
        y = place(attention, x, at)
        pieces = []
        for span in (slice(0, 3), slice(3, 4), slice(4, LENGTH)):
            pieces.append(
                kept.step(
                    y[:, span],
                    None if off is None else at[:, span],
                    None if off is None else off[:, span],
                )
            )
        whole = attention(y, None if off is None else PositionIds(at, at), off)
        visible = torch.ones(BATCH, LENGTH, dtype=torch.bool) if off is None else ~off
        same(torch.cat(pieces, dim=1)[visible], whole[visible])


@check
def additive(case: Case) -> None:
    """A position that says it adds to scores adds the same to any scores."""
    position = case.attention().position
    if not (position.touches_scores and position.additive):
        return
    position_ids = PositionIds(plain(), plain())
    generator = Seed(31).torch_generator()
    shape = (BATCH, case.dims.heads, LENGTH, LENGTH)
    some, other = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in "ab")
    added = position.on_scores(some, position_ids) - some
    same(position.on_scores(other, position_ids) - other, added)
    assert added.abs().max() > 0
