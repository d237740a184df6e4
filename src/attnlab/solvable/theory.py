"""Solutions of state evolution: one point, a curve in alpha, and the linear baseline beside them.

A branch is continued in alpha from where it is known; where its order parameter vanishes it has merged
with the trivial solution m = theta = 0, and that one is returned with the overlap exactly zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attnlab.solvable.evolution import Branch, Evolution, Model, State
from attnlab.solvable.integrate import Rule
from attnlab.solvable.prox import diagonal
from attnlab.solvable.roots import solve

__all__ = ["Branch", "Model", "Point", "State", "Tracer", "curve", "fixed_point"]
__all__ += ["linear_test_error", "linear_train_error"]

Array = NDArray[np.float64]

_FIRST: dict[Branch, tuple[float, State]] = {
    # alpha and overlaps at omega = 0.3 (THEORY, "Branches")
    "semantic": (1.4, State(0.09, 0.0, 15.0, 0.13)),
    "positional": (0.46, State(0.03, 0.216, 20.7, 0.0)),
    "trivial": (0.6, State(0.046, 0.0, 30.0, 0.0)),
}
_ROUNDS = 12


@dataclass(frozen=True)
class Point:
    """One solution. residual is the largest relative change the equations would still make.

    evaluations counts passes over the point set; a point that is not converged must not be drawn.
    envelope is E[min_z energy] / 2, which equals d train_error / d alpha along a branch.
    """

    alpha: float
    omega: float
    branch: Branch
    converged: bool
    residual: float
    evaluations: int
    q: float
    m: float
    V: float
    theta: float
    train_error: float
    test_error: float
    envelope: float

    @property
    def state(self) -> State:
        return State(self.q, self.m, self.V, self.theta)

    @property
    def order(self) -> float:
        """The overlap that names the branch."""
        return {"semantic": self.theta, "positional": self.m, "trivial": 0.0}[self.branch]

    @property
    def collapsed(self) -> bool:
        """Whether the branch has ended here: its order parameter is zero."""
        return self.branch != "trivial" and self.order == 0.0


class Tracer:
    """Follows one branch: each solve starts from the line through the last two solutions.

    A point that fails is marked and leaves the trail as it was, so its neighbours do not suffer.
    """

    def __init__(self, model: Model, branch: Branch, rule: Rule, tol: float = 1e-4) -> None:
        self.model, self.branch, self.rule, self.tol = model, branch, rule, tol
        self.evolution = Evolution(model, branch, rule)
        self.trail: list[tuple[float, Array]] = []
        self._slope: Array | None = None  # the solver's Jacobian, handed from point to point
        self._trivial: Tracer | None = None

    def begin(self, state: State) -> Array:
        return self.evolution.coordinates(state)

    def predict(self, alpha: float) -> Array:
        """Linear extrapolation of the last two solutions, at most one spacing ahead."""
        if not self.trail:
            return self.begin(_FIRST[self.branch][1])
        if len(self.trail) == 1 or self.trail[0][0] == self.trail[1][0]:
            return self.trail[-1][1]
        (a0, x0), (a1, x1) = self.trail
        return x1 + (x1 - x0) * float(np.clip((alpha - a1) / (a1 - a0), -1.0, 1.0))

    def solve(self, alpha: float, x: Array | None = None) -> Point:
        """The branch at alpha, from x or from the prediction.

        Rounds of: place the points for x, solve on them, look whether x still solves after a full
        search of the prox's minima with the points placed for itself.
        """
        evolution = self.evolution
        before = evolution.evaluations
        if self._trivial is not None and x is None:
            # The branch ended nearby: ask first whether it exists here at all.
            point = self._merged(alpha, 0)
            if point.converged:
                return point
        x = self.predict(alpha) if x is None else x
        slope, problem = self._slope, evolution.problem(alpha)
        residual, converged = np.inf, False
        for _ in range(_ROUNDS):
            evolution.refer(evolution.state(x))
            attempt = solve(problem, x, 0.1 * self.tol, slope, evolution.reach())
            x, slope = attempt.x, attempt.slope
            if evolution.gone(x):
                return self._merged(alpha, evolution.evaluations - before)
            if not attempt.inside:
                continue
            evolution.refer(evolution.state(x))
            residual = float(np.abs(problem(x)).max())
            if residual < self.tol:
                # The costly search comes last, and its answer counts.
                evolution.prox(evolution.reference.V, search=True)
                residual = float(np.abs(problem(x)).max())
                converged = residual < self.tol
            if converged:
                break
        self._slope = slope if converged else None
        if converged:
            self.trail = [*self.trail[-1:], (alpha, x)]
        state = evolution.state(x)
        errors = evolution.errors(state, alpha)
        return Point(
            alpha, self.model.omega, self.branch, converged, residual,
            evolution.evaluations - before, *state, *errors,
        )  # fmt: skip

    def _merged(self, alpha: float, spent: int) -> Point:
        """The trivial solution under this branch's name, if the order parameter shrinks there too."""
        self._trivial = self._trivial or Tracer(self.model, "trivial", self.rule, self.tol)
        point = self._trivial.solve(alpha)
        ends = self._trivial.evolution.gain(alpha, self.branch) < 1
        return replace(
            point,
            branch=self.branch,
            converged=point.converged and ends,
            evaluations=point.evaluations + spent,
        )


def fixed_point(
    model: Model,
    alpha: float,
    branch: Branch,
    rule: Rule,
    start: Point | None = None,
    tol: float = 1e-4,
) -> Point:
    """The branch's solution at alpha: from start, or by continuation from where the branch is known."""
    if start is not None:
        tracer = Tracer(model, branch, rule, tol)
        return tracer.solve(alpha, tracer.begin(start.state))
    first, _ = _FIRST[branch]
    count = max(2, int(np.ceil(abs(alpha - first) / 0.2)) + 1)
    path = curve(model, [float(a) for a in np.linspace(first, alpha, count)], branch, rule, tol)
    return replace(path[-1], evaluations=sum(point.evaluations for point in path))


def curve(
    model: Model, alphas: Sequence[float], branch: Branch, rule: Rule, tol: float = 1e-4
) -> list[Point]:
    """The branch at every alpha, in the order given, continued both ways from where it is known."""
    if any(alpha <= 0 for alpha in alphas):
        raise ValueError("alpha = N / D must be positive")
    first, _ = _FIRST[branch]
    tracer = Tracer(model, branch, rule, tol)
    order = sorted(range(len(alphas)), key=lambda i: alphas[i])
    upward = [i for i in order if alphas[i] >= first]
    downward = [i for i in reversed(order) if alphas[i] < first]
    found: dict[int, Point] = {}
    for i in upward:
        found[i] = tracer.solve(alphas[i])
        if not tracer.trail[:-1]:
            anchor = list(tracer.trail)
    if upward:
        tracer.trail = anchor
    for i in downward:
        found[i] = tracer.solve(alphas[i])
    return [found[i] for i in range(len(alphas))]


def linear_test_error(model: Model, order: int = 80) -> float:
    """(sigma^2 / 2) (1 - omega)^2 sum_ij Var[softmax_ij(u u^T)]: the best constant 2x2 mixing of tokens.

    The baseline y_i = sum_j B_ij x_j sees tokens without positions. Its four weights are known exactly
    as D -> infinity. The integrand is smooth: Gauss-Hermite of this order is exact to 1e-12.
    """
    x, w = np.polynomial.hermite_e.hermegauss(order)
    w = w / w.sum()
    u = model.sigma * np.stack([a.ravel() for a in np.meshgrid(x, x, indexing="ij")])
    weight = np.outer(w, w).ravel()
    a = diagonal(u)
    variance = (a * a) @ weight - (a @ weight) ** 2
    # Both entries of a row vary alike, hence twice the sum over rows.
    return float(model.rho * (1 - model.omega) ** 2 * variance.sum())


def linear_train_error(model: Model, alpha: float) -> float:
    """alpha times the test error: four weights fitted to N D equations leave no trace at D -> infinity."""
    return alpha * linear_test_error(model)
