"""The teacher: targets t = A* x,  A* = (1−ω)·softmax(u uᵀ) + ω·F,  u = x W*ᵀ / √D.

    tokens    x_l ~ N(0, σ² I_D), l = 1..L            weights  W* ~ N(0, 1), rank × D
    positions p_l = s_l · 1_D / √D, s = 1 .. −1 (the student adds them; the targets do not)

scaling="unscaled" drops both 1/√D, as many reproductions do: scores are then O(D).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor

from attnlab.core.config import Settings
from attnlab.core.seeds import Seed

CHUNK_NUMBERS = 16_000_000  # normals drawn at once; changing it would change every data set
Positive = Annotated[float, Field(gt=0)]


class TeacherSettings(Settings):
    """L, D, σ, ω, rank, F and the scaling of the model, with the paper's values as defaults."""

    dim: int = Field(default=1000, ge=2)
    tokens: int = Field(default=2, ge=2)
    sigma: Positive = 0.5
    omega: float = Field(default=0.3, ge=0, le=1)
    rank: int = Field(default=1, ge=1)
    mixing: tuple[tuple[float, ...], ...] = ((0.6, 0.4), (0.4, 0.6))
    scaling: Literal["paper", "unscaled"] = "paper"
    divide_by_rank: bool = False  # scores / √rank
    exact_norm: bool = False  # scale W* to ‖W*‖² = D: instances differ less, the limit is the same

    @model_validator(mode="after")
    def _mixing_is_attention(self) -> "TeacherSettings":
        rows = self.mixing
        if len(rows) != self.tokens or any(len(row) != self.tokens for row in rows):
            raise ValueError(
                f"mixing must be a {self.tokens}×{self.tokens} matrix, like the attention"
            )
        if any(abs(sum(row) - 1) > 1e-9 or min(row) < 0 for row in rows):
            raise ValueError("rows of mixing must be non-negative and sum to 1")
        return self

    @property
    def field_scale(self) -> float:
        """The factor of x·W: 1/√D, or 1 when unscaled."""
        return 1 / math.sqrt(self.dim) if self.scaling == "paper" else 1.0

    @property
    def position_size(self) -> float:
        """The size of each entry of p_1: 1/√D, or 1 when unscaled."""
        return self.field_scale

    @property
    def signs(self) -> Tensor:
        """The factors s_l of the position vector, evenly spaced: +1, −1 for two tokens."""
        return torch.linspace(1, -1, self.tokens, dtype=torch.float64)


@dataclass(frozen=True)
class Dataset:
    """Tokens and the teacher's attention on them; targets are attention @ tokens.

    Stored token-major: one matrix of L·n rows serves every product with weights.
    """

    settings: TeacherSettings
    tokens: Float[Tensor, "token sample dim"]
    attention: Float[Tensor, "token token2 sample"]  # float64

    @property
    def samples(self) -> int:
        """The number n of sequences."""
        return self.tokens.shape[1]

    def targets(self) -> Float[Tensor, "token sample dim"]:
        """The targets t_l = Σ_m a*_lm x_m, computed on demand because they are large."""
        mix = self.attention.to(self.tokens.dtype)
        return torch.einsum("lmn,mnd->lnd", mix, self.tokens)

    def to(self, device: str) -> "Dataset":
        """The same data on another device."""
        return Dataset(self.settings, self.tokens.to(device), self.attention.to(device))


@dataclass(frozen=True)
class Teacher:
    """The weights W* and the attention that turns tokens into targets."""

    settings: TeacherSettings
    weights: Float[Tensor, "rank dim"]  # float64

    @staticmethod
    def draw(settings: TeacherSettings, seed: Seed, device: str = "cpu") -> "Teacher":
        """Draw W* ~ N(0, 1), on the CPU so that every device gets the same teacher."""
        weights = torch.randn(
            settings.rank, settings.dim, generator=seed.torch_generator(), dtype=torch.float64
        )
        if settings.exact_norm:
            weights *= math.sqrt(settings.dim) / weights.norm(dim=1, keepdim=True)
        return Teacher(settings, weights.to(device))

    def to(self, device: str) -> "Teacher":
        """The same teacher on another device."""
        return Teacher(self.settings, self.weights.to(device))

    def fields(self, tokens: Float[Tensor, "token sample dim"]) -> Float[Tensor, "token sample r"]:
        """The teacher fields u = x W*ᵀ · field scale, in float64."""
        product = tokens @ self.weights.to(tokens.dtype).T
        return product.double() * self.settings.field_scale

    def attention(
        self, tokens: Float[Tensor, "token sample dim"]
    ) -> Float[Tensor, "token token2 sample"]:
        """The target attention A* = (1−ω)·softmax_rows(u uᵀ) + ω·F of every sample."""
        return mixed_attention(self.fields(tokens), self.settings)

    def chunks(
        self, samples: int, seed: Seed, dtype: torch.dtype
    ) -> Iterator[Float[Tensor, "token sample dim"]]:
        """Tokens x ~ N(0, σ²) in chunks of bounded size, drawn on the teacher's device."""
        s = self.settings
        generator = seed.torch_generator(str(self.weights.device))
        step = max(1, CHUNK_NUMBERS // (s.tokens * s.dim))
        for start in range(0, samples, step):
            shape = (s.tokens, min(step, samples - start), s.dim)
            tokens = torch.randn(
                shape, generator=generator, dtype=dtype, device=self.weights.device
            )
            yield tokens.mul_(s.sigma)

    def sample(self, samples: int, seed: Seed, dtype: torch.dtype = torch.float64) -> Dataset:
        """A data set of `samples` sequences, filled chunk by chunk."""
        s, device = self.settings, self.weights.device
        tokens = torch.empty(s.tokens, samples, s.dim, dtype=dtype, device=device)
        attention = torch.empty(s.tokens, s.tokens, samples, dtype=torch.float64, device=device)
        start = 0
        for chunk in self.chunks(samples, seed, dtype):
            stop = start + chunk.shape[1]
            tokens[:, start:stop] = chunk
            attention[:, :, start:stop] = self.attention(chunk)
            start = stop
        return Dataset(s, tokens, attention)


def softmax_scores(
    fields: Float[Tensor, "token *batch r"], settings: TeacherSettings
) -> Float[Tensor, "token token2 *batch"]:
    """softmax of u uᵀ over the second token, divided by √rank if `divide_by_rank` is set."""
    scores = torch.einsum("l...r,m...r->lm...", fields, fields)
    if settings.divide_by_rank:
        scores = scores / math.sqrt(fields.shape[-1])
    return torch.softmax(scores, dim=1)


def mixed_attention(
    fields: Float[Tensor, "token *batch r"], settings: TeacherSettings
) -> Float[Tensor, "token token2 *batch"]:
    """The attention (1−ω)·softmax(u uᵀ) + ω·F at fields u."""
    semantic = softmax_scores(fields, settings)
    mixing = torch.tensor(settings.mixing, dtype=fields.dtype, device=fields.device)
    mixing = mixing.reshape(mixing.shape + (1,) * (semantic.dim() - 2))
    return (1 - settings.omega) * semantic + settings.omega * mixing
