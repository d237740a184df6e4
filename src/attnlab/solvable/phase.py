"""alpha_c, alpha_l, alpha_w: the three lines of the phase diagram, by root finding on branches.

alpha_c   training errors of the semantic and the positional branch are equal
alpha_l   test error of the branch with the lower training error equals the linear baseline's
alpha_w   theta = 0 stops being stable: the gain of a small theta at m = theta = 0 is one
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import root_scalar

from attnlab.solvable.quadrature import Rule
from attnlab.solvable.theory import BranchTracer, Model, Point, linear_test_error

_LEAST, _MOST = 0.15, 60.0  # alphas between which a crossing is looked for
_RATIO = 1.15


@dataclass(frozen=True)
class Crossing:
    """value is nan where there is no crossing; reason says why, or what is special about it."""

    value: float
    converged: bool
    bracket: tuple[float, float]
    evaluations: int
    reason: str = ""


class Branches:
    """Both branches followed together; counts their evaluations."""

    def __init__(self, model: Model, rule: Rule) -> None:
        self.semantic = BranchTracer(model, "semantic", rule)
        self.positional = BranchTracer(model, "positional", rule)
        self.evaluations = 0
        self.seen: dict[float, tuple[Point, Point]] = {}

    def __call__(self, alpha: float) -> tuple[Point, Point]:
        """The semantic and the positional solution at alpha."""
        if alpha not in self.seen:
            pair = self.semantic.walk(alpha), self.positional.walk(alpha)
            self.evaluations += sum(point.evaluations for point in pair)
            self.seen[alpha] = pair
        return self.seen[alpha]


def _bracket(
    function: Callable[[float], float], start: float, limits: tuple[float, float] = (_LEAST, _MOST)
) -> tuple[float, float] | None:
    """The first sign change from positive to negative on a walk from start in the right way."""
    here, value = start, function(start)
    ratio = _RATIO if value > 0 else 1 / _RATIO
    while limits[0] <= here * ratio <= limits[1]:
        there = here * ratio
        ratio = min(ratio**1.2, 1.5) if ratio > 1 else ratio  # upwards the branches flatten
        new = function(there)
        if (new > 0) != (value > 0):
            return min(here, there), max(here, there)
        here, value = there, new
    return None


def _root(function: Callable[[float], float], bracket: tuple[float, float], tol: float) -> float:
    return root_scalar(function, method="brentq", bracket=bracket, xtol=tol, maxiter=30).root


def alpha_c(
    model: Model, rule: Rule, tol: float = 1e-4, branches: Branches | None = None
) -> Crossing:
    """The alpha at which the semantic training error falls below the positional one."""
    branches = branches or Branches(model, rule)

    def gap(alpha: float) -> float:
        semantic, positional = branches(alpha)
        return semantic.train_error - positional.train_error

    bracket = _bracket(gap, 1.25)
    if bracket is None:
        side = "positional" if gap(1.25) > 0 else "semantic"
        why = f"the {side} branch has the lower training error from {_LEAST} to {_MOST}"
        return Crossing(np.nan, False, (_LEAST, _MOST), branches.evaluations, why)
    value = _root(gap, bracket, tol)
    pair = branches(value)
    gone = [point.branch for point in pair if point.collapsed]
    if gone:
        why = f"the {' and '.join(gone)} branch has already merged with the trivial solution"
        return Crossing(np.nan, False, bracket, branches.evaluations, why)
    converged = all(point.converged for point in pair)
    return Crossing(value, converged, bracket, branches.evaluations)


def alpha_l(
    model: Model, rule: Rule, tol: float = 1e-4, branches: Branches | None = None
) -> Crossing:
    """The alpha above which the branch of lower training error generalises better than linear.

    Where that branch changes (alpha_c) its test error jumps; a sign change there is said in reason.
    """
    branches = branches or Branches(model, rule)
    linear = linear_test_error(model)

    def lower(alpha: float) -> Point:
        return min(branches(alpha), key=lambda point: point.train_error)

    def gap(alpha: float) -> float:
        return lower(alpha).test_error - linear

    bracket = _bracket(gap, 1.45)
    if bracket is None:
        word = "above" if gap(1.45) > 0 else "below"
        why = f"the test error stays {word} the linear baseline's from {_LEAST} to {_MOST}"
        return Crossing(np.nan, False, (_LEAST, _MOST), branches.evaluations, why)
    value = _root(gap, bracket, tol)
    jump = abs(gap(value)) > 0.01 * linear
    why = "the test error jumps across the linear baseline's at alpha_c" if jump else ""
    return Crossing(value, lower(value).converged, bracket, branches.evaluations, why)


def alpha_w(model: Model, rule: Rule, tol: float = 1e-4) -> Crossing:
    """The alpha at which a small theta starts to grow at the trivial solution m = theta = 0."""
    tracer = BranchTracer(model, "trivial", rule)
    seen: dict[float, Point] = {}
    total = 0

    def deficit(alpha: float) -> float:
        nonlocal total
        seen[alpha] = tracer.walk(alpha)
        total += seen[alpha].evaluations
        return 1 - tracer.gain(seen[alpha], "semantic")

    bracket = _bracket(deficit, 0.6, (_LEAST, 4.0))
    if bracket is None:
        why = "the gain of a small theta does not cross one"
        return Crossing(np.nan, False, (_LEAST, 4.0), total, why)
    value = _root(deficit, bracket, tol)
    deficit(value)
    return Crossing(value, seen[value].converged, bracket, total)


def critical_alphas(model: Model, rule: Rule, finer: Rule | None = None) -> dict[str, Crossing]:
    """alpha_c, alpha_l and alpha_w together: the branches are computed once.

    alpha_w is the noisiest and the cheapest: give it a finer rule.
    """
    branches = Branches(model, rule)
    return {
        "alpha_c": alpha_c(model, rule, branches=branches),
        "alpha_l": alpha_l(model, rule, branches=branches),
        "alpha_w": alpha_w(model, finer or rule),
    }
