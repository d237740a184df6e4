"""prox.py against a grid search by definition; its symmetries; nothing lower from other starts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attnlab.solvable.prox import Minima, ProxProblem
from tests.reference.prox import energy as energy_by_definition
from tests.reference.prox import prox as prox_by_definition

Array = NDArray[np.float64]
SIGMA2 = 0.25


def targets(first: Array, second: Array) -> Array:
    """2x2 matrices whose rows sum to one, with these diagonals."""
    return np.stack(
        [np.stack([first, 1 - first], axis=-1), np.stack([1 - second, second], axis=-1)], axis=-2
    )


def prox(h: Array, T: Array, V: float, sigma2: float, start: Array | None = None) -> Array:
    """The lowest minimum of every point (rows), also from `start` where it is given."""
    minima = Minima.empty()
    if start is not None:
        minima.best = np.ascontiguousarray(start.T)
    target = np.stack([T[:, 0, 0], T[:, 1, 1]])
    minima.search(ProxProblem(np.ascontiguousarray(h.T), target, V, sigma2))
    return np.ascontiguousarray(minima.best.T)


def problem(points: int, seed: int, spread: float = 0.3) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    h = spread * rng.standard_normal((points, 2))
    u = 0.5 * rng.standard_normal((points, 2))
    diagonal = 1 / (1 + np.exp(-u * (u - u[:, ::-1])))
    return h, targets(*(0.7 * diagonal + 0.18).T)


@given(
    h=st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
    t=st.tuples(st.floats(0.05, 0.95), st.floats(0.05, 0.95)),
    variance=st.floats(1, 30),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_finds_the_lowest_point_of_a_grid_search(
    h: tuple[float, float], t: tuple[float, float], variance: float
) -> None:
    field, target = np.array([h]), targets(np.array(t[:1]), np.array(t[1:]))
    ours = prox(field, target, variance, SIGMA2)[0]
    slow = prox_by_definition(field[0], target[0], variance, SIGMA2)
    low, reference = (
        float(energy_by_definition(z, field[0], target[0], variance, SIGMA2)) for z in (ours, slow)
    )
    # Energies, not places: at a jump two places are equally good.
    assert low <= reference + 1e-12


@pytest.mark.parametrize(("spread", "variance"), [(0.1, 24.0), (0.17, 22.0), (0.3, 16.3)])
def test_random_starts_find_nothing_lower(spread: float, variance: float) -> None:
    h, target = problem(2003, seed=1, spread=spread)
    low = energy_by_definition(prox(h, target, variance, SIGMA2), h, target, variance, SIGMA2)
    rng = np.random.default_rng(2)
    for _ in range(7):
        start = 0.8 * rng.standard_normal(h.shape)
        z = prox(h, target, variance, SIGMA2, start=start)
        again = energy_by_definition(z, h, target, variance, SIGMA2)
        assert (low - again).max() < 1e-10


def test_gradient_vanishes_and_second_order_is_a_minimum() -> None:
    h, target = problem(503, seed=3)
    z = prox(h, target, 16.0, SIGMA2)

    def at(shift: tuple[float, float]) -> Array:
        return energy_by_definition(z + np.array(shift), h, target, 16.0, SIGMA2)

    step = 1e-4
    for shift in ((step, 0.0), (0.0, step), (step, step), (step, -step)):
        ahead, behind = at(shift), at((-shift[0], -shift[1]))
        assert np.abs(ahead - behind).max() / (2 * step) < 1e-7
        assert (ahead + behind - 2 * at((0.0, 0.0))).min() > -1e-12


def test_is_odd_and_commutes_with_swapping_tokens() -> None:
    h, target = problem(997, seed=4)
    z = prox(h, target, 14.0, SIGMA2)
    np.testing.assert_allclose(prox(-h, target, 14.0, SIGMA2), -z, atol=1e-7)
    swapped = prox(h[:, ::-1], target[:, ::-1, ::-1], 14.0, SIGMA2)
    np.testing.assert_allclose(swapped, z[:, ::-1], atol=1e-7)


def test_closed_cases() -> None:
    h, target = problem(211, seed=5)
    np.testing.assert_allclose(prox(h, target, 1e-9, SIGMA2), h, atol=1e-8)  # no freedom
    np.testing.assert_allclose(prox(h, target, 20.0, 0.0), h, atol=1e-8)  # no loss
    a = 1 / (1 + np.exp(-h * (h - h[:, ::-1])))
    own = targets(a[:, 0], a[:, 1])  # targets already met at h: both terms vanish there
    np.testing.assert_allclose(prox(h, own, 20.0, SIGMA2), h, atol=1e-7)


def test_following_minima_equals_a_new_search() -> None:
    h, target = problem(4001, seed=6, spread=0.2)
    t = np.stack([target[:, 0, 0], target[:, 1, 1]])
    minima = Minima.empty()
    minima.search(ProxProblem(h.T.copy(), t, 20.0, SIGMA2))
    for scale in (1.003, 1.01, 1.03):
        moved = ProxProblem(scale * h.T, t, 20.0 * scale, SIGMA2)
        followed = minima.follow(moved).copy()
        fresh = Minima.empty()
        fresh.search(moved)
        assert (np.abs(followed - fresh.best).max(axis=0) > 1e-5).mean() < 1e-3
    assert minima.search(moved) <= 4  # and what following missed, a search repairs
    np.testing.assert_allclose(minima.best, fresh.best, atol=1e-5)
