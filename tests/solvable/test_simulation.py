"""One instance from settings to measured students."""

import pytest
import torch

from attnlab.core.config import build
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.solvable.simulation import (
    SimulationSettings,
    measure_overlaps,
    simulate,
    start_weights,
)
from attnlab.solvable.teacher import Teacher


def settings(**changes: object) -> SimulationSettings:
    return build(SimulationSettings, {"dim": 101, "alpha": 1.3, "test_samples": 2003, **changes})


def test_overlaps_of_known_weights() -> None:
    """W = W*: θ = σ²‖W*‖²/D; W = 1_D: m = 1; signs do not matter."""
    teacher = torch.randn(1, 53, generator=Seed(1).torch_generator(), dtype=torch.float64)
    ones = torch.ones(1, 53, dtype=torch.float64)
    own = measure_overlaps(teacher, teacher, 0.5)
    assert own.theta == pytest.approx(0.25 * float(teacher.square().sum()) / 53)
    assert own.q == pytest.approx(own.theta)
    assert measure_overlaps(ones, teacher, 0.5).m == pytest.approx(1.0)
    assert measure_overlaps(-teacher, teacher, 0.5).theta == pytest.approx(own.theta)
    both = measure_overlaps(torch.cat([teacher, ones]), teacher, 0.5)
    assert both.theta >= own.theta and both.m >= 1.0


def test_starts_are_what_they_are_called() -> None:
    s = settings(starts=["semantic", "positional", "random", "random-2"])
    teacher = Teacher.draw(s.teacher, Seed(1))
    semantic, positional, random, other = start_weights(s, teacher, Seed(2))
    assert torch.equal(semantic, teacher.weights)
    assert float(positional.norm()) == pytest.approx(1.0)
    assert torch.all(positional == positional[0, 0])
    assert float(random.norm()) == pytest.approx(101**0.5, rel=0.3)
    assert not torch.equal(random, other)


def test_start_norms_are_settings() -> None:
    s = settings(positional_norm=5.0, semantic_norm=2.0)
    found = start_weights(s, Teacher.draw(s.teacher, Seed(1)), Seed(2))
    assert [float(w.norm()) for w in found] == pytest.approx([2.0, 5.0])


def test_a_simulation_is_a_function_of_settings_and_seed() -> None:
    first, again = simulate(settings(), Seed(3)), simulate(settings(), Seed(3))
    assert first.students == again.students
    assert simulate(settings(), Seed(4)).students != first.students


def test_solutions_have_the_overlap_of_their_start() -> None:
    found = simulate(settings(dim=211, alpha=1.6), Seed(1))
    semantic, positional = found.student("semantic"), found.student("positional")
    assert semantic.theta > 0.05 > semantic.m
    assert positional.m > 0.15 > positional.theta
    assert semantic.converged and positional.converged


@pytest.mark.parametrize("method", ["quasi-newton", "gradient-descent"])
def test_both_methods_through_the_settings(method: str) -> None:
    found = simulate(settings(dim=53, method=method, max_evaluations=6000, tolerance=1e-3), Seed(1))
    assert all(s.gradient_max < 1.1e-3 for s in found.students)


def test_displaced_students_fall_back_into_a_stable_minimum() -> None:
    found = simulate(settings(dim=307, alpha=1.6, displacement=0.3), Seed(1))
    returned = found.student("semantic").returned
    assert returned is not None and returned < 1e-4
    assert simulate(settings(dim=53), Seed(1)).student("semantic").returned is None


def test_leave_one_out_only_where_its_formula_holds() -> None:
    for changes in ({"ridge": 0.0}, {"scaling": "unscaled", "max_evaluations": 20}):
        assert simulate(settings(dim=53, **changes), Seed(1)).students[0].leave_one_out is None


def test_rank_two_students_report_all_overlaps() -> None:
    found = simulate(settings(dim=53, student_rank=2, rank=2, divide_by_rank=True), Seed(1))
    assert len(found.students[0].theta_values) == 2
    assert found.students[0].leave_one_out is None


def test_unknown_starts_and_methods_are_refused() -> None:
    for bad in (
        {"starts": ["semantics"]},
        {"method": "adam"},
        {"alpha": 0.0},
        {"dtype": "bfloat16"},
    ):
        with pytest.raises(UsageError):
            settings(**bad)


def test_check_values_of_an_independent_implementation() -> None:
    """α = 1.464286, ω = 0.3, D = 6000 gave θ = 0.1317, ε_t = 0.003007; m = 0.2551, ε_t = 0.003228
    (an independent implementation). At D = 701, four instances: within four standard errors."""
    runs = [simulate(settings(dim=701, alpha=1.464286), Seed(s)) for s in range(4)]
    for start, name, expected in (
        ("semantic", "theta", 0.1317),
        ("semantic", "train_error", 0.003007),
        ("positional", "m", 0.2551),
        ("positional", "train_error", 0.003228),
    ):
        values = torch.tensor([getattr(r.student(start), name) for r in runs])
        error = float(values.std()) / 2
        assert abs(float(values.mean()) - expected) < 4 * error + 0.01 * expected, (start, name)
