"""The order parameters, defined once for theory and simulation.

    m = |W·1_D| / D      (positional: the mean of the student's field on token 1)
    θ = σ² |W·W*| / D    (semantic)
    q = σ² ‖W‖² / D      (variance of the student's field)

Absolute values are taken because the model is even in W. For rank > 1, m is the norm over the
rows, θ the largest singular value of the matrix θ, and q the trace.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Overlaps:
    """m, θ and q of one student; `theta_values` holds all singular values of θ."""

    m: float
    theta: float
    q: float
    theta_values: tuple[float, ...]


def measure_overlaps(
    weights: Float[Tensor, "rank dim"], teacher: Float[Tensor, "rank2 dim"], sigma: float
) -> Overlaps:
    """The order parameters of student `weights` with respect to the teacher weights."""
    dim = weights.shape[1]
    singular = torch.linalg.svdvals(sigma**2 * weights @ teacher.T / dim)
    return Overlaps(
        m=float(torch.linalg.vector_norm(weights.sum(dim=1)) / dim),
        theta=float(singular[0]),
        q=float(sigma**2 * weights.square().sum() / dim),
        theta_values=tuple(float(v) for v in singular),
    )
