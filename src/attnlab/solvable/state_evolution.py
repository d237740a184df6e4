"""State evolution of the two-token, rank-one attention model for D -> infinity at alpha = N / D.

    h = sqrt(q) xi + (m, -m)          u = (theta / sqrt(q)) xi + sqrt(rho - theta^2 / q) eta
    T = (1 - omega) softmax(u u^T) + omega F        z = prox(h, T, V)        g = (z - h) / V
    m^ = alpha E[g_1 - g_2]   q^ = alpha E|g|^2   theta^ = alpha E[g.eta] / sqrt(rho - theta^2 / q)
    V^ = -alpha E[g.xi] / sqrt(q) + theta theta^ / q           Z = ridge + sigma^2 V^
    V = sigma^2 / Z    m = m^ / Z    theta = sigma^2 rho theta^ / Z
    q = sigma^2 (sigma^2 q^ + m^^2 + sigma^2 rho theta^^2) / Z^2

Two solutions compete: semantic (m = 0) and positional (theta = 0). Both conditions are exact
symmetries of the equations (theta -> -theta with eta -> -eta; m -> -m with h -> -h), so each branch
has three unknowns. The third branch, trivial, has m = theta = 0.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlab.solvable.broyden import Problem
from attnlab.solvable.prox import Minima, ProxProblem, diagonal
from attnlab.solvable.quadrature import Rule

Array = NDArray[np.float64]
Branch = Literal["semantic", "positional", "trivial"]
XI, ETA = slice(0, 2), slice(2, 4)

# Sign changes that are no symmetry of a branch's integrand: the points are closed under them.
_SIGNS: dict[Branch, tuple[slice, ...]] = {"semantic": (ETA,), "positional": (XI,), "trivial": ()}
_WEAK = 0.35  # cosine of theta up to which weights suffice: their variance is (1 - cos^2)^-2 - 1
_STRONG = 0.93  # cosine above which densities are too narrow for weights, and the points move
VANISHED = 0.02  # an order parameter (cosine of theta, or 4 m) below this counts as zero


@dataclass(frozen=True)
class Model:
    """Parameters of teacher and loss.

    sigma is the standard deviation of a token, omega the weight of the fixed matrix F (`mixing`)
    in the targets, ridge the L2 penalty.
    """

    sigma: float = 0.5
    omega: float = 0.3
    ridge: float = 0.01
    mixing: tuple[tuple[float, float], tuple[float, float]] = ((0.6, 0.4), (0.4, 0.6))

    def __post_init__(self) -> None:
        if not (self.sigma > 0 and self.ridge > 0 and 0 <= self.omega <= 1):
            raise ValueError("sigma and ridge must be positive, and omega between 0 and 1")
        if any(abs(sum(row) - 1) > 1e-9 for row in self.mixing):
            raise ValueError("each row of mixing must sum to 1, as a row of attention does")

    @property
    def rho(self) -> float:
        """The variance sigma^2 of a teacher field u."""
        return self.sigma**2

    def target(self, u: Array) -> Array:
        """The diagonal (T_11, T_22) of (1 - omega) softmax(u u^T) + omega F, shape (2, points)."""
        fixed = np.array([[self.mixing[0][0]], [self.mixing[1][1]]])
        return (1 - self.omega) * diagonal(u) + self.omega * fixed


class State(NamedTuple):
    """Order parameters: q = sigma^2 |W|^2 / D, m = W.1 / D, theta = sigma^2 W.W* / D.

    V is the cavity variance.
    """

    q: float
    m: float
    V: float
    theta: float


class StateEvolution:
    """The state-evolution map of one branch on one point set; it stores the minima of the prox.

    The points (h, u) are placed for a reference state and, for states near it, reweighted by the
    ratio of Gaussian densities (importance sampling): the prox jumps, so moving the points would
    make the map rough on the scale of one weight, while the weights are smooth. A small theta is
    represented by the weights alone (reference theta = 0): then u and -u share one prox, E[g.u]
    has no noise from points that jump, and theta' / theta has a clean limit at 0. This makes
    alpha_w computable. Near theta^2 = q rho densities are too narrow, and the points do move.
    """

    def __init__(self, model: Model, branch: Branch, rule: Rule) -> None:
        if rule.dimension != 4:
            raise ValueError(
                f"the integral is over R^4, but {rule.name} has dimension {rule.dimension}"
            )
        nodes, self.weights = rule.with_sign_flips(*_SIGNS[branch])
        self.model = model
        self.branch: Branch = branch
        self.xi, self.eta = nodes[XI], nodes[ETA]
        self.minima = Minima.empty()
        self.evaluations = 0
        self.reference = State(1.0, 0.0, 1.0, 0.0)
        self.h = self.u = self.t = np.empty((2, 0))
        self._variance = np.nan  # V for which the stored minima were computed

    def place_points(self, state: State) -> None:
        """Make this state the reference, or the same with theta = 0 where theta is small."""
        if state.theta < _WEAK * np.sqrt(state.q * self.model.rho):
            state = state._replace(theta=0.0)
        root = np.sqrt(state.q)
        self.h = root * self.xi + np.array([[state.m], [-state.m]])
        free = np.sqrt(self.model.rho - state.theta**2 / state.q)
        self.u = (state.theta / root) * self.xi + free * self.eta
        self.t = self.model.target(self.u)
        self.reference = state
        self._variance = np.nan

    def prox(self, variance: float, search: bool = False) -> tuple[Array, int]:
        """The minimisers at V = variance, and how many of them a new search changed."""
        has_minima = self.minima.best.shape[1] == self.h.shape[1]
        problem = ProxProblem(self.h, self.t, variance, self.model.rho)
        self.evaluations += 1
        moved = 0
        if search or not has_minima:
            moved = self.minima.search(problem)
        elif variance != self._variance:
            self.minima.follow(problem)
        self._variance = variance
        return self.minima.best, moved

    def _log_density(self, state: State) -> Array:
        """log p(h, u) up to a constant; (h_l, u_l) has covariance [[q, theta], [theta, rho]]."""
        q, m, _, theta = state
        rho = self.model.rho
        determinant = q * rho - theta**2
        noise = self.h - np.array([[m], [-m]])
        u = self.u
        form = rho * noise * noise - 2 * theta * noise * u + q * u * u
        return -0.5 * form.sum(axis=0) / determinant - np.log(determinant)

    def importance_weights(self, state: State) -> Array:
        """The weights of the rule times p_state / p_reference, normalised."""
        if state._replace(V=0.0) == self.reference._replace(V=0.0):
            return self.weights
        ratio = self._log_density(state) - self._log_density(self.reference)
        weights = self.weights * np.exp(ratio - ratio.max())
        return weights / weights.sum()

    def update(self, state: State, alpha: float) -> State:
        """One iteration of the equations at the top of this file."""
        rho = self.model.rho
        q, m, V, theta = state
        if theta > _STRONG * np.sqrt(q * rho) and state != self.reference:
            self.place_points(state)
        z, _ = self.prox(V)
        weights = self.importance_weights(state)
        g = (z - self.h) / V
        noise = self.h - np.array([[m], [-m]])  # sqrt(q) xi
        q_hat = alpha * float((g * g).sum(axis=0) @ weights)
        along = alpha * float((g * noise).sum(axis=0) @ weights) / q
        m_hat = alpha * float((g[0] - g[1]) @ weights) if self.branch == "positional" else 0.0
        theta_hat = 0.0
        if self.branch == "semantic":
            teacher = alpha * float((g * self.u).sum(axis=0) @ weights)
            theta_hat = (teacher - theta * along) / (rho - theta**2 / q)
        V_hat = -along + theta * theta_hat / q
        # Z <= 0 occurs only far from a solution; there it is set to a fifth of the ridge.
        Z = max(self.model.ridge + rho * V_hat, 0.2 * self.model.ridge)
        q_new = rho * (rho * q_hat + m_hat**2 + rho * rho * theta_hat**2) / Z**2
        return State(q_new, m_hat / Z, rho / Z, rho * rho * theta_hat / Z)

    def errors(self, state: State, alpha: float) -> tuple[float, float, float]:
        """Training error, test error and mean energy at the minimum (envelope), per dimension."""
        rho = self.model.rho
        z, _ = self.prox(state.V)
        weights = self.importance_weights(state)
        # Each row of A - T has two entries of equal size: half of ||A - T||^2 is the diagonal sum.
        fit = rho * float(((diagonal(z) - self.t) ** 2).sum(axis=0) @ weights)
        pull = 0.5 * float(((z - self.h) ** 2).sum(axis=0) @ weights) / state.V
        test = rho * float(((diagonal(self.h) - self.t) ** 2).sum(axis=0) @ weights)
        return alpha * fit + 0.5 * self.model.ridge * state.q / rho, test, fit + pull

    def gain(self, state: State, alpha: float, order: Branch) -> float:
        """d theta'/d theta at theta = 0 (semantic) or d m'/d m at m = 0 (positional), exactly.

        With n = h - E[h]: for Gaussians with covariance theta between n and u, dE[f]/dtheta =
        E[f n.u] / (q rho) at 0 (Price), and eta = (u - theta n / q) / sqrt(rho) to first order, so
            gain_theta = (alpha V / q) (E[(g.u)(n.u)] / rho - E[g.n]).
        Moving the means of h by (m, -m) adds (rho n - theta u).(1, -1) / (q rho - theta^2) to
        d log p / dm, so
            gain_m = (alpha V / rho) E[(g_1 - g_2)(rho n - theta u).(1, -1)] / (q rho - theta^2).
        """
        q, m, V, theta = state
        rho = self.model.rho
        z, _ = self.prox(V)
        weights = self.importance_weights(state)
        g = (z - self.h) / V
        noise = self.h - np.array([[m], [-m]])
        if order == "positional":
            score = (rho * noise - theta * self.u) / (q * rho - theta**2)
            return alpha * V / rho * float(((g[0] - g[1]) * (score[0] - score[1])) @ weights)
        along, across = (noise * self.u).sum(axis=0), (g * self.u).sum(axis=0)
        return alpha * V / q * float((across * along / rho - (g * noise).sum(axis=0)) @ weights)

    # The solver works on x = (log q, log V, log order), order = theta / sqrt(q rho) or 4 m. On the
    # log scale the trivial solution, which solves the equations of every branch, is at -infinity.

    def coordinates(self, state: State) -> Array:
        """The unknowns x of the solver at this state."""
        q = max(state.q, 1e-12)
        x = [np.log(q), np.log(state.V)]
        if self.branch == "semantic":
            x.append(np.log(max(state.theta, 1e-12) / np.sqrt(q * self.model.rho)))
        elif self.branch == "positional":
            x.append(np.log(max(4 * state.m, 1e-12)))
        return np.array(x)

    def state(self, x: Array) -> State:
        """The state at unknowns x: the inverse of `coordinates`."""
        q, V = float(np.exp(x[0])), float(np.exp(x[1]))
        if self.branch == "semantic":
            cosine = float(np.exp(min(x[2], -1e-6)))
            return State(q, 0.0, V, cosine * float(np.sqrt(q * self.model.rho)))
        return State(q, float(np.exp(x[2])) / 4 if self.branch == "positional" else 0.0, V, 0.0)

    def trust_region(self) -> Array:
        """How far each coordinate may move before the importance weights become too uneven."""
        radius = [0.2, 0.5, 0.2]
        if self.branch == "semantic" and self.reference.theta == 0:
            radius[2] = 1.0
        return np.array(radius[: 2 if self.branch == "trivial" else 3])

    def may_vanish(self, x: Array) -> bool:
        """Whether the order parameter is so small that the branch may not exist."""
        return self.branch != "trivial" and bool(x[2] < np.log(0.5))

    def has_vanished(self, x: Array) -> bool:
        """Whether the order parameter is so small that this is the trivial solution."""
        return self.branch != "trivial" and bool(x[2] < np.log(VANISHED))

    def problem(self, alpha: float) -> Problem:
        """The residual x -> F(x) - x at fixed integration points."""

        def residual(x: Array) -> Array:
            state = self.state(x)
            return self.coordinates(self.update(state, alpha)) - self.coordinates(state)

        return residual
