"""What attention costs as a text grows: multiplications, without constant factors.

    full attention   L (ℓ² d + ℓ d²)
    Perceiver        2 ℓ m d + (L − 2) m² d + (2ℓ + L m) d²
    its local layer  ℓ b d + ℓ d²,   b = ⌈ℓ / m⌉ places a block

ℓ tokens, m latents, L layers, width d. Two of the Perceiver's L layers are the projections between
ℓ tokens and m latents. The second terms of the sums are the maps of queries, keys and values.
"""

from attnlab.core.errors import UsageError


def full_cost(length: int, width: int, layers: int) -> int:
    """L (ℓ² d + ℓ d²)."""
    _positive(length=length, width=width, layers=layers)
    return layers * (length**2 * width + length * width**2)


def perceiver_cost(
    length: int, width: int, layers: int, latents: int, *, local: bool = False
) -> int:
    """2 ℓ m d + (L − 2) m² d + (2ℓ + L m) d²; `local`: one of the layers attends within blocks."""
    _positive(length=length, width=width, layers=layers - 1 - local, latents=latents)
    between, block = layers - local, -(-length // latents)
    scores = 2 * length * latents + (between - 2) * latents**2
    maps = 2 * length + between * latents
    if local:
        scores, maps = scores + length * block, maps + length
    return scores * width + maps * width**2


def _positive(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise UsageError(f"{name}: too small to count, {value}")
