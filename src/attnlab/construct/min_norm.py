"""The shortest q with f(q) <= t, or the proof that there is none; both by one inequality.

    for all q and lambda:   f(q) >= H(lambda) - ||q|| ||D^T lambda||

so a query that reaches t is at least (H(lambda) - t) / ||D^T lambda|| long, and does not exist
where D^T lambda = 0 and H(lambda) > t. The bound is evaluated with its rounding error taken off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from attnlab.construct.hull import Infimum, infimum
from attnlab.construct.log_sum_exp import EPS, Array, SingleProblem, log_sum_and_softmax
from attnlab.construct.path_following import follow_path

Verdict = Literal["reached", "impossible", "undecided"]

NEAR = 1e3  # rows have length 1 at most: a query longer than this asks for a look at the hull
_GAP = 1e-6  # a bound nearer to the norm than this proves that the query is the shortest
_EVEN = 1e-13  # two values of f nearer than this are equal
_NUDGES = 60
_LONGEST = 1e120


@dataclass(frozen=True)
class MinNormResult:
    """`query` reaches the level (shortest), or `lowest` says why none does."""

    verdict: Verdict
    query: Array
    value: float  # f(query)
    bound: float  # no query shorter than this reaches the level
    residual: float  # of the conditions of optimality, relative
    infimum: Infimum | None = None

    @property
    def norm(self) -> float:
        """||query||."""
        return float(np.linalg.norm(self.query))

    @property
    def proven(self) -> bool:
        """Whether the bound leaves no room for a shorter query."""
        return self.bound >= (1 - _GAP) * self.norm


def min_norm_query(
    rows: Array, level: float, rounding: float = EPS, known: Infimum | None = None
) -> MinNormResult:
    """min ||q|| subject to log sum exp(rows q) <= level.

    `rounding` is the relative error of a row; `known` the infimum of f, where it has been found.
    """
    m, h = rows.shape
    if m == 0 or np.log(m) <= level + 4 * EPS * (1 + abs(level)):
        return MinNormResult("reached", np.zeros(h), float(np.log(m)) if m else -np.inf, 0.0, 0.0)
    size = largest_norm(rows)
    if size == 0:
        return _impossible(rows, level, infimum(rows))
    scaled, span = _narrow(rows / size)
    path = follow_path(SingleProblem(scaled), np.array([level]), np.zeros((1, span.shape[1])), NEAR)
    if path.solved[0]:
        found = accept_query(rows, level, span @ path.q[0] / size)
        if found is not None and found.proven:
            return found
    low = infimum(scaled, rounding) if known is None else _moved(known, size * span.T)
    return decide(rows, level, low, ReducedRows(scaled, span / size))


class ReducedRows(NamedTuple):
    """Rows in other coordinates, of length one at most: a query q there is lift @ q here."""

    rows: Array
    lift: Array


def decide(rows: Array, level: float, low: Infimum, frame: ReducedRows) -> MinNormResult:
    """The level against the infimum: a query, or the proof that there is none."""
    if low.value < level - _EVEN or not low.sure:
        start = np.zeros((1, frame.lift.shape[1]))
        path = follow_path(SingleProblem(frame.rows), np.array([level]), start, np.inf)
        tries = [path.q[0], *_along(frame.rows, level, low)]
        found = [accept_query(rows, level, frame.lift @ q) for q in tries]
        good = [one for one in found if one is not None]
        if good:
            return min(good, key=lambda one: one.norm)
    low = _moved(low, frame.lift)
    if low.value < level - _EVEN or not low.sure:
        return replace(_impossible(rows, level, low), verdict="undecided")
    if low.kind == "inside" and low.value <= level + _EVEN:
        return _outcome("reached", rows, level, low.query, low)
    return _impossible(rows, level, low)


def _along(rows: Array, level: float, low: Infimum) -> Iterator[Array]:
    """Where f passes the level on the way to an infimum that lies at infinity."""
    if low.direction is None:
        return
    length = 1.0
    while length < _LONGEST:
        q = low.query + length * low.direction
        if log_sum_and_softmax((rows @ q)[None])[0][0] <= level:
            yield q
            return
        length *= 2


def accept_query(rows: Array, level: float, q: Array) -> MinNormResult | None:
    """q as an outcome, its length settled on the rows as given; None if it misses the level."""
    if not np.isfinite(q).all():
        return None
    query = scale_to_level(rows, level, q)
    found = _outcome("reached", rows, level, query, None)
    return found if found.value <= level and np.isfinite(found.norm) else None


def scale_to_level(rows: Array, level: float, q: Array) -> Array:
    """q times the factor next to 1 that makes f(q) <= level hold in floating point."""
    for nudge in range(_NUDGES):
        f, p = log_sum_and_softmax((rows @ q)[None])
        excess = float(f[0]) - level
        if nudge > 2 and excess <= 0:
            break
        slope = -float(p[0] @ (rows @ q))
        if slope <= 0:
            break
        q = q * (1 + excess / slope + (2.0 ** min(nudge - 2, 20) * EPS if nudge > 2 else 0.0))
    return q


def _outcome(
    verdict: Verdict, rows: Array, level: float, q: Array, low: Infimum | None
) -> MinNormResult:
    f, p = log_sum_and_softmax((rows @ q)[None])
    g = p[0] @ rows
    length, steep = float(np.linalg.norm(q)), float(np.linalg.norm(g))
    off = np.linalg.norm(q / length + g / steep) if length and steep else 1.0
    if low is not None and verdict == "reached":
        off = 0.0 if length == 0 else steep / largest_norm(rows)  # the level is the infimum: g = 0
    residual = float(max(off, abs(float(f[0]) - level)))
    return MinNormResult(verdict, q, float(f[0]), norm_bound(rows, level, p[0]), residual, low)


def _impossible(rows: Array, level: float, low: Infimum) -> MinNormResult:
    """No query reaches the level: the best one, or for an infimum not attained where it begins."""
    f, _ = log_sum_and_softmax((rows @ low.query)[None])
    bound = norm_bound(rows, level, low.weights)
    return MinNormResult("impossible", low.query, float(f[0]), bound, low.change, low)


def norm_bound(rows: Array, level: float, p: Array) -> float:
    """(H(p) - t) / ||D^T p||, rounded so that it stays a bound: m terms, eps / 2 each."""
    used = p > 0
    rounding = (int(used.sum()) + 4) * EPS
    entropy = -float((p[used] * np.log(p[used])).sum())
    pull = float(np.linalg.norm(p @ rows)) + rounding * float(p @ np.linalg.norm(rows, axis=1))
    lead = entropy - rounding * (1 + entropy) - level
    return max(lead, 0.0) / pull if pull > 0 else np.inf if lead > 0 else 0.0


def largest_norm(rows: Array) -> float:
    """max_i ||d_i||, without overflow."""
    size = float(np.abs(rows).max(initial=0.0))
    return size * float(np.linalg.norm(rows / size, axis=1).max()) if size else 0.0


def _narrow(rows: Array) -> tuple[Array, Array]:
    """With fewer rows than dimensions the shortest query lies in their span: its coordinates."""
    m, h = rows.shape
    if m >= h:
        return rows, np.eye(h)
    span = np.linalg.qr(rows.T)[0]
    return rows @ span, span


def _moved(low: Infimum, way: Array) -> Infimum:
    """The same in other coordinates."""
    direction = None if low.direction is None else way @ low.direction
    return replace(low, query=way @ low.query, direction=direction)
