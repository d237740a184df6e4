"""Stability of a solution: two replicas at distance Delta, Delta' = alpha V^2 E|g(h) - g(h')|^2.

Both replicas have the order parameters of the solution and the same teacher field; their cavity
fields differ by E(h_l - h'_l)^2 = Delta:

    h, h' = (m, -m) + (theta / rho) u + sqrt(q - theta^2 / rho) (cos(a) zeta +- sin(a) zeta')
    Delta = 4 sin(a)^2 (q - theta^2 / rho); independent replicas have 2 (q - theta^2 / rho)

For Delta -> 0 the gain Delta' / Delta is the replicon eigenvalue alpha V^2 E|dg/dh|^2; where the
prox jumps it grows like Delta^(-1/2) instead. So the replica-symmetric solution is never exactly
stable: replicas separate until the gain has fallen to one, at Delta*. Delta* / q measures how wrong
the theory may be. Jumps are rare: below Delta* / q = 0.2 use 2^16 points or more (2^13 points miss
a Delta* / q of 0.07).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root_scalar

from attnlab.solvable.prox import Minima, ProxProblem
from attnlab.solvable.quadrature import Rule
from attnlab.solvable.state_evolution import Model
from attnlab.solvable.theory import Point

Array = NDArray[np.float64]

_STRIDE = 0.7  # step of log Delta in the search for the bracket


@dataclass(frozen=True)
class Separation:
    """Delta* / q as `relative`; 0 where even the smallest Delta tried shrinks, with the reason."""

    relative: float
    converged: bool
    evaluations: int
    reason: str = ""


class Replicas:
    """The two-replica map at a solution of state evolution; the rule must have six dimensions."""

    def __init__(self, model: Model, point: Point, rule: Rule) -> None:
        if rule.dimension != 6:
            raise ValueError(
                f"the integral is over R^6, but {rule.name} has dimension {rule.dimension}"
            )
        if not point.converged:
            raise ValueError(f"the {point.branch} point at alpha = {point.alpha} did not converge")
        nodes, self.weights = rule.with_sign_flips()
        self.point, self.sigma2 = point, model.rho
        u = model.sigma * nodes[4:6]
        self.target = model.target(u)
        self.mean = np.array([[point.m], [-point.m]]) + point.theta / model.rho * u
        self.spread = point.q - point.theta**2 / model.rho
        self.shared, self.private = nodes[0:2], nodes[2:4]
        self.minima = (Minima.empty(), Minima.empty())
        self.evaluations = 0

    def _pull(self, h: Array, minima: Minima) -> Array:
        """g = (prox(h) - h) / V, from a new search of all minima."""
        minima.search(ProxProblem(h, self.target, self.point.V, self.sigma2))
        return (minima.best - h) / self.point.V

    def gain(self, delta: float) -> float:
        """The factor Delta' / Delta of one step of the two-replica map."""
        if not 0 < delta <= 2 * self.spread:
            raise ValueError(f"Delta must lie in (0, {2 * self.spread:.4g}]: got {delta}")
        self.evaluations += 2
        sine = np.sqrt(delta / (4 * self.spread))
        root = np.sqrt(self.spread)
        common = self.mean + root * np.sqrt(1 - sine**2) * self.shared
        apart = root * sine * self.private
        g = self._pull(common + apart, self.minima[0]) - self._pull(common - apart, self.minima[1])
        new = self.point.alpha * self.point.V**2 * float((g * g).sum(axis=0) @ self.weights)
        return new / delta

    def separation(self, least: float = 1e-3, tol: float = 1e-2) -> Separation:
        """The distance Delta* at which the gain is one, from independent replicas downwards.

        The search starts from above because that is the stable side, and because the gain is
        noisy at a small Delta, where few points jump. It ends at Delta = least q.
        """
        q, most = self.point.q, 2 * self.spread

        def excess(log_delta: float) -> float:
            return self.gain(float(np.exp(log_delta))) - 1

        above = float(np.log(most * (1 - 1e-12)))
        if excess(above) > 0:
            why = "even independent replicas separate"
            return Separation(most / q, True, self.evaluations, why)
        while above > np.log(least * q):
            below = above - _STRIDE
            if excess(below) > 0:
                solution = root_scalar(excess, method="brentq", bracket=(below, above), xtol=tol)
                relative = float(np.exp(solution.root)) / q
                return Separation(relative, solution.converged, self.evaluations)
            above = below
        why = f"below {least:g}: replicas that close approach each other"
        return Separation(0.0, True, self.evaluations, why)
