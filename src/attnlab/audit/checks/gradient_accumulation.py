"""gradient-accumulation: is a batch in eight pieces the same step as in one?

Runs: the gradient of one ragged batch (rows score different numbers of tokens), whole and one row
at a time, in float64 with dropout off. Number: ‖difference‖ / ‖gradient‖ of the worst tensor (one
whose gradient is under a thousandth of the total is measured against that thousandth). Fails above
1e-9, or above ten times what neutral changes move, where that is more: rows in another order, the
same row given seven times (models that compute partly in float32 whatever they are given, or
that do not run in float64). The usual causes are recognised: the mean of the pieces' means, a sum
that is not divided by the number of pieces, a last piece that counts alone.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.training.batch import map_tensors, split_batch, tensors_of

NAME = "gradient-accumulation"
LIMIT = 1e-9
NOISE = 10.0
COARSE = 1e-4  # an order of rows that moves more than this is no rounding
FLOOR = 1e-3
PIECES = 8
COPIES = 7  # not a power of 2, which would round alike
Gradients = Mapping[str, Tensor]
Loss = Callable[[nn.Module, Any], tuple[Tensor, Tensor]]
Step = Callable[[Sequence[Any]], Gradients]


def gradient_accumulation(loss: Loss, model: nn.Module, batch: Any) -> Finding:
    """Judge `loss(model, batch) -> (sum, count)`, whose step is Σ sums / Σ counts."""
    wide = map_tensors(batch, lambda t: t.double() if t.is_floating_point() else t)
    try:
        return _judge(loss, copy.deepcopy(model).double().eval(), wide)
    except (RuntimeError, TypeError):  # some kernels have no float64
        return _judge(loss, copy.deepcopy(model).eval(), batch)


def _judge(loss: Loss, exact: nn.Module, batch: Any) -> Finding:
    def step(parts: Sequence[Any]) -> dict[str, Tensor]:
        exact.zero_grad()
        total = 0.0
        for part in parts:
            value, count = loss(exact, part)
            value.backward()
            total += float(count)
        return {n: p.grad / total for n, p in exact.named_parameters() if p.grad is not None}

    with torch.no_grad():
        scored = [int(loss(exact, row)[1]) for row in _rows(batch)]
    return accumulated_step(step, batch, scored=scored)


@audit(NAME, threshold=LIMIT)
def accumulated_step(step: Step, batch: Any, *, scored: Sequence[int] | None = None) -> Finding:
    """Judge any step: `step(pieces)` gives the gradient by name that the optimizer would be given.

    It is called with [batch] and with the rows one by one, and must leave no trace. In float64.
    scored: tokens each row scores, where known; the audit needs them to differ.
    """
    rows = _rows(batch)
    if not rows:
        raise NotApplicable("a batch without tensors cannot be cut into rows")
    if len(rows) < 2:
        raise NotApplicable("a batch of one row has no pieces")
    if scored is not None and len(set(scored)) < 2:
        why = f"every row scores {scored[0]} tokens: a mean of means would be right here too"
        raise NotApplicable(why, evidence={"scored": list(scored)})
    step = partial(_copy_gradients, step)
    whole, parts = step([batch]), step(rows)
    missing = sorted(whole.keys() ^ parts.keys())
    if missing or not whole:
        why = f"{missing[0]} has a gradient one way only" if missing else "there is no gradient"
        return Finding(NAME, "fail", math.inf, LIMIT, why, {"missing": missing})
    gaps = _gaps(whole, parts)
    worst = max(gaps, key=lambda name: gaps[name])
    number = gaps[worst]
    noise = _order_noise(step, batch, whole)
    if noise > COARSE:
        why = f"the order of the rows alone moves the gradient by {noise:.2g}: rows are not apart"
        return Finding(NAME, "fail", noise, LIMIT, why, {"noise": noise})
    noise = max(noise, _shape_noise(step, rows[0]))
    limit = max(LIMIT, NOISE * noise)
    evidence: dict[str, Any] = {
        "pieces": len(rows),
        "tensor": worst,
        "scored": None if scored is None else list(scored),
        "noise": noise,
        "norm_whole": _norm(whole),
        "norm_in_pieces": _norm(parts),
        "by_tensor": dict(sorted(gaps.items(), key=lambda item: -item[1])[:5]),
    }
    problem = ""
    if not number <= limit:
        cause = _cause(step, rows, (whole, parts), 100 * limit)
        problem = (
            f"in {len(rows)} pieces the gradient of {worst} differs by {number:.2g} of its size"
            f"{cause and ': '}{cause}"
        )
    why = f"{len(rows)} pieces of one row give the gradient of the whole batch"
    return Finding.judged(NAME, problem, why, number, limit, evidence)


def _rows(batch: Any) -> list[Any]:
    """At most eight rows, one by one; of a longer batch, eight pieces of it."""
    tensors = tensors_of(batch)
    return list(split_batch(batch, min(PIECES, len(tensors[0])))) if tensors else []


def _cause(step: Step, rows: Sequence[Any], pair: tuple[Gradients, Gradients], close: float) -> str:
    whole, parts = pair
    alone = [step([row]) for row in rows]
    if any(one.keys() != whole.keys() for one in alone):
        return ""
    mean = {n: torch.stack([one[n] for one in alone]).mean(0) for n in whole}

    def same(other: Gradients, factor: float = 1.0) -> bool:
        scaled = {n: t * factor for n, t in other.items()}
        return max(_gaps(scaled, parts).values()) < close

    causes = {
        "each piece is divided by its own count, so short rows weigh too much": same(mean),
        "the pieces' means are added and not divided by their number": same(mean, len(rows)),
        "it is the sum over pieces, not divided by their number": same(whole, len(rows)),
        "it is divided by the number of pieces once too often": same(whole, 1 / len(rows)),
        "only the last piece counts": same(alone[-1]) or same(alone[-1], 1 / len(rows)),
    }
    return next((cause for cause, holds in causes.items() if holds), "")


def _order_noise(step: Step, batch: Any, whole: Gradients) -> float:
    """What the gradient of the same batch moves when its rows come in two other orders."""
    largest = 0.0
    for move in (lambda t: t.flip(0), lambda t: t.roll(1, 0)):
        other = step([map_tensors(batch, move)])
        if other.keys() == whole.keys():
            largest = max(largest, *_gaps(whole, other).values())
    return largest


def _shape_noise(step: Step, row: Any) -> float:
    """What the gradient of one row moves when it is given seven times: kernels go by shape.

    More than rounding is no noise (the step may be a sum), and is left to the comparison.
    """
    copies = map_tensors(row, lambda t: t.repeat(COPIES, *[1] * (t.ndim - 1)))
    alone, many = step([row]), step([copies])
    if alone.keys() != many.keys():
        return 0.0
    largest = max(_gaps(alone, many).values())
    return largest if largest <= COARSE else 0.0


def _gaps(whole: Gradients, parts: Gradients) -> dict[str, float]:
    total = _norm(whole)
    gaps = {}
    for name, one in whole.items():
        size = max(float(one.norm()), FLOOR * total, torch.finfo(torch.float64).tiny)
        gap = float((one - parts[name]).norm()) / size
        gaps[name] = gap if math.isfinite(gap) else math.inf
    return gaps


def _norm(gradients: Gradients) -> float:
    return math.sqrt(sum(float(g.norm()) ** 2 for g in gradients.values()))


def _copy_gradients(step: Step, pieces: Sequence[Any]) -> Gradients:
    return {name: g.detach().double().clone() for name, g in step(pieces).items()}
