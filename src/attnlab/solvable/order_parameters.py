"""The order parameters, one definition for theory and data.

    m = |W·1_D| / D      (positional: the mean of the student's field on token 1)
    θ = σ² |W·W*| / D    (semantic)
    q = σ² ‖W‖² / D      (variance of the student's field)

Absolute values, because the model is even in W. For rank > 1: the norm of m over the rows, the
singular values of the matrix θ (the largest is reported as θ) and the trace of q.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Overlaps:
    """m, θ, q of one student; `theta_values` are all singular values of θ."""

    m: float
    theta: float
    q: float
    theta_values: tuple[float, ...]


def measure_overlaps(
    weights: Float[Tensor, "rank dim"], teacher: Float[Tensor, "rank2 dim"], sigma: float
) -> Overlaps:
    """m, θ, q of student `weights` against teacher weights."""
    dim = weights.shape[1]
    singular = torch.linalg.svdvals(sigma**2 * weights @ teacher.T / dim)
    return Overlaps(
        m=float(torch.linalg.vector_norm(weights.sum(dim=1)) / dim),
        theta=float(singular[0]),
        q=float(sigma**2 * weights.square().sum() / dim),
        theta_values=tuple(float(v) for v in singular),
    )
