"""match: the query whose attention is closest to a distribution p over the keys, in KL divergence.

    KL(p || softmax(scale K q)) = f(q) - H(p),   f(q) = log sum_i exp(scale (k_i - K^T p) . q)

is convex in q. For every distribution lambda with K^T lambda = K^T p, KL >= H(lambda) - H(p), with
equality at lambda = attention: so K^T attention = K^T p proves a minimum. The minimum is attained
iff K^T p lies in the relative interior of conv(K). Otherwise the infimum is that of the smallest
face that contains K^T p (and all of p), queries approach it as they grow, and the shortest query
within 1e-3 of it is returned. KL = 0 exactly iff p > 0 and log p + c 1 is in the column space of K.
"""

import math
from typing import Any

import numpy as np

from attnlab.construct.equal_weight import (
    EqualWeightProblem,
    equal_weight_problem,
    member_coefficients,
)
from attnlab.construct.hull import Infimum, attained_infimum, least_face
from attnlab.construct.inputs import AttentionInputs, Scale, check_vector
from attnlab.construct.min_norm import min_norm_query
from attnlab.construct.numerics import (
    EPS,
    Array,
    entropy,
    largest_norm,
    log_sum_exp,
    norm,
    normalise_rows,
    orthonormal_basis,
)
from attnlab.construct.result import Construction
from attnlab.core.errors import UsageError

_SUM = 1e-6  # how far from 1 the sum of a target may be
_NEAR = 1e-3  # nats above an infimum that is only approached
_MATCHED = 1e-6  # nats: by Pinsker the weights differ by at most 7.1e-4 in total variation
_EXACT = 1e-10  # of log p, relative to its own size
_FLOOR = 1e-4  # of the smallest positive weight: what least squares is given in place of a zero


def match(keys: Any, target: Any, scale: Scale = 1.0, values: Any = None) -> Construction:
    """The attention closest to `target`; feasible where the KL divergence can fall below 1e-6."""
    inputs = AttentionInputs.check(keys, scale, values)
    p = check_distribution(target, len(inputs.keys))
    best = _minimise_kl(inputs, p)
    return _describe(inputs, p, best, _choose_query(inputs, p, best))


def _choose_query(inputs: AttentionInputs, p: Array, best: Infimum) -> Array:
    """The query that attains the infimum, or the shortest one within 1e-3 of it.

    Where the keys' lengths differ by many orders, rounding can spoil the first; then the second,
    or the least-squares query, may be closer.
    """
    limit = best.value - entropy(p) + _MATCHED
    if best.kind == "inside" and kl_divergence(p, _scores(inputs, p, best.query)) <= limit:
        return best.query
    shortest = min_norm_query(centre_keys(inputs, p), best.value + _NEAR, known=best).query
    if best.kind == "face":
        return shortest
    candidates = (best.query, shortest, least_squares(inputs, p)["query"])
    return min(candidates, key=lambda q: kl_divergence(p, _scores(inputs, p, q)))


def check_distribution(target: Any, n: int) -> Array:
    """n non-negative numbers that sum to one; a weight below machine epsilon becomes zero.

    K^T p, on which alone the best query depends, would round such a weight away.
    """
    p = check_vector(target, n, "target weights")
    if (p < 0).any() or abs(float(p.sum()) - 1) > _SUM:
        raise UsageError(
            f"target weights must be non-negative and sum to 1: they sum to {p.sum():.6g}"
        )
    p = np.where(p < EPS, 0.0, p)
    return p / p.sum()


def centre_keys(inputs: AttentionInputs, p: Array) -> Array:
    """scale (k_i - K^T p), from differences to the key of largest weight, which round least."""
    differences = inputs.keys - inputs.keys[int(np.argmax(p))]
    return inputs.scale * (differences - p @ differences)


def _minimise_kl(inputs: AttentionInputs, p: Array) -> Infimum:
    """Find the face, then the minimum of f on it; the minimum less H(p) is the smallest KL."""
    keys, support = inputs.keys, [int(i) for i in np.flatnonzero(p > 0)]
    problem = equal_weight_problem(inputs, support)
    on_face, start, direction, sure = p > 0, p, None, True
    if problem.rest:
        size, unit = normalise_rows(problem.rows)
        face = least_face(unit, problem.rounding)
        joins, share = size == 0, np.ones(len(size))
        joins[size > 0], share[size > 0] = face.rows, face.weights / size[size > 0]
        on_face[np.array(problem.rest)[joins]] = True
        sure = face.sure
        direction = None if face.direction is None else problem.lift @ face.direction
        start = _spread_over_face(problem, p, np.where(joins, share, 0.0))
    rows = centre_keys(inputs, p)
    length = largest_norm(rows) or 1.0
    span = orthonormal_basis(keys[on_face] - keys[support[0]])
    minimum = attained_infimum(rows[on_face] / length, start[on_face], span)
    weights = np.zeros(len(keys))
    weights[on_face] = minimum.at.p
    return Infimum(
        kind="inside" if direction is None else "face",
        value=minimum.at.f,
        query=minimum.at.q / length,
        weights=weights,
        face=on_face,
        change=minimum.change,
        direction=direction,
        sure=sure and minimum.inside,
    )


def _spread_over_face(problem: EqualWeightProblem, p: Array, share: Array) -> Array:
    """p with some weight moved to the other keys of the face: K^T p stays, all become positive."""
    if not share.any():
        return p
    share = share / share.sum()
    move = np.zeros(len(p))
    move[problem.rest] = share
    move[problem.members] = -member_coefficients(problem, share)
    loss = -move[problem.members] / p[problem.members]
    return p + 0.5 / max(float(loss.max()), 1.0) * move


def _describe(inputs: AttentionInputs, p: Array, best: Infimum, query: Array) -> Construction:
    infimum = max(0.0, best.value - entropy(p))
    kl = kl_divergence(p, _scores(inputs, p, query))
    gap = _log_gap(inputs, p)
    exact = gap is not None and gap <= _EXACT * (1 + float(np.abs(np.log(p)).max()))
    rows = centre_keys(inputs, p)
    moment = norm(best.weights @ rows) / (largest_norm(rows) or 1.0)
    return Construction.of_query(
        inputs,
        query,
        feasible=infimum <= _MATCHED,
        why=_explain(best.kind, infimum, kl, exact),
        attained=best.kind == "inside",
        certificate=_certificate(inputs.keys, p, best, moment),
        kl=kl,
        residual=moment,
        also={
            "infimum": infimum,
            "exact": bool(exact),
            **({} if gap is None else {"log_gap": gap}),
            "total_variation": 0.5 * float(np.abs(inputs.weights(query) - p).sum()),
            "least_squares": least_squares(inputs, p),
            **({} if best.sure else {"undecided": True}),
        },
    )


def _certificate(keys: Array, p: Array, best: Infimum, moment: float) -> dict[str, Any]:
    """lambda with K^T lambda = K^T p: no query brings KL below H(lambda) - H(p)."""
    certificate = {
        "kind": "moments" if best.direction is None else "face",
        "lambda": best.weights,
        "moment": p @ keys,
        "residual": moment,
        "kl_bound": max(0.0, entropy(best.weights) - entropy(p)),
        "checked": "float",
    }
    if best.direction is None:
        return certificate
    face = np.flatnonzero(best.face)
    scores = (keys - keys[face[0]]) @ best.direction
    gap = float(scores[face].min() - scores[~best.face].max())
    return {**certificate, "face": face, "direction": best.direction, "gap": gap}


def _explain(kind: str, infimum: float, kl: float, exact: bool) -> str:
    if exact:
        return "Attention equals the target: log p + c is in the column space of the keys."
    if kind == "inside":
        verdict = "so no query matches the target"
        if infimum <= _MATCHED:
            verdict = "which is as good as the target"
        return f"This query attains the smallest KL divergence, {infimum:.6g} nats, {verdict}."
    limit = "tends to 0" if infimum <= _MATCHED else f"stays above {infimum:.6g} nats"
    return (
        f"The target lies on a face of the keys' convex hull: KL {limit} as the query grows, and"
        f" no query attains the limit. This is the shortest query within {_NEAR:g} of it,"
        f" with KL {kl:.6g}."
    )


def _scores(inputs: AttentionInputs, p: Array, query: Array) -> Array:
    """Scores relative to the key of largest weight, where they round least."""
    return inputs.scale * ((inputs.keys - inputs.keys[int(np.argmax(p))]) @ query)


def kl_divergence(p: Array, scores: Array) -> float:
    """KL(p || softmax(scores)), with rounding below zero cut off."""
    log_total, used = log_sum_exp(scores), p > 0
    return max(0.0, float((p[used] * (np.log(p[used]) - scores[used] + log_total)).sum()))


def _log_gap(inputs: AttentionInputs, p: Array) -> float | None:
    """max |log p + c - scale K q| at the least-squares fit; None where p has a zero."""
    if (p == 0).any():
        return None
    q, constant = _fit_scores(inputs, np.log(p))
    return float(np.abs(inputs.scale * (inputs.keys @ q) + constant - np.log(p)).max())


def _fit_scores(inputs: AttentionInputs, scores: Array) -> tuple[Array, float]:
    """The shortest least-squares solution q, c of scale K q + c = scores."""
    keys, scale = inputs.keys, inputs.scale
    centred = keys - keys.mean(axis=0)
    size = float(np.abs(centred).max()) or 1.0
    target = scores - scores.mean()
    q = np.linalg.lstsq(centred / size, target, rcond=4 * EPS * max(keys.shape))[0]
    q = q / (scale * size)
    return q, float(scores.mean() - scale * (keys.mean(axis=0) @ q))


def least_squares(inputs: AttentionInputs, p: Array) -> dict[str, Any]:
    """The naive baseline, scores fitted to log p with a floor for zeros, and its errors."""
    floor = math.log(_FLOOR * float(p[p > 0].min()))
    scores = np.log(np.where(p > 0, p, 1.0))
    q, _ = _fit_scores(inputs, np.where(p > 0, scores, floor))
    weights = inputs.weights(q)
    return {
        "query": q,
        "weights": weights,
        "kl": kl_divergence(p, _scores(inputs, p, q)),
        "total_variation": 0.5 * float(np.abs(weights - p).sum()),
        **({"floor": floor} if (p == 0).any() else {}),
    }
