"""Solutions of state evolution: a single point, a curve in alpha, and the linear baseline.

A branch is continued in alpha from a known solution. Where its order parameter vanishes, it has
merged with the trivial solution m = theta = 0, which is returned with the overlap exactly zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attnlab.solvable.broyden import BroydenResult, broyden_solve
from attnlab.solvable.prox import Minima, diagonal
from attnlab.solvable.quadrature import Rule
from attnlab.solvable.state_evolution import Branch, Model, State, StateEvolution

Array = NDArray[np.float64]

_FIRST: dict[Branch, tuple[float, State]] = {
    # alpha and overlaps at omega = 0.3 (found by iteration from many starts)
    "semantic": (1.4, State(0.09, 0.0, 15.0, 0.13)),
    "positional": (0.46, State(0.03, 0.216, 20.7, 0.0)),
    "trivial": (0.6, State(0.046, 0.0, 30.0, 0.0)),
}
_STRIDE = 1.3  # largest factor of alpha in one continuation step
_ROUNDS = 12
_STILL = 1e-3  # coordinates are logarithms: this is a tenth of a per cent
_NEAR = 0.03  # largest scatter of a converged point
_PATIENCE = 3


@dataclass(frozen=True)
class Point:
    """A solution of state evolution: its order parameters and errors, and how well it converged.

    `residual` is the largest relative change in another iteration of the equations, `evaluations`
    the number of passes over the point set. Do not plot a point that is not converged. `envelope`
    is E[min_z energy] / 2, which equals d train_error / d alpha along a branch. `scatter` is the
    largest relative change of the solution when the integration points were last moved: an
    estimate of the integration error.
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
    scatter: float

    @property
    def state(self) -> State:
        """The order parameters as a state."""
        return State(self.q, self.m, self.V, self.theta)

    @property
    def order(self) -> float:
        """The order parameter of the branch: theta, m, or 0 for the trivial one."""
        return {"semantic": self.theta, "positional": self.m, "trivial": 0.0}[self.branch]

    @property
    def collapsed(self) -> bool:
        """Whether the branch has merged with the trivial solution: its order parameter is zero."""
        return self.branch != "trivial" and self.order == 0.0


class BranchTracer:
    """Follows one branch in alpha, each solve starting from an extrapolation of the last two.

    A point that fails is marked and not used for extrapolation, so its neighbours are unaffected.
    """

    def __init__(self, model: Model, branch: Branch, rule: Rule, tol: float = 2e-4) -> None:
        self.model, self.rule, self.tol = model, rule, tol
        self.branch: Branch = branch
        self.evolution = StateEvolution(model, branch, rule)
        self.trail: list[tuple[float, Array]] = []
        self.last: float | None = None  # the alpha of the last converged solution
        self._slope: Array | None = None  # the solver's Jacobian, passed from point to point
        self._trivial: BranchTracer | None = None

    def start(self, state: State) -> Array:
        """The state in the coordinates of the solver."""
        return self.evolution.coordinates(state)

    def rewind(self, trail: list[tuple[float, Array]]) -> None:
        """Return to an earlier trail and forget the Jacobian and minima of the present point."""
        self.trail, self._slope, self.evolution.minima = trail, None, Minima.empty()
        self.last = trail[-1][0] if trail else None

    def predict(self, alpha: float) -> Array:
        """Linear extrapolation from the last two solutions, by at most their distance in alpha."""
        if not self.trail:
            return self.start(_FIRST[self.branch][1])
        if len(self.trail) == 1 or self.trail[0][0] == self.trail[1][0]:
            return self.trail[-1][1]
        (a0, x0), (a1, x1) = self.trail
        return x1 + (x1 - x0) * float(np.clip((alpha - a1) / (a1 - a0), -1.0, 1.0))

    def continue_to(self, alpha: float) -> Point:
        """The branch at alpha, in steps from the last solution or from a known one.

        `evaluations` of the point counts those of all steps.
        """
        known = self.last or _FIRST[self.branch][0]
        count = int(np.ceil(abs(np.log(alpha / known)) / np.log(_STRIDE)))
        path = np.geomspace(known, alpha, count + 1)[1 if self.last and count else 0 :]
        points = [self.solve(float(step)) for step in path[:-1]]
        point = self.solve(alpha)
        return replace(point, evaluations=sum(p.evaluations for p in [*points, point]))

    def solve(self, alpha: float, x: Array | None = None) -> Point:
        """The branch at alpha, solved from x or from the extrapolation."""
        point = self._solve(alpha, self.predict(alpha) if x is None else x)
        if point.converged:
            self.last = alpha
        return point

    def _solve(self, alpha: float, x: Array) -> Point:
        if self.evolution.may_vanish(x):
            # The branch may have ended: first check whether its order parameter can grow here.
            point = self._trivial_point(alpha, 0)
            if point.converged:
                return point
        evolution = self.evolution
        before = evolution.evaluations
        attempt, scatter = self._iterate(alpha, x)
        x = attempt.x
        converged = (
            attempt.residual < self.tol and scatter < _NEAR and not evolution.has_vanished(x)
        )
        spent = evolution.evaluations - before
        if converged:
            self._slope = attempt.slope
            self.trail = [*self.trail[-1:], (alpha, x)]
        else:
            # Wrong minima and the Jacobian at them would spoil the next point.
            self._slope, evolution.minima = None, Minima.empty()
            if self.branch != "trivial":
                point = self._trivial_point(alpha, spent)
                if point.converged:
                    return point
        state = evolution.state(x)
        errors = evolution.errors(state, alpha)
        return Point(
            alpha,
            self.model.omega,
            self.branch,
            converged,
            attempt.residual,
            spent,
            *state,
            *errors,
            scatter,
        )

    def _iterate(self, alpha: float, x: Array) -> tuple[BroydenResult, float]:
        """Place the points for x and solve on them until x settles; then search all minima."""
        evolution, problem = self.evolution, self.evolution.problem(alpha)
        attempt = BroydenResult(x, np.inf, self._slope)
        scatter, quiet = np.inf, 0
        for turn in range(_ROUNDS):
            placed = attempt.x
            evolution.place_points(evolution.state(placed))
            if turn == 2:  # slow convergence: perhaps some minima were lost
                evolution.prox(evolution.reference.V, search=True)
            attempt = broyden_solve(
                problem, placed, self.tol, attempt.slope, evolution.trust_region()
            )
            scatter = float(np.abs(attempt.x - placed).max())
            # Moving the points changes the solution by the integration error: stop soon.
            quiet += scatter < _NEAR
            if evolution.has_vanished(attempt.x) or scatter < _STILL or quiet == _PATIENCE:
                break
        evolution.prox(evolution.state(attempt.x).V, search=True)
        return broyden_solve(
            problem, attempt.x, self.tol, attempt.slope, evolution.trust_region()
        ), scatter

    def gain(self, point: Point, order: Branch) -> float:
        """The factor by which a small theta (order semantic) or m (positional) grows at the point.

        Above one, the solution is unstable against that order parameter.
        """
        self.evolution.place_points(point.state)
        return self.evolution.gain(point.state, point.alpha, order)

    def _trivial_point(self, alpha: float, spent: int) -> Point:
        """The trivial solution as a point of this branch; converged if the order shrinks there."""
        self._trivial = self._trivial or BranchTracer(self.model, "trivial", self.rule, self.tol)
        point = self._trivial.solve(alpha)
        ends = self._trivial.gain(point, self.branch) < 1
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
    tol: float = 2e-4,
) -> Point:
    """The branch at alpha, solved from `start` or continued from a known solution."""
    if start is not None:
        tracer = BranchTracer(model, branch, rule, tol)
        return tracer.solve(alpha, tracer.start(start.state))
    return BranchTracer(model, branch, rule, tol).continue_to(alpha)


def curve(model: Model, alphas: Sequence[float], branch: Branch, rule: Rule) -> list[Point]:
    """The branch at every alpha, in the order given, continued both ways from a known solution."""
    if any(alpha <= 0 for alpha in alphas):
        raise ValueError("alpha = N / D must be positive")
    first, _ = _FIRST[branch]
    tracer = BranchTracer(model, branch, rule)
    order = sorted(range(len(alphas)), key=lambda i: alphas[i])
    upward = [i for i in order if alphas[i] >= first]
    downward = [i for i in reversed(order) if alphas[i] < first]
    points: dict[int, Point] = {}
    anchor: list[tuple[float, Array]] = []
    for i in upward:
        points[i] = tracer.continue_to(alphas[i])
        anchor = anchor or list(tracer.trail)
    if downward:
        tracer.rewind(anchor)
    for i in downward:
        points[i] = tracer.continue_to(alphas[i])
    return [points[i] for i in range(len(alphas))]


def linear_test_error(model: Model) -> float:
    """Test error of the best constant 2x2 mixing y_i = sum_j B_ij x_j for D -> infinity.

    It equals (sigma^2 / 2) (1 - omega)^2 sum_ij Var[softmax_ij(u u^T)]. The integrand is smooth,
    and Gauss-Hermite of order 80 is exact to 1e-12.
    """
    x, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    u = model.sigma * np.stack([a.ravel() for a in np.meshgrid(x, x, indexing="ij")])
    weight = np.outer(w, w).ravel()
    a = diagonal(u)
    variance = (a * a) @ weight - (a @ weight) ** 2
    # Both entries of a row have the same variance, hence twice the sum over rows.
    return float(model.rho * (1 - model.omega) ** 2 * variance.sum())
