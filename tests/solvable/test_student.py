"""The Gram-block loss equals the loop that defines it, in value and gradient, for every variant."""

import pytest
import torch

from attnlab.core.config import build
from attnlab.core.seeds import Seed
from attnlab.solvable.student import GramBlocks, Loss, sample_losses
from attnlab.solvable.teacher import Dataset, Teacher, TeacherSettings
from tests.reference import student as reference

EVEN = [[1 / 3] * 3] * 3
VARIANTS = {
    "paper": {"dim": 13},
    "unscaled": {"dim": 13, "scaling": "unscaled"},
    "other F, no ω": {"dim": 11, "mixing": [[0.9, 0.1], [0.3, 0.7]], "omega": 0.0},
    "rank 2": {"dim": 17, "rank": 2, "divide_by_rank": True},
    "three tokens": {"dim": 13, "tokens": 3, "mixing": EVEN},
    "three tokens, rank 2": {"dim": 19, "tokens": 3, "mixing": EVEN, "rank": 2},
}


def explicit(data: Dataset, weights: torch.Tensor) -> torch.Tensor:
    s = data.settings
    positions = s.signs[:, None] * torch.full(
        (s.tokens, s.dim), s.position_size, dtype=torch.float64
    )
    x = data.tokens.transpose(0, 1)
    targets = data.targets().transpose(0, 1)
    return reference.loss(x, targets, weights, positions, s.field_scale, s.divide_by_rank)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("student_rank", [1, 2])
def test_value_and_gradient_equal_the_definition(variant: str, student_rank: int) -> None:
    settings = build(TeacherSettings, VARIANTS[variant])
    teacher = Teacher.draw(settings, Seed(3))
    data = teacher.sample(7, Seed(5))
    size = 1.0 if settings.scaling == "paper" else 0.05  # else every softmax is saturated
    weights = (
        torch.randn(
            5, student_rank, settings.dim, generator=Seed(11).torch_generator(), dtype=torch.float64
        )
        * size
    )
    loss = Loss.of(data, 0.01)
    value, gradient = loss.value_and_gradient(weights)
    for k in range(5):
        w = weights[k].clone().requires_grad_()
        expected = explicit(data, w) + 0.005 * w.square().sum()
        (slope,) = torch.autograd.grad(expected, w)
        torch.testing.assert_close(value[k], expected.detach(), rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(gradient[k], slope, rtol=1e-9, atol=1e-11)


def test_two_token_closed_form_equals_the_general_path() -> None:
    """L = 2 takes a shorter way; adding a third token that is never attended must not matter."""
    settings = build(TeacherSettings, {"dim": 23})
    data = Teacher.draw(settings, Seed(1)).sample(11, Seed(2))
    blocks = GramBlocks.of(data)
    fields = torch.randn(2, 11, 3, 1, generator=Seed(7).torch_generator(), dtype=torch.float64)
    general = fields.clone().requires_grad_()
    attention = torch.softmax(torch.einsum("lnkr,mnkr->lmnk", general, general), dim=1)
    product = torch.einsum("lmnk,mpn->lpnk", attention, blocks.gram)
    expected = 0.5 * blocks.target[:, None] + (
        attention * (0.5 * product - blocks.cross[..., None])
    ).sum(dim=(0, 1))
    (slope,) = torch.autograd.grad(expected.sum(), general)
    found, found_slope = sample_losses(fields, blocks, settings)
    torch.testing.assert_close(found, expected.detach(), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(found_slope, slope, rtol=1e-10, atol=1e-12)


def test_left_out_samples_do_not_count() -> None:
    settings = build(TeacherSettings, {"dim": 13})
    data = Teacher.draw(settings, Seed(1)).sample(7, Seed(2))
    keep = torch.ones(7, 2, dtype=torch.float64)
    keep[5:, 1] = 0
    weights = torch.randn(1, 1, 13, generator=Seed(3).torch_generator(), dtype=torch.float64)
    value, gradient = Loss.of(data, 0.0, keep).value_and_gradient(weights.repeat(2, 1, 1))
    short = Dataset(settings, data.tokens[:, :5], data.attention[:, :, :5])
    expected, slope = Loss.of(short, 0.0).value_and_gradient(weights)
    torch.testing.assert_close(value[1:], expected)
    torch.testing.assert_close(gradient[1:], slope)


def test_single_precision_data_give_the_same_loss() -> None:
    """Tolerance: one rounding of x (2⁻²⁴) spread over dim products, relative to ‖Y‖²/D."""
    settings = build(TeacherSettings, {"dim": 211})
    data = Teacher.draw(settings, Seed(1)).sample(101, Seed(2))
    single = Dataset(settings, data.tokens.float(), data.attention)
    weights = torch.randn(3, 1, 211, generator=Seed(3).torch_generator(), dtype=torch.float64)
    value, _ = Loss.of(data, 0.01).value_and_gradient(weights)
    rough, _ = Loss.of(single, 0.01).value_and_gradient(weights)
    scale = float(GramBlocks.of(data).target.sum())
    assert float((value - rough).abs().max()) < 2**-24 * 211**0.5 * scale
