"""The proximal operator of the loss of one sample, for two tokens and rank one:

    z = argmin_z sum_l (z_l - h_l)^2 / V + sigma^2 ||softmax(z z^T) - T||_F^2

Each row of a 2x2 softmax is one sigmoid: a_11 = s(d_1) with d_1 = z_1^2 - z_1 z_2, and
a_22 = s(d_2) with d_2 = z_2^2 - z_1 z_2. If the rows of T sum to one the second term is
2 sigma^2 [(a_11 - T_11)^2 + (a_22 - T_22)^2], whose gradient and 2x2 Hessian have closed forms.
The objective is not convex at the V of state evolution, so the minima reached from several starts
are kept, and the lowest is the solution.

Arrays in this file have the token axis first: h, t, z are (2, points), t = (T_11, T_22).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_STEP_DONE = 1e-7  # Newton is quadratic: a last step this long leaves an error near 1e-13
_MAX_STEPS = 80
_DISTINCT = 1e-4  # two minima closer than this are the same
_PAIR = 0.7  # z of a softmax entry near 0.73, halfway up the sigmoid
_CHUNK = 4096  # points whose arrays fit in the processor's cache


class ProxProblem(NamedTuple):
    """Cavity fields h and target diagonals t of every point, with V (`variance`) and sigma^2."""

    h: Array
    t: Array
    variance: float
    sigma2: float

    def take(self, keep: NDArray[np.intp] | slice) -> ProxProblem:
        """The same problem for some of the points."""
        return self._replace(h=self.h[:, keep], t=self.t[:, keep])


class _Local(NamedTuple):
    """The energy, its gradient and the three entries of its Hessian at every point."""

    energy: Array
    gradient: Array
    hessian: Array


def _sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x) by tanh, which neither overflows nor branches."""
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def diagonal(z: Array) -> Array:
    """The diagonal (a_11, a_22) of softmax(z z^T), shape (2, points)."""
    return _sigmoid(z * (z - z[::-1]))


def _energy(z: Array, field: ProxProblem) -> Array:
    pull = ((z - field.h) ** 2).sum(axis=0) / field.variance
    return pull + 2 * field.sigma2 * ((diagonal(z) - field.t) ** 2).sum(axis=0)


def _local(z: Array, field: ProxProblem) -> _Local:
    """The second-order expansion of the energy at z.

    With c = (a - T) a' and k = a'^2 + (a - T) a'', the fit term has gradient
    4 sigma^2 sum c_l grad d_l and Hessian 4 sigma^2 sum (k_l grad d_l grad d_l^T + c_l hess d_l).
    """
    h, t, variance, sigma2 = field
    z1, z2 = z
    a = diagonal(z)
    slope = a * (1 - a)
    miss = a - t
    c1, c2 = c = miss * slope
    k1, k2 = slope * slope + c * (1 - 2 * a)
    e1, e2 = 2 * z1 - z2, 2 * z2 - z1  # d d_1 = (e1, -z1), d d_2 = (-z2, e2)
    shift = z - h
    curve = 4 * sigma2
    energy = (shift * shift).sum(axis=0) / variance + 2 * sigma2 * (miss * miss).sum(axis=0)
    gradient = (2 / variance) * shift
    gradient[0] += curve * (c1 * e1 - c2 * z2)
    gradient[1] += curve * (c2 * e2 - c1 * z1)
    hessian = np.empty((3, z.shape[1]))
    hessian[0] = 2 / variance + curve * (k1 * e1 * e1 + k2 * z2 * z2 + 2 * c1)
    hessian[1] = -curve * (k1 * e1 * z1 + k2 * e2 * z2 + c1 + c2)
    hessian[2] = 2 / variance + curve * (k2 * e2 * e2 + k1 * z1 * z1 + 2 * c2)
    return _Local(energy, gradient, hessian)


def _step(at: _Local, damping: Array, floor: float) -> Array:
    """-(H + mu I)^-1 gradient with mu so large that the smallest eigenvalue reaches the floor."""
    h11, h12, h22 = at.hessian
    smallest = 0.5 * (h11 + h22) - np.hypot(0.5 * (h11 - h22), h12)
    mu = np.maximum(damping, floor - smallest)
    h11, h22 = h11 + mu, h22 + mu
    scale = -1 / (h11 * h22 - h12 * h12)
    g1, g2 = at.gradient
    step = np.stack([scale * (h22 * g1 - h12 * g2), scale * (h11 * g2 - h12 * g1)])
    # The scores are quadratic in z: the expansion is useless beyond a unit step.
    return step / np.maximum(1.0, np.hypot(step[0], step[1]))


def _descend_chunk(z: Array, field: ProxProblem) -> Array:
    """Newton's method; a step that does not lower the energy is rejected and damped."""
    result = z.copy()
    where = np.arange(z.shape[1])
    at = _local(z, field)
    damping = np.zeros(z.shape[1])
    unit = 2 / field.variance
    for _ in range(_MAX_STEPS):
        step = _step(at, np.where(damping < 0.05 * unit, 0.0, damping), 0.05 * unit)
        trial = z + step
        new = _local(trial, field)
        better = new.energy <= at.energy
        small = np.abs(step).max(axis=0) < _STEP_DONE
        z = np.where(better, trial, z)
        damping = np.where(better, 0.1 * damping, 4 * damping + unit)
        if small.any():
            result[:, where] = z
            keep = np.flatnonzero(~small)
            where, z, damping, field = where[keep], z[:, keep], damping[keep], field.take(keep)
            at, new = (_Local(*(part[..., keep] for part in one)) for one in (at, new))
            better = better[keep]
        if not where.size:
            return result
        at = _Local(*(np.where(better, b, a) for a, b in zip(at, new, strict=True)))
    result[:, where] = z
    return result


def _starts(h: Array) -> tuple[Array, ...]:
    """The starts: h, 0 and both signs of a pair (c, -c), at which the softmax attends.

    From 0, h/2 and h alone up to 0.4 % of the points stay in a higher minimum: the prox jumps where
    both signs of z are equally good, and the other sign is never tried. With both signs, 25 random
    starts per point find nothing lower (tests/solvable/test_prox.py).
    """
    pair = np.full_like(h, _PAIR)
    pair[1] = -_PAIR
    return h, np.zeros_like(h), pair, -pair


def _descend(z: Array, field: ProxProblem) -> Array:
    """The local minimum that each start descends to."""
    parts = [slice(i, i + _CHUNK) for i in range(0, z.shape[1], _CHUNK)]
    return np.concatenate([_descend_chunk(z[:, p], field.take(p)) for p in parts], axis=1)


@dataclass
class Minima:
    """The lowest minimum of every point and its other known minima, followed as h and V change.

    `follow` updates every known minimum by a few Newton steps and keeps the lowest: this is cheap
    and free of hysteresis. `search` descends again from every start.
    """

    best: Array
    other: Array
    owner: NDArray[np.intp]  # the point each column of `other` belongs to

    @classmethod
    def empty(cls) -> Minima:
        """No minima known yet."""
        return cls(np.empty((2, 0)), np.empty((2, 0)), np.empty(0, np.intp))

    def follow(self, field: ProxProblem) -> Array:
        """The lowest of the known minima after an update to new h and V."""
        self.best = _descend(self.best, field)
        if self.owner.size:
            self._compete(_descend(self.other, field.take(self.owner)), field)
        return self.best

    def _compete(self, rival: Array, field: ProxProblem) -> None:
        """Swap a rival minimum with the best one of its point where it is lower."""
        owner = self.owner
        # Each round makes at most one swap per point; a point has one or two rivals.
        for _ in range(4):
            mine = field.take(owner)
            gain = _energy(self.best[:, owner], mine) - _energy(rival, mine)
            lower = np.flatnonzero(gain > 0)
            if not lower.size:
                break
            order = lower[np.argsort(-gain[lower], kind="stable")]
            _, first = np.unique(owner[order], return_index=True)
            chosen = order[first]
            held = self.best[:, owner[chosen]]
            self.best[:, owner[chosen]] = rival[:, chosen]
            rival[:, chosen] = held
        self.other = rival

    def search(self, field: ProxProblem) -> int:
        """Descend from every start; return the number of points whose lowest minimum changed."""
        h = field.h
        points = h.shape[1]
        fresh = [_descend(start, field) for start in _starts(h)]
        has_minima = self.best.shape[1] == points
        if has_minima:
            before = self.follow(field).copy()
        else:
            before = np.full_like(h, np.inf)
            self.best = fresh[0]
        rivals = np.concatenate([self.other, *fresh], axis=1)
        everyone = np.arange(points)
        self.owner = np.concatenate([self.owner, *(everyone for _ in fresh)])
        self._compete(rivals, field)
        self._forget_duplicates()
        return int(np.count_nonzero(np.abs(self.best - before).max(axis=0) > _DISTINCT))

    def _forget_duplicates(self) -> None:
        apart = np.abs(self.other - self.best[:, self.owner]).max(axis=0) > _DISTINCT
        other, owner = self.other[:, apart], self.owner[apart]
        label = np.column_stack([owner, np.round(other.T / (10 * _DISTINCT))])
        _, first = np.unique(label, axis=0, return_index=True)
        self.other, self.owner = other[:, first], owner[first]
