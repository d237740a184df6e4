"""match: the query minimising KL(p || softmax(scale K q)), for any distribution p over the keys.

    KL(q) = f(q) - H(p),    f(q) = log sum_i exp(scale (k_i - K^T p) . q)

is convex. For every distribution lambda with K^T lambda = K^T p, KL(q) >= H(lambda) - H(p), with
equality at lambda = attention: so K^T attention = K^T p proves a minimum. It is attained iff K^T p
lies in the relative interior of conv(K). Otherwise attention flees to the least face that holds
K^T p (p lives there too), the infimum is that of the face alone, and the shortest query within
1e-3 of it is returned. It is exact, KL = 0, iff p > 0 and log p + c 1 is in the column space of K.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnlab.construct.certificates import member_coefficients
from attnlab.construct.entropy import entropy
from attnlab.construct.equal_weight import EqualWeightProblem, equal_weight_problem
from attnlab.construct.faces import least_face
from attnlab.construct.hull import Infimum, attained_infimum
from attnlab.construct.inputs import (
    Scale,
    attention_weights,
    check_keys,
    check_values,
    check_vector,
    resolve_scale,
)
from attnlab.construct.log_sum_exp import EPS, Array
from attnlab.construct.min_norm import largest_norm, min_norm_query
from attnlab.construct.result import Construction
from attnlab.construct.span import normalise_rows, orthonormal_basis
from attnlab.core.errors import UsageError

_SUM = 1e-6  # what a target's sum may miss 1 by
_NEAR = 1e-3  # nats above an infimum that is only approached
_MATCHED = 1e-6  # nats: by Pinsker the weights differ by 7.1e-4 in total variation at most
_EXACT = 1e-10  # of log p, relative to its own size
_FLOOR = 1e-4  # of the smallest positive weight: the score least squares is given for a zero


def match(keys: Any, target: Any, scale: Scale = 1.0, values: Any = None) -> Construction:
    """The nearest attention to `target`; feasible where KL can be brought to 0 (below 1e-6)."""
    found = check_keys(keys)
    p = check_distribution(target, len(found))
    given = check_values(values, len(found))
    factor = resolve_scale(scale, found.shape[1])
    best = _best(found, p, factor)
    return _answer(found, p, factor, given, best, _query(found, p, factor, best))


def _query(keys: Array, p: Array, scale: float, best: Infimum) -> Array:
    """The one that attains the infimum, or the shortest within 1e-3 of it.

    Rounding can spoil the first where keys differ by many orders of length; the second, or least
    squares, is then nearer.
    """
    if best.kind == "face":
        return min_norm_query(centre_keys(keys, p, scale), best.value + _NEAR, known=best).query
    limit = best.value - entropy(p) + _MATCHED
    if kl_divergence(p, _scores(keys, p, scale, best.query)) <= limit:
        return best.query
    other = min_norm_query(centre_keys(keys, p, scale), best.value + _NEAR, known=best).query
    tries = (best.query, other, least_squares(keys, p, scale)["query"])
    return min(tries, key=lambda q: kl_divergence(p, _scores(keys, p, scale, q)))


def check_distribution(target: Any, n: int) -> Array:
    """A distribution over the keys: not negative, of sum one; below eps a weight is zero.

    K^T p, all that the best query depends on, rounds such a weight away.
    """
    p = check_vector(target, n, "target weights")
    if (p < 0).any() or abs(float(p.sum()) - 1) > _SUM:
        raise UsageError(f"target weights are not negative and sum to 1: they sum to {p.sum():.6g}")
    p = np.where(p < EPS, 0.0, p)
    return p / p.sum()


def centre_keys(keys: Array, p: Array, scale: float) -> Array:
    """scale (k_i - K^T p), through differences to the heaviest key: those are rounded least."""
    apart = keys - keys[int(np.argmax(p))]
    return scale * (apart - p @ apart)


def _best(keys: Array, p: Array, scale: float) -> Infimum:
    """Which face, then the lowest point of f on it; its value less H(p) is the least KL."""
    support = [int(i) for i in np.flatnonzero(p > 0)]
    around = equal_weight_problem(keys, support, scale)
    face, start, direction, sure = p > 0, p, None, True
    if around.rest:
        size, unit = normalise_rows(around.rows)
        side = least_face(unit, around.rounding)
        on, share = size == 0, np.ones(len(size))
        on[size > 0], share[size > 0] = side.face, side.weights / size[size > 0]
        face[np.array(around.rest)[on]] = True
        sure = side.sure
        direction = None if side.direction is None else around.lift @ side.direction
        start = _mixed(around, p, np.where(on, share, 0.0))
    rows = centre_keys(keys, p, scale)
    length = largest_norm(rows) or 1.0
    span = orthonormal_basis(keys[face] - keys[support[0]])
    found = attained_infimum(rows[face] / length, start[face], span)
    weights = np.zeros(len(keys))
    weights[face] = found.at.p[0]
    return Infimum(
        kind="inside" if direction is None else "face",
        value=float(found.at.f[0]),
        query=found.at.q[0] / length,
        weights=weights,
        face=face,
        change=float(found.change[0]),
        direction=direction,
        sure=sure and bool(found.inside[0]),
    )


def _mixed(around: EqualWeightProblem, p: Array, share: Array) -> Array:
    """p with a little of the face's other keys, so that K^T stays and every weight is positive."""
    if not share.any():
        return p
    share = share / share.sum()
    move = np.zeros(len(p))
    move[around.rest] = share
    move[around.members] = -member_coefficients(around, share)
    loss = -move[around.members] / p[around.members]
    return p + 0.5 / max(float(loss.max()), 1.0) * move


def _answer(
    keys: Array, p: Array, scale: float, values: Array | None, best: Infimum, query: Array
) -> Construction:
    weights = attention_weights(keys, query, scale)
    infimum = max(0.0, best.value - entropy(p))
    kl = kl_divergence(p, _scores(keys, p, scale, query))
    gap = log_gap(keys, p, scale)
    exact = gap is not None and gap <= _EXACT * (1 + float(np.abs(np.log(p)).max()))
    rows = centre_keys(keys, p, scale)
    moment = float(np.linalg.norm(best.weights @ rows)) / (largest_norm(rows) or 1.0)
    return Construction(
        feasible=infimum <= _MATCHED,
        why=_sentence(best.kind, infimum, kl, exact),
        query=query,
        weights=weights,
        output=None if values is None else weights @ values,
        attained=best.kind == "inside",
        norm=float(np.linalg.norm(query)),
        certificate=_proof(keys, p, best, moment),
        kl=kl,
        residual=moment,
        also={
            "infimum": infimum,
            "exact": bool(exact),
            **({} if gap is None else {"log_gap": gap}),
            "total_variation": 0.5 * float(np.abs(weights - p).sum()),
            "least_squares": least_squares(keys, p, scale),
            **({} if best.sure else {"undecided": True}),
        },
    )


def _proof(keys: Array, p: Array, best: Infimum, moment: float) -> dict[str, Any]:
    """lambda with K^T lambda = K^T p: no query brings KL below H(lambda) - H(p)."""
    found = {
        "kind": "moments" if best.direction is None else "face",
        "lambda": best.weights,
        "moment": p @ keys,
        "residual": moment,
        "kl_bound": max(0.0, entropy(best.weights) - entropy(p)),
        "checked": "float",
    }
    if best.direction is None:
        return found
    face = np.flatnonzero(best.face)
    scores = (keys - keys[face[0]]) @ best.direction
    gap = float(scores[face].min() - scores[~best.face].max())
    return {**found, "face": face, "direction": best.direction, "gap": gap}


def _sentence(kind: str, infimum: float, kl: float, exact: bool) -> str:
    if exact:
        return "attention equals the target: log p + c is in the column space of the keys"
    if kind == "inside":
        near = (
            "which is as good as the target"
            if infimum <= _MATCHED
            else ("so the target itself cannot be met")
        )
        return f"the least KL is {infimum:.6g} nats, attained by this query, {near}"
    limit = "tends to 0" if infimum <= _MATCHED else f"stays above {infimum:.6g} nats"
    return (
        f"KL {limit} as the query grows and no query attains that, for the target lies on a face "
        f"of the keys' hull; this is the shortest within {_NEAR:g} of it, at {kl:.6g}"
    )


def _scores(keys: Array, p: Array, scale: float, query: Array) -> Array:
    """scale (k_i - k_heaviest) . q: softmax needs no more, and rounds less."""
    return scale * ((keys - keys[int(np.argmax(p))]) @ query)


def kl_divergence(p: Array, scores: Array) -> float:
    """KL(p || softmax(scores)), which is never below zero."""
    top = float(scores.max())
    log_total = top + math.log(float(np.exp(scores - top).sum()))
    used = p > 0
    return max(0.0, float((p[used] * (np.log(p[used]) - scores[used] + log_total)).sum()))


def log_gap(keys: Array, p: Array, scale: float) -> float | None:
    """max |log p + c - scale K q| at the best fit; None where p has a zero."""
    if (p == 0).any():
        return None
    q, constant = _fit(keys, np.log(p), scale)
    return float(np.abs(scale * (keys @ q) + constant - np.log(p)).max())


def _fit(keys: Array, scores: Array, scale: float) -> tuple[Array, float]:
    """Plain least squares scale K q + c = scores, c free: the shortest such q."""
    around = keys - keys.mean(axis=0)
    size = float(np.abs(around).max()) or 1.0
    centred = scores - scores.mean()
    q = np.linalg.lstsq(around / size, centred, rcond=4 * EPS * max(keys.shape))[0]
    q = q / (scale * size)
    return q, float(scores.mean() - scale * (keys.mean(axis=0) @ q))


def least_squares(keys: Array, p: Array, scale: float) -> dict[str, Any]:
    """The naive way: scores fitted to log p, a stated floor where p is zero; its errors."""
    floor = math.log(_FLOOR * float(p[p > 0].min()))
    scores = np.log(np.where(p > 0, p, 1.0))
    q, _ = _fit(keys, np.where(p > 0, scores, floor), scale)
    weights = attention_weights(keys, q, scale)
    return {
        "query": q,
        "weights": weights,
        "kl": kl_divergence(p, _scores(keys, p, scale, q)),
        "total_variation": 0.5 * float(np.abs(weights - p).sum()),
        **({"floor": floor} if (p == 0).any() else {}),
    }
