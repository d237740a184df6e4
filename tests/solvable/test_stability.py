"""stability.py: an exact fixed point of the replica map, the replicon by differences, the order."""

from __future__ import annotations

import numpy as np
import pytest

from attnlab.solvable.prox import Minima, ProxProblem
from attnlab.solvable.quadrature import Rule, sobol
from attnlab.solvable.stability import Replicas
from attnlab.solvable.theory import Model, Point, fixed_point


@pytest.fixture(scope="module")
def rule() -> Rule:
    return sobol(2**13)


@pytest.fixture(scope="module")
def pairs() -> Rule:
    return sobol(2**14, dimension=6)


@pytest.fixture(scope="module")
def semantic(rule: Rule) -> Point:
    return fixed_point(Model(), 1.46, "semantic", rule)


def test_independent_replicas_of_the_trivial_solution_stay_independent(
    rule: Rule, pairs: Rule
) -> None:
    # g is odd in h when m = theta = 0: E[g.g'] = 0, so Delta' = 2 alpha V^2 E|g|^2 = 2 q = Delta.
    point = fixed_point(Model(), 0.6, "trivial", rule)
    assert Replicas(Model(), point, pairs).gain(2 * point.q) == pytest.approx(1, abs=0.02)


def test_small_separations_see_the_replicon(semantic: Point, pairs: Rule) -> None:
    model = Model()
    replicas = Replicas(model, semantic, pairs)
    # alpha V^2 E|dg/dh|^2 by differences at the same fields. Elsewhere: near 0.3 at alpha = 1.3.
    h = replicas.mean + np.sqrt(replicas.spread) * replicas.shared
    step, total = 1e-4, 0.0
    for token in range(2):
        shift = np.zeros((2, 1))
        shift[token] = step
        pulls = []
        for moved in (h + shift, h - shift):
            minima = Minima.empty()
            minima.search(ProxProblem(moved, replicas.target, semantic.V, model.rho))
            pulls.append((minima.best - moved) / semantic.V)
        slope = (pulls[0] - pulls[1]) / (2 * step)
        total += float((slope**2).sum(axis=0) @ replicas.weights)
    replicon = semantic.alpha * semantic.V**2 * total
    assert replicas.gain(1e-3 * semantic.q) == pytest.approx(replicon, rel=0.05)
    assert 0.2 < replicon < 0.4


def test_separation_orders_the_branches_as_simulations_disagree(
    semantic: Point, rule: Rule, pairs: Rule
) -> None:
    # Elsewhere: semantic omega = 0.3 below 0.003 at alpha = 1.46, large at 0.85; positional
    # (0.2, 1.0) at 0.36. A few dozen of these points jump: this rule knows it to a third.
    assert Replicas(Model(), semantic, pairs).separation(least=0.05).relative == 0
    weak = fixed_point(Model(), 0.85, "semantic", rule)
    assert Replicas(Model(), weak, pairs).separation(tol=0.05).relative > 0.2
    model = Model(omega=0.2)
    point = fixed_point(model, 1.0, "positional", rule)
    replicas = Replicas(model, point, pairs)
    separation = replicas.separation(tol=0.05)
    assert separation.converged
    assert replicas.gain(separation.relative * point.q) == pytest.approx(1, abs=0.1)
    assert separation.relative == pytest.approx(0.36, abs=0.13)


def test_what_cannot_be_answered_is_refused(semantic: Point, rule: Rule, pairs: Rule) -> None:
    with pytest.raises(ValueError, match=r"R\^6"):
        Replicas(Model(), semantic, rule)
    replicas = Replicas(Model(), semantic, pairs)
    with pytest.raises(ValueError, match="Delta"):
        replicas.gain(3 * semantic.q)
