"""Rotary positions as Llama computes them, with Llama 3's stretching of the slow turns.

f_m = 1 / base^(2m/d_head), to the bit; `rotary` has the same up to rounding. With factor > 1, a
turn whose wavelength λ = 2π/f is longer than original/low is slowed down by the factor, one that
is shorter than original/high stays, and between them the two are blended. So a model that was
trained on `original` positions reads texts `factor` times as long (Llama 3.1, 2024).
"""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.parts.part import Count, Dims
from attnlab.parts.position.rotary import Rotary


class RotaryLlama(Rotary, name="rotary-llama"):
    """What a Llama of Hugging Face does to queries and keys."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Rotary.Config):
        """`factor` 1 is plain rotary; `low`, `high` and `original` matter beyond it."""

        factor: Annotated[float, Field(ge=1)] = 1.0
        low: Annotated[float, Field(gt=0)] = 1.0
        high: Annotated[float, Field(gt=0)] = 4.0
        original: Count = 8192

    config: Config

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        if config.factor > 1 and config.low >= config.high:
            raise UsageError(f"rotary-llama needs low < high, got {config.low} and {config.high}")

    def frequencies(self, half: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """1 / base^(2m/d_head), stretched where a factor is set."""
        exponent = torch.arange(0, 2 * half, 2, device=device).to(dtype) / (2 * half)
        plain, c = 1.0 / self.base**exponent, self.config
        if c.factor == 1:
            return plain
        wavelength = 2 * math.pi / plain
        blend = (c.original / wavelength - c.low) / (c.high - c.low)
        slow = plain / c.factor
        blended = (1 - blend) * slow + blend * plain
        stretched = torch.where(wavelength > c.original / c.low, slow, blended)
        return torch.where(wavelength < c.original / c.high, plain, stretched)
