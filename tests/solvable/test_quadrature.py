"""quadrature.py against exact Gaussian moments, and the zeros that symmetry promises."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import factorial2

from attnlab.solvable.quadrature import Rule, gauss_hermite, lattice, sobol

XI, ETA = slice(0, 2), slice(2, 4)
RULES: list[Callable[[], Rule]] = [lambda: sobol(2**13), lambda: lattice(2**13)]


@pytest.mark.parametrize("make", RULES)
def test_low_moments(make: Callable[[], Rule]) -> None:
    nodes, weights = make().with_sign_flips(ETA)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    covariance = (nodes * weights) @ nodes.T
    # Plain Monte Carlo with as many points has an error of 1/sqrt(4096) = 0.016 here.
    np.testing.assert_allclose(covariance, np.eye(4), atol=6e-3)
    assert (nodes[0] ** 2 * nodes[3] ** 2) @ weights == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("make", RULES)
def test_discontinuous_integrand_with_a_closed_value(make: Callable[[], Rule]) -> None:
    nodes, weights = make().with_sign_flips(XI)
    # E[sign(xi_1 - xi_2) xi_1] = E|xi_1 - xi_2| / 2 = 1 / sqrt(pi)
    value = (np.sign(nodes[0] - nodes[1]) * nodes[0]) @ weights
    assert value == pytest.approx(1 / np.sqrt(np.pi), abs=4e-3)


@pytest.mark.parametrize("order", [2, 6, 8])
def test_gauss_hermite_is_exact_to_its_degree(order: int) -> None:
    nodes, weights = gauss_hermite(order).with_sign_flips(XI, ETA)
    assert nodes.shape[1] == order**4
    for power in range(2 * order):
        exact = 0.0 if power % 2 else float(factorial2(power - 1)) if power else 1.0
        value = nodes[1] ** power @ weights
        scale = np.abs(nodes[1]) ** power @ weights  # rounding is relative to the summands
        assert value == pytest.approx(exact, abs=1e-12 * (1 + scale))
    assert (nodes[0] ** 2 * nodes[1] ** 2 * nodes[2] ** 2) @ weights == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("make", [*RULES, lambda: gauss_hermite(6)])
def test_odd_functions_of_a_closed_block_vanish_exactly(make: Callable[[], Rule]) -> None:
    nodes, weights = make().with_sign_flips(ETA)
    half = nodes.shape[1] // 2
    np.testing.assert_array_equal(nodes[XI, :half], nodes[XI, half:])
    np.testing.assert_array_equal(nodes[ETA, :half], -nodes[ETA, half:])
    odd = np.exp(nodes[0]) * nodes[2] * nodes[3] ** 2 * weights
    assert np.abs(odd[:half] + odd[half:]).max() == 0


def test_points_are_a_function_of_the_seed() -> None:
    for make in (sobol, lattice):
        np.testing.assert_array_equal(make(64, seed=3).nodes, make(64, seed=3).nodes)
        assert np.abs(make(64, seed=3).nodes - make(64, seed=4).nodes).max() > 0.1


@pytest.mark.parametrize("points", [2, 3, 1000])
def test_sizes_that_would_spoil_the_rule_are_refused(points: int) -> None:
    for make in (sobol, lattice):
        with pytest.raises(ValueError, match="power of two"):
            make(points)


def test_a_lattice_has_eight_dimensions_and_no_more() -> None:
    assert 8 in lattice(64, dimension=8).nodes.shape
    with pytest.raises(ValueError, match="at most 8 dimensions"):
        lattice(64, dimension=9)


def test_odd_orders_are_refused() -> None:
    with pytest.raises(ValueError, match="even"):
        gauss_hermite(7)
