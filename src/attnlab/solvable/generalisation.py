"""Test error of trained weights, ε_g = E (1/2D)‖Y − A X‖²: from samples, and as an integral.

The loss of a new sample depends on x only through its projection on span{W, W*, 1_D} (dimension
k ≤ rank + rank* + 1) and the squared norm of the rest, whose mean is σ²(D−k)‖A*−A‖²:

    2D·ε_g = E_c[ ‖(A*−A)c − A s vᵀ‖² + σ²(D−k)‖A*−A‖²_F ],   c_l ~ N(0, σ² I_k)

so a Gaussian integral in L·k dimensions (six for the paper's model) is exact at every D.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from scipy.special import ndtri
from scipy.stats import qmc
from torch import Tensor

from attnlab.core.seeds import Seed
from attnlab.solvable.student import GramBlocks, Loss, Weights, sample_losses, token_gram
from attnlab.solvable.teacher import Dataset, Teacher, mixed_attention, softmax_scores


@dataclass(frozen=True)
class TestErrors:
    """Mean test error and standard error per student, and that of the linear baseline."""

    students: Float[Tensor, " student"]
    standard_error: Float[Tensor, " student"]
    linear: float


def sample_test_error(
    teacher: Teacher, weights: Weights, linear: Float[Tensor, "l m"], samples: int, seed: Seed
) -> TestErrors:
    """ε_g over `samples` new sequences, drawn and evaluated chunk by chunk to save memory."""
    total = torch.zeros(2, weights.shape[0], dtype=torch.float64, device=weights.device)
    baseline = 0.0
    for tokens in teacher.chunks(samples, seed, torch.float32):
        data = Dataset(teacher.settings, tokens, teacher.attention(tokens))
        loss = Loss(data, GramBlocks.of(data), torch.zeros(1, device=weights.device))
        losses, _ = sample_losses(loss.fields(weights), loss.blocks, teacher.settings)
        total += torch.stack([losses.sum(dim=0), losses.square().sum(dim=0)])
        baseline += float(linear_losses(data, linear).sum())
    mean = total[0] / samples
    spread = (total[1] / samples - mean.square()).clamp_min(0)
    return TestErrors(mean, (spread / samples).sqrt(), baseline / samples)


def exact_test_error(teacher: Teacher, weights: Float[Tensor, "rank dim"]) -> float:
    """ε_g of one student, integrated with 2¹⁴ scrambled Sobol points in the span of W, W*, 1_D."""
    s = teacher.settings
    w, w_star = weights.double().cpu(), teacher.weights.double().cpu()
    ones = torch.full((1, s.dim), s.position_size, dtype=torch.float64)
    basis, _ = torch.linalg.qr(torch.cat([w, w_star, ones]).T)  # dim × k
    k = basis.shape[1]
    sobol = qmc.Sobol(s.tokens * k, rng=0).random_base2(14)
    sobol = sobol.clip(1e-12, 1 - 1e-12)
    c = torch.from_numpy(ndtri(sobol)).reshape(-1, s.tokens, k).permute(1, 0, 2) * s.sigma
    signs = s.signs[:, None, None]
    inputs = c + signs * (ones @ basis)
    attention = softmax_scores(inputs @ (w @ basis).T * s.field_scale, s)
    target = mixed_attention(c @ (w_star @ basis).T * s.field_scale, s)
    residual = torch.einsum("lmn,mnk->lnk", target, c) - torch.einsum(
        "lmn,mnk->lnk", attention, inputs
    )
    rest = s.sigma**2 * (s.dim - k) * (target - attention).square().sum(dim=(0, 1))
    return float((residual.square().sum(dim=(0, 2)) + rest).mean() / (2 * s.dim))


def linear_fit(data: Dataset, ridge: float) -> tuple[Float[Tensor, "l m"], float]:
    """The best linear map y = M x over tokens, without positions, in closed form, and its E.

    M = (Σ_n A* G)(Σ_n G + λI)⁻¹ with G = x xᵀ/D; E = Σ_n (1/2D)‖Y − Mx‖² + (λ/2)‖M‖².
    """
    gram = _plain_gram(data)
    total, cross = gram.sum(dim=2), torch.einsum("lmn,mpn->lp", data.attention, gram)
    eye = torch.eye(total.shape[0], dtype=total.dtype, device=total.device)
    fitted = torch.linalg.solve(total + ridge * eye, cross, left=False)
    value = _quadratic(fitted, gram, data.attention).sum() + 0.5 * ridge * fitted.square().sum()
    return fitted, float(value)


def linear_losses(data: Dataset, fitted: Float[Tensor, "l m"]) -> Float[Tensor, " sample"]:
    """The loss (1/2D)‖Y − Mx‖² of the linear map on every sample."""
    return _quadratic(fitted, _plain_gram(data), data.attention)


def _plain_gram(data: Dataset) -> Tensor:
    return token_gram(data.tokens) / data.settings.dim


def _quadratic(fitted: Tensor, gram: Tensor, attention: Tensor) -> Tensor:
    gap = attention - fitted[:, :, None]
    return 0.5 * torch.einsum("lmn,mpn,lpn->n", gap, gram, gap)
