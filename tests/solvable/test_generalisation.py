"""Test errors: sampled, integrated and computed in two ways must agree; so must the baselines."""

import math

import pytest
import torch

from attnlab.core.config import build
from attnlab.core.seeds import Seed
from attnlab.solvable import teacher as module
from attnlab.solvable.generalisation import (
    exact_test_error,
    linear_fit,
    linear_losses,
    sample_test_error,
)
from attnlab.solvable.teacher import Teacher, TeacherSettings


def make(dim: int = 41, **changes: object) -> Teacher:
    return Teacher.draw(build(TeacherSettings, {"dim": dim, **changes}), Seed(1))


def test_exact_integral_equals_the_sampled_error_at_small_dimension() -> None:
    """D = 5 and 41: terms of order 1/D must be right, not only the limit."""
    for dim in (5, 41):
        for scale, tokens in ((0.7, 2), (2.0, 2), (0.7, 3)):
            mixing = [[1 / tokens] * tokens] * tokens
            teacher = make(dim, tokens=tokens, mixing=mixing)
            noise = torch.randn(1, dim, generator=Seed(3).torch_generator(), dtype=torch.float64)
            weights = 0.5 * teacher.weights + scale * noise
            linear = torch.zeros(tokens, tokens, dtype=torch.float64)
            sampled = sample_test_error(teacher, weights[None], linear, 40_000, Seed(5))
            exact = exact_test_error(teacher, weights)
            error = float(sampled.standard_error[0])
            assert abs(exact - float(sampled.students[0])) < 4.5 * error, (dim, scale, tokens)


def test_perfect_student_without_positions_in_the_teacher() -> None:
    """ω = 0 and W = W*: only the positions' own contribution remains, which falls like 1/D."""
    errors = [exact_test_error(make(d, omega=0.0), make(d, omega=0.0).weights) for d in (101, 1009)]
    assert errors[0] < 0.02 and errors[1] < 0.3 * errors[0]


def test_linear_map_in_closed_form_is_the_minimum() -> None:
    data = make().sample(401, Seed(2))
    closed, value = linear_fit(data, 0.01)
    again = float(linear_losses(data, closed).sum() + 0.005 * closed.square().sum())
    assert math.isclose(value, again, rel_tol=1e-12)
    free = closed.clone().requires_grad_()
    loss = linear_losses(data, free).sum() + 0.005 * free.square().sum()
    (gradient,) = torch.autograd.grad(loss, free)
    assert float(gradient.abs().amax()) < 1e-10 * data.samples
    for nudge in (1e-3, -1e-3):
        moved = closed + nudge
        worse = float(linear_losses(data, moved).sum() + 0.005 * moved.square().sum())
        assert worse > value


def test_linear_losses_are_their_definition() -> None:
    data = make(13).sample(7, Seed(2))
    fitted = torch.tensor([[0.7, 0.3], [0.1, 0.8]], dtype=torch.float64)
    residual = data.targets() - torch.einsum("lm,mnd->lnd", fitted, data.tokens)
    expected = residual.square().sum(dim=(0, 2)) / 26
    torch.testing.assert_close(linear_losses(data, fitted), expected)


def test_streaming_in_many_chunks_is_one_average(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_NUMBERS", 13 * 2 * 101)
    teacher = make(13)
    assert len(list(teacher.chunks(997, Seed(5), torch.float32))) == 10
    linear = torch.zeros(2, 2, dtype=torch.float64)
    found = sample_test_error(teacher, teacher.weights[None], linear, 997, Seed(5))
    data = teacher.sample(997, Seed(5), torch.float32)
    expected = float(linear_losses(data, linear).mean())
    assert math.isclose(found.linear, expected, rel_tol=1e-6)
