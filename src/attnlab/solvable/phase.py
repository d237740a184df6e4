"""The critical points of the phase diagram, by root finding on the branches.

alpha_c   the semantic and the positional branch have equal training errors
alpha_l   the branch with the lower training error has the test error of the linear baseline
alpha_w   theta = 0 becomes unstable: a small theta at m = theta = 0 grows by a factor of one
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import root_scalar

from attnlab.solvable.quadrature import Rule
from attnlab.solvable.theory import BranchTracer, Model, Point, linear_test_error

_LEAST, _MOST = 0.15, 60.0  # range of alpha that is searched for a crossing
_RATIO = 1.15  # first step of the search, as a factor of alpha
_ERROR = 1e-4  # of alpha


@dataclass(frozen=True)
class Crossing:
    """A critical alpha; `value` is nan where there is none, and `reason` explains."""

    value: float
    converged: bool
    bracket: tuple[float, float]
    evaluations: int
    reason: str = ""


class Branches:
    """The semantic and the positional branch, each solved once per alpha."""

    def __init__(self, model: Model, rule: Rule) -> None:
        self.semantic = BranchTracer(model, "semantic", rule)
        self.positional = BranchTracer(model, "positional", rule)
        self.evaluations = 0
        self.points: dict[float, tuple[Point, Point]] = {}

    def __call__(self, alpha: float) -> tuple[Point, Point]:
        """The semantic and the positional solution at alpha."""
        if alpha not in self.points:
            pair = self.semantic.continue_to(alpha), self.positional.continue_to(alpha)
            self.evaluations += sum(point.evaluations for point in pair)
            self.points[alpha] = pair
        return self.points[alpha]


def _bracket(
    function: Callable[[float], float], start: float, limits: tuple[float, float] = (_LEAST, _MOST)
) -> tuple[float, float] | None:
    """An interval in which the function changes sign, by steps from `start` towards its root."""
    here, value = start, function(start)
    ratio = _RATIO if value > 0 else 1 / _RATIO
    while limits[0] <= here * ratio <= limits[1]:
        there = here * ratio
        ratio = min(ratio**1.2, 1.5) if ratio > 1 else ratio  # branches are flatter at large alpha
        new = function(there)
        if (new > 0) != (value > 0):
            return min(here, there), max(here, there)
        here, value = there, new
    return None


def _root(function: Callable[[float], float], bracket: tuple[float, float]) -> float:
    return root_scalar(function, method="brentq", bracket=bracket, xtol=_ERROR, maxiter=30).root


def alpha_c(model: Model, rule: Rule, branches: Branches | None = None) -> Crossing:
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
    value = _root(gap, bracket)
    pair = branches(value)
    merged = [point.branch for point in pair if point.collapsed]
    if merged:
        why = f"the {' and '.join(merged)} branch has already merged with the trivial solution"
        return Crossing(np.nan, False, bracket, branches.evaluations, why)
    converged = all(point.converged for point in pair)
    return Crossing(value, converged, bracket, branches.evaluations)


def alpha_l(model: Model, rule: Rule, branches: Branches | None = None) -> Crossing:
    """The alpha above which the branch of lower training error beats the linear baseline.

    At alpha_c that branch changes and the test error jumps; `reason` says so if it crosses there.
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
    value = _root(gap, bracket)
    jump = abs(gap(value)) > 0.01 * linear
    why = "the test error jumps across the linear baseline's at alpha_c" if jump else ""
    return Crossing(value, lower(value).converged, bracket, branches.evaluations, why)


def alpha_w(model: Model, rule: Rule) -> Crossing:
    """The alpha at which a small theta starts to grow at the trivial solution m = theta = 0."""
    tracer = BranchTracer(model, "trivial", rule)
    points: dict[float, Point] = {}
    total = 0

    def deficit(alpha: float) -> float:
        nonlocal total
        points[alpha] = tracer.continue_to(alpha)
        total += points[alpha].evaluations
        return 1 - tracer.gain(points[alpha], "semantic")

    bracket = _bracket(deficit, 0.6, (_LEAST, 4.0))
    if bracket is None:
        why = "the gain of a small theta does not cross one"
        return Crossing(np.nan, False, (_LEAST, 4.0), total, why)
    value = _root(deficit, bracket)
    deficit(value)
    return Crossing(value, points[value].converged, bracket, total)


def critical_alphas(model: Model, rule: Rule, finer: Rule | None = None) -> dict[str, Crossing]:
    """alpha_c, alpha_l and alpha_w by name; the first two share the computed branches.

    alpha_w is the noisiest and the cheapest of the three: give it a finer rule.
    """
    branches = Branches(model, rule)
    return {
        "alpha_c": alpha_c(model, rule, branches=branches),
        "alpha_l": alpha_l(model, rule, branches=branches),
        "alpha_w": alpha_w(model, finer or rule),
    }
