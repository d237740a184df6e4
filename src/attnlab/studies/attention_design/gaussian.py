"""How many of n Gaussian keys are corners of their hull: exactly, and for n → ∞.

E f₀ = 2 Σ_{m = h, h−2, … ≥ 1} C(n, m) m β(m) ∫ √(m/2π) e^{−m x²/2} Φ(x)^{n−m} dx

(Affentranger and Schneider 1992, for the vertices of a projected simplex, which a Gaussian hull is
by Baryshnikov and Vitale 1994). β(m): angle of the regular simplex with m corners at one of them,
as a share of the whole; 1, ½, 1/6 for m = 1, 2, 3. Its leading term for large n is

E f₀ ~ h β(h) (2^h/√h) (π ln n)^((h−1)/2);

without h β(h) that is the number of facets, which are as many as corners in the plane only.
"""

import math
from functools import cache

import numpy as np

_FINE = 20_001
_PHI = np.linspace(-12.0, 12.0, _FINE)  # beyond it e^{−x²/2} is below 1e-31


@cache
def corner_angle(m: int) -> float:
    """β(m) = P(m − 1 normals with correlations −1/(m − 1) are all positive).

    = ∫ φ(t) Re[(½ + ½ i erfi(t / √(2m)))^(m − 1)] dt: one factor they share, an imaginary one.
    """
    from scipy.special import erfi  # a second of every command's start otherwise

    if m == 1:
        return 1.0
    inside = (0.5 + 0.5j * erfi(_PHI / math.sqrt(2 * m))) ** (m - 1)
    density = np.exp(-(_PHI**2) / 2) / math.sqrt(2 * math.pi)
    return float(np.trapezoid(density * inside.real, _PHI))


def _faces(n: int, m: int) -> float:
    """C(n, m) ∫ √(m/2π) e^{−m x²/2} Φ(x)^{n−m} dx."""
    from scipy.special import gammaln, log_ndtr

    chosen = gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1)
    logs = chosen + (n - m) * log_ndtr(_PHI) - m * _PHI**2 / 2 + 0.5 * math.log(m / 2 / math.pi)
    return float(np.trapezoid(np.exp(logs), _PHI))


def exact_share(n: int, h: int) -> float:
    """E f₀ / n for n Gaussian points in h dimensions."""
    if n <= h + 1:
        return 1.0
    return sum(2 * m * corner_angle(m) * _faces(n, m) for m in range(h, 0, -2)) / n


def asymptotic_share(n: float, h: int) -> float:
    """h β(h) (2^h/√h) (π ln n)^((h−1)/2) / n."""
    return h * corner_angle(h) * facet_share(n, h)


def facet_share(n: float, h: int) -> float:
    """(2^h/√h) (π ln n)^((h−1)/2) / n: facets, not corners, per key."""
    return 2**h / math.sqrt(h) * (math.pi * math.log(n)) ** ((h - 1) / 2) / n
