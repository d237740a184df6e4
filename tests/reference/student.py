"""The student and teacher by definition: loops over samples and tokens, fp64, autograd. Slow."""

import math

import torch
from torch import Tensor


def softmax_rows(fields: Tensor, divide_by_rank: bool) -> Tensor:
    """softmax over each row of u uᵀ, for one sample: fields are (token, rank)."""
    scores = fields @ fields.T
    if divide_by_rank:
        scores = scores / math.sqrt(fields.shape[1])
    rows = [torch.exp(row - row.max()) for row in scores]
    return torch.stack([row / row.sum() for row in rows])


def teacher_attention(
    x: Tensor, weights: Tensor, omega: float, mixing: Tensor, scale: float, divide: bool
) -> Tensor:
    """(1−ω)·softmax(u uᵀ) + ω·F for one sample x of shape (token, dim)."""
    return (1 - omega) * softmax_rows(x @ weights.T * scale, divide) + omega * mixing


def loss(
    x: Tensor, targets: Tensor, weights: Tensor, positions: Tensor, scale: float, divide: bool
) -> Tensor:
    """Σ_n (1/2D)‖Y − A X‖² with X = x + p formed explicitly; x is (sample, token, dim)."""
    total = torch.zeros((), dtype=torch.float64)
    for sample, target in zip(x, targets, strict=True):
        inputs = sample + positions
        attention = softmax_rows(inputs @ weights.T * scale, divide)
        total = total + (target - attention @ inputs).square().sum() / (2 * x.shape[2])
    return total
