"""theory.py: closed limits, an exact identity, a second integrator, and check values with origin.

Check values are from elsewhere (sigma = 0.5, ridge = 0.01): another implementation's
state evolution and simulations at finite D, not numbers that this code once printed.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from attnlab.solvable.quadrature import Rule, gauss_hermite, lattice, sobol
from attnlab.solvable.state_evolution import StateEvolution
from attnlab.solvable.theory import (
    Branch,
    BranchTracer,
    Model,
    Point,
    State,
    curve,
    fixed_point,
    linear_test_error,
)

CHECKED = 1.464286  # the alpha of the check values


@pytest.fixture(scope="module")
def rule() -> Rule:
    return sobol(2**13)


@pytest.fixture(scope="module")
def semantic(rule: Rule) -> Point:
    return fixed_point(Model(), CHECKED, "semantic", rule)


def test_linear_baseline_has_its_published_values() -> None:
    # Elsewhere, linear baseline: 0.0019714 at omega = 0.3, 0.0040232 at omega = 0
    assert linear_test_error(Model()) == pytest.approx(0.0019714, abs=1e-7)
    assert linear_test_error(Model(omega=0.0)) == pytest.approx(0.0040232, abs=1e-7)
    assert linear_test_error(Model(omega=1.0)) == 0


def test_linear_baseline_by_simulation() -> None:
    model = Model(omega=0.2, mixing=((0.9, 0.1), (0.3, 0.7)))
    u = 0.5 * np.random.default_rng(0).standard_normal((2, 200_000))
    a = model.target(u)
    sampled = model.rho * a.var(axis=1).sum()  # (sigma^2 / 2) x two equal entries a row
    assert linear_test_error(model) == pytest.approx(float(sampled), rel=0.01)


def test_semantic_check_values(semantic: Point) -> None:
    assert semantic.converged and not semantic.collapsed
    assert semantic.m == 0
    # Elsewhere, state evolution: theta = 0.1324, q = 0.0922, V = 16.33, train error = 0.003010
    assert semantic.theta == pytest.approx(0.1324, rel=4e-3)
    assert semantic.q == pytest.approx(0.0922, rel=4e-3)
    assert np.isclose(semantic.V, 16.33, rtol=6e-3)
    assert semantic.train_error == pytest.approx(0.003010, rel=2e-3)
    # Elsewhere, simulation at D = 6000: theta = 0.1317, train error = 0.003007
    assert semantic.theta == pytest.approx(0.1317, rel=0.01)
    assert semantic.train_error == pytest.approx(0.003007, rel=5e-3)


def test_positional_check_values(rule: Rule) -> None:
    point = fixed_point(Model(), CHECKED, "positional", rule)
    assert point.converged
    assert point.theta == 0
    # Elsewhere: m = 0.2570, train error = 0.003217 (8 nodes a side); D = 6000: 0.2551 and 0.003228
    assert point.m == pytest.approx(0.2551, rel=0.01)
    assert point.train_error == pytest.approx(0.003217, rel=4e-3)
    assert point.train_error == pytest.approx(0.003228, rel=8e-3)
    # Elsewhere, omega = 0.2, alpha = 1: m = 0.223 with 2^14 Sobol points from every start
    other = fixed_point(Model(omega=0.2), 1.0, "positional", rule)
    assert other.m == pytest.approx(0.223, rel=0.01)


@pytest.mark.parametrize("branch", ["semantic", "positional"])
def test_train_error_grows_at_the_rate_of_the_envelope(branch: Branch, rule: Rule) -> None:
    # The free energy is stationary in the overlaps: d train_error / d alpha = E[min_z energy] / 2.
    # Neither side knows of the other, so a wrong factor in any equation breaks this.
    low, mid, high = curve(Model(), [1.15, 1.25, 1.35], branch, rule)
    slope = (high.train_error - low.train_error) / 0.2
    # It holds for the exact integral; 2^13 points leave 0.4 %.
    assert mid.envelope == pytest.approx(slope, rel=8e-3)


def test_semantic_student_becomes_the_teacher() -> None:
    # omega = 0, alpha -> infinity: W = W*, so theta = q = sigma^2 and nothing is left to learn.
    far = curve(Model(omega=0.0), [*np.geomspace(1.4, 200, 20)], "semantic", sobol(2**11))[-1]
    assert far.converged
    assert far.theta == pytest.approx(0.25, rel=4e-3)
    assert far.q == pytest.approx(0.25, rel=6e-3)
    assert far.test_error < 1e-6
    # The ridge alone is paid: (ridge / 2) |W*|^2 / D
    assert far.train_error == pytest.approx(0.005, rel=4e-3)


def test_positional_student_becomes_the_best_constant_vector() -> None:
    # alpha -> infinity on theta = 0: W = m 1, so q = sigma^2 m^2 and m minimises the test error.
    model, points = Model(omega=0.5), sobol(2**12)
    far = curve(model, [*np.geomspace(0.46, 400, 24)], "positional", points)[-1]
    assert far.converged
    assert far.q == pytest.approx(0.25 * far.m**2, rel=0.02)
    nodes, weights = gauss_hermite(20).with_sign_flips(slice(0, 2), slice(2, 4))
    t = model.target(0.5 * nodes[2:])

    def population(m: float) -> float:
        h = 0.5 * m * nodes[:2] + np.array([[m], [-m]])
        a = 1 / (1 + np.exp(-h * (h - h[::-1])))
        return 0.25 * float(((a - t) ** 2).sum(axis=0) @ weights)

    best = minimize_scalar(population, bounds=(0.1, 0.6), method="bounded")
    assert far.m == pytest.approx(float(best.x), rel=3e-3)
    assert far.test_error == pytest.approx(float(best.fun), rel=6e-3)


def test_a_teacher_without_semantics_cannot_be_recovered(rule: Rule) -> None:
    point = fixed_point(Model(omega=1.0), 1.4, "semantic", rule)
    assert point.converged
    assert point.collapsed
    assert point.theta == point.m == 0


@pytest.mark.parametrize("branch", ["semantic", "positional"])
def test_two_integrators_agree(branch: Branch) -> None:
    points = [fixed_point(Model(), 1.3, branch, one) for one in (sobol(2**14), lattice(2**14))]
    assert all(point.converged for point in points)
    # Twice the spread over five seeds at half as many points: 0.3 % for errors, 0.9 % for V.
    for name, spread in (("q", 4e-3), ("m", 3e-3), ("V", 9e-3), ("theta", 3e-3)):
        first, second = (getattr(point, name) for point in points)
        assert first == pytest.approx(second, rel=2 * spread), name
    assert points[0].train_error == pytest.approx(points[1].train_error, rel=6e-3)
    assert points[0].test_error == pytest.approx(points[1].test_error, rel=7e-3)


def test_gauss_hermite_agrees_on_the_smooth_branch(semantic: Point) -> None:
    coarse = fixed_point(Model(), CHECKED, "semantic", gauss_hermite(8))
    assert coarse.converged
    assert coarse.theta == pytest.approx(semantic.theta, rel=0.01)
    assert coarse.train_error == pytest.approx(semantic.train_error, rel=0.01)


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_every_start_gives_one_answer(factor: float, rule: Rule) -> None:
    model = Model(omega=0.2)
    point = fixed_point(model, 1.0, "positional", rule)
    shifted = replace(point, q=point.q * factor, V=point.V / factor, m=point.m / factor)
    again = fixed_point(model, 1.0, "positional", rule, start=shifted)
    assert again.converged
    assert again.m == pytest.approx(point.m, rel=4e-3)
    assert again.evaluations < 60


def test_curve_is_cheap_and_keeps_the_order_asked_for(rule: Rule) -> None:
    alphas = [1.6, 0.9, 1.2, 2.0, 0.5]
    points = curve(Model(), alphas, "semantic", rule)
    assert [point.alpha for point in points] == alphas
    assert all(point.converged for point in points)
    assert sum(point.evaluations for point in points) / 5 < 50
    by_alpha = sorted(points, key=lambda point: point.alpha)
    assert by_alpha[0].collapsed
    assert all(a.theta < b.theta for a, b in pairwise(by_alpha))


def test_a_point_that_fails_is_marked_and_leaves_its_neighbours_alone() -> None:
    tracer = BranchTracer(Model(), "positional", sobol(2**11))
    good = tracer.solve(0.46)
    nonsense = tracer.solve(0.5, tracer.start(State(1e-8, 1.5, 1e4, 0.0)))
    after = tracer.solve(0.46)
    assert good.converged and after.converged
    assert not nonsense.converged or nonsense.m == pytest.approx(0.219, rel=0.02)
    assert after.m == pytest.approx(good.m, rel=2e-3)
    impossible = fixed_point(Model(), 1.4, "semantic", sobol(2**11), tol=0.0)
    assert not impossible.converged


@given(q=st.floats(0.02, 0.2), V=st.floats(5, 30), alpha=st.floats(0.3, 2))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_symmetry_keeps_a_vanishing_overlap_at_zero(q: float, V: float, alpha: float) -> None:
    state = State(q, 0.0, V, 0.0)
    for branch in ("semantic", "positional"):
        evolution = StateEvolution(Model(), branch, sobol(2**8))
        evolution.place_points(state)
        new = evolution.update(state, alpha)
        # What is left is the tolerance of the prox, 1e-7 in its last quadratic step.
        assert abs(new.theta) < 1e-8
        assert abs(new.m) < 1e-8


@pytest.mark.parametrize(("q", "m", "theta"), [(0.09, 0.0, 0.12), (0.05, 0.25, 0.0)])
def test_weights_carry_small_moves_of_the_state(q: float, m: float, theta: float) -> None:
    branch: Branch = "semantic" if theta else "positional"
    evolution = StateEvolution(Model(), branch, sobol(2**14))
    there = State(1.03 * q, 1.02 * m, 15.0, 1.02 * theta)
    evolution.place_points(State(q, m, 15.0, theta))
    carried = evolution.update(there, 1.3)
    evolution.place_points(there)
    placed = evolution.update(there, 1.3)
    np.testing.assert_allclose(carried, placed, rtol=4e-3)


def test_models_that_mean_nothing_are_refused(rule: Rule) -> None:
    with pytest.raises(ValueError, match="omega"):
        Model(omega=1.2)
    with pytest.raises(ValueError, match="sum to 1"):
        Model(mixing=((0.6, 0.6), (0.4, 0.6)))
    with pytest.raises(ValueError, match="positive"):
        curve(Model(), [-1.0], "semantic", rule)
    with pytest.raises(ValueError, match=r"R\^4"):
        StateEvolution(Model(), "semantic", sobol(2**6, dimension=6))
