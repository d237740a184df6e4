"""apply: attention of a given query, by softmax or by argmax; hard attention and its gradients.

    argmax             output = v_i, i the key of the highest score (the first of equals):
                       d output / d query = d output / d keys = 0 wherever no two scores tie;
                       d output / d values = the one-hot weights, so values still train
    softmax at T       d output / d query = (scale / T) sum_i w_i (v_i - output) k_i^T, which falls
                       like exp(-gap / T) / T as T -> 0, gap = highest minus second-highest score
    straight-through   argmax in the forward pass, softmax at T in the backward pass: autograd's
                       gradient is not that of the output, which by finite differences is 0

Every Jacobian is measured twice, by autograd through the parts of `attnlab.parts.normalise` and by
central differences of the forward pass. Norms are Frobenius norms of Jacobians.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlab.construct.inputs import AttentionInputs, Scale, check_vector
from attnlab.construct.numerics import EPS, Array
from attnlab.construct.result import applicable, name_keys
from attnlab.core.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

KINDS = ("softmax", "argmax", "straight-through")
_STEP = 1e-5  # of a score, in units of T: near the cube root of machine epsilon


@dataclass(frozen=True, eq=False)
class Attention:
    """What attention makes of a query; of all `ties` for the highest score argmax takes the first.

    `lead` is the highest score minus the next lower one, None where all scores tie; `output` is
    None where no values were given.
    """

    kind: str  # softmax or argmax
    query: Array
    scores: Array
    weights: Array
    output: Array | None
    ties: tuple[int, ...]
    lead: float | None
    scale: float

    @property
    def why(self) -> str:
        """The result in one sentence."""
        first = self.ties[0]
        top = f"{self.scores[first]:.6g}"
        if len(self.ties) > 1:
            chosen = f"argmax takes the first, key {first}"
            if self.kind == "softmax":
                chosen = f"softmax gives each of them weight {self.weights[first]:.4g}"
            return f"{name_keys(self.ties).capitalize()} tie for the highest score, {top}: {chosen}"
        lead = "" if self.lead is None else f", {self.lead:.6g} above the next"
        gets = "all" if self.kind == "argmax" else f"{self.weights[first]:.4g}"
        return f"Key {first} has the highest score, {top}{lead}, and gets {gets} of the weight"

    def as_json(self) -> dict[str, Any]:
        """The fields as lists and numbers, without those that do not apply."""
        return applicable({**vars(self), "why": self.why})


def apply(
    keys: Any, query: Any, values: Any = None, scale: Scale = 1.0, hard: bool = False
) -> Attention:
    """The attention of a query over the keys: softmax(scale K q), or all on the highest score."""
    inputs = AttentionInputs.check(keys, scale, values)
    q = check_vector(query, inputs.keys.shape[1], "query")
    scores, ties = highest_scores(inputs.keys, q, inputs.scale)
    rest = np.delete(scores, ties)
    weights = np.eye(len(scores))[ties[0]] if hard else inputs.weights(q)
    return Attention(
        kind="argmax" if hard else "softmax",
        query=q,
        scores=scores,
        weights=weights,
        output=inputs.output(weights),
        ties=ties,
        lead=float(scores.max() - rest.max()) if rest.size else None,
        scale=inputs.scale,
    )


@dataclass(frozen=True, eq=False)
class HardAttention:
    """The result of argmax attention; of all `ties` for the highest score the first wins."""

    index: int
    ties: tuple[int, ...]
    gap: float | None  # highest score minus the next lower one; None where all scores tie
    weights: Array
    output: Array


@dataclass(frozen=True)
class JacobianNorms:
    """Norms of d output / d (query, keys, values), by autograd and by finite differences.

    `floor` is the smallest derivative that finite differences can tell from rounding.
    """

    kind: str
    temperature: float
    query: float
    keys: float
    values: float
    query_difference: float
    keys_difference: float
    values_difference: float
    floor: float


def hard_attention(keys: Any, query: Any, values: Any, scale: Scale = 1.0) -> HardAttention:
    """The value of the key with the highest score; keys that tie up to rounding are all listed."""
    if values is None:
        raise UsageError("values are needed, one per key")
    found = apply(keys, query, values, scale, hard=True)
    index = found.ties[0]
    output = np.array(values, np.float64)[index]
    return HardAttention(index, found.ties, found.lead, found.weights, output)


def highest_scores(keys: Array, query: Array, factor: float) -> tuple[Array, tuple[int, ...]]:
    """All scores, and the keys whose score is the highest up to rounding."""
    scores = factor * (keys @ query)
    # Rounding of a sum of h products, in units of the largest of them.
    size = factor * float((np.abs(keys) @ np.abs(query)).max())
    near = 4 * keys.shape[1] * EPS * size
    return scores, tuple(int(i) for i in np.flatnonzero(scores >= scores.max() - near))


def jacobian_norms(
    keys: Any,
    query: Any,
    values: Any,
    kind: str = "softmax",
    temperature: float = 1.0,
    scale: Scale = 1.0,
) -> JacobianNorms:
    """The norms of the three Jacobians, each by autograd and by central differences."""
    import torch

    from attnlab.core.config import suggest

    inputs = AttentionInputs.check(keys, scale, values)
    k, v = inputs.keys, inputs.values
    if v is None:
        raise UsageError("values are needed, one per key")
    q = check_vector(query, k.shape[1], "query")
    if kind not in KINDS:
        raise UsageError(f"unknown kind of attention {kind!r}: {suggest(kind, KINDS)}")
    if not (np.isfinite(temperature) and temperature > 0):
        raise UsageError(f"a temperature must be above 0: got {temperature!r}")
    # The output varies on the scale of scores that change by T: a step is a part of that.
    bend = temperature / inputs.scale
    largest_key, largest_entry = float(np.abs(k).max()), float(np.abs(q).max())
    # A score moves by factor * step * the other side; in the values the output is linear.
    steps = [
        _STEP * unit / (other or 1.0)
        for unit, other in ((bend, largest_key), (bend, largest_entry), (1.0, 1.0))
    ]
    attend = _forward(kind, inputs.scale / temperature)
    parts = tuple(torch.tensor(part, dtype=torch.float64) for part in (q, k, v))
    jacobians = torch.autograd.functional.jacobian(attend, parts)
    by_autograd = [float(torch.linalg.vector_norm(jacobian)) for jacobian in jacobians]
    by_difference = [_difference_norm(attend, parts, i, step) for i, step in enumerate(steps)]
    size = max(largest_key, largest_entry)
    floor = float(EPS * np.linalg.norm(v) * size / (_STEP * bend))
    return JacobianNorms(kind, float(temperature), *by_autograd, *by_difference, floor=floor)


def _forward(kind: str, factor: float) -> Callable[..., Tensor]:
    """The function (query, keys, values) -> output, built from the part that models use."""
    import torch

    from attnlab.parts.normalise import Normalise
    from attnlab.parts.part import Dims

    part = Normalise.variants[kind].Config().build(Dims(1, 1, 1, 1), torch.Generator())

    def attend(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        scores = factor * (keys @ query)
        allowed = torch.ones(1, 1, 1, len(keys), dtype=torch.bool)
        return part(scores[None, None, None], allowed)[0, 0, 0] @ values

    return attend


def _difference_norm(
    attend: Callable[..., Tensor], parts: tuple[Tensor, ...], which: int, step: float
) -> float:
    """Norm of (f(x + e) - f(x - e)) / 2e over one part; the error is of order e^2 + EPS / e."""
    total = 0.0
    for entry in np.ndindex(parts[which].shape):
        ends: list[Tensor] = []
        for sign in (1, -1):
            moved = [part.clone() for part in parts]
            moved[which][entry] += sign * step
            ends.append(attend(*moved))
        total += float(((ends[0] - ends[1]) / (2 * step)).square().sum())
    return total**0.5
