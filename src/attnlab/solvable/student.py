"""The student's loss from Gram blocks: one product with x, one with xᵀ, no copy of size n·L·D.

    X = x + p;  S = X Wᵀ/√D;  A = softmax_rows(S Sᵀ);
    E(W) = Σ_n (1/2D)‖Y − A X‖² + (λ/2)‖W‖²,   ε_t = E/D

With G = X Xᵀ/D, C = Y Xᵀ/D and y² = ‖Y‖²/D per sample (computed once),
    (1/D)‖Y − A X‖² = y² − 2⟨A, C⟩ + ⟨A G, A⟩.
Students that share a data set (starts, ridges, folds) are solved together as columns k. Fields,
losses and weights are float64; only the two large products use the dtype of the data.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.solvable.teacher import Dataset, TeacherSettings, softmax_scores

PIECE_NUMBERS = 64_000_000
Weights = Float[Tensor, "student rank dim"]
Fields = Float[Tensor, "token sample student rank"]


@dataclass(frozen=True)
class GramBlocks:
    """Per-sample Gram blocks G, C (L×L×n) and y² (n): the loss needs only these and the fields."""

    gram: Float[Tensor, "token token2 sample"]
    cross: Float[Tensor, "token token2 sample"]
    target: Float[Tensor, " sample"]

    @staticmethod
    def of(data: Dataset) -> "GramBlocks":
        """The blocks from x and A*, without forming Y and X."""
        s, x = data.settings, data.tokens
        xx = token_gram(x) / s.dim
        sums = x.sum(dim=2).double()
        signs = s.signs.to(x.device)
        # x_l·p_m/D for every pair of tokens; p_m is s_m times one vector
        xp = (sums * s.position_size / s.dim)[:, None, :] * signs[None, :, None]
        pp = (signs[:, None] * signs[None, :] * s.position_size**2)[:, :, None]
        cross = torch.einsum("lmn,mpn->lpn", data.attention, xx + xp)
        target = torch.einsum("lmn,mpn,lpn->n", data.attention, xx, data.attention)
        return GramBlocks(xx + xp + xp.transpose(0, 1) + pp, cross, target)

    @cached_property
    def pair(self) -> tuple[Tensor, Tensor, Tensor]:
        """κ, (b₁,b₂) and c of the loss ½κ(a₁² + a₂²) − b₁a₁ − b₂a₂ + c for L=2, a_l = A_ll."""
        g, c = self.gram, self.cross
        kappa = g[0, 0] - 2 * g[0, 1] + g[1, 1]
        b1 = c[0, 0] - c[0, 1] - g[0, 1] + g[1, 1]
        b2 = c[1, 1] - c[1, 0] - g[0, 1] + g[0, 0]
        rest = 0.5 * (self.target + g[1, 1] + g[0, 0]) - c[0, 1] - c[1, 0]
        return kappa[:, None], torch.stack([b1, b2])[:, :, None], rest[:, None]


def token_gram(x: Float[Tensor, "token sample dim"]) -> Float[Tensor, "token token2 sample"]:
    """x_l·x_m of every sample, summed in the dtype of the data and returned in float64."""
    step = max(1, PIECE_NUMBERS // (x.shape[0] * x.shape[2]))
    pieces = []
    for piece in x.split(step, dim=1):  # the GPU's batched product refuses strides beyond 2^31
        rows = piece.transpose(0, 1).contiguous()
        pieces.append(torch.bmm(rows, rows.transpose(1, 2)))
    return torch.cat(pieces).double().permute(1, 2, 0).contiguous()


def sample_losses(
    fields: Fields, blocks: GramBlocks, settings: TeacherSettings
) -> tuple[Float[Tensor, "sample student"], Fields]:
    """(1/2D)‖Y − A X‖² of every sample and student, and its derivative by the fields."""
    if settings.tokens == 2:
        return _pair_losses(fields, blocks, _rank_scale(fields, settings))
    attention = softmax_scores(fields, settings)  # l m n k
    product = torch.einsum("lmnk,mpn->lpnk", attention, blocks.gram)
    cross = blocks.cross[..., None]
    loss = 0.5 * blocks.target[:, None] + (attention * (0.5 * product - cross)).sum(dim=(0, 1))
    slope = product - cross
    slope = attention * (slope - (attention * slope).sum(dim=1, keepdim=True))
    slope = (slope + slope.transpose(0, 1)) * _rank_scale(fields, settings)
    return loss, torch.einsum("lmnk,mnkr->lnkr", slope, fields)


def _pair_losses(fields: Fields, blocks: GramBlocks, scale: float) -> tuple[Tensor, Fields]:
    """The same for L=2, where a_1 = sigmoid(S₁·(S₁−S₂)) and a_2 = sigmoid(S₂·(S₂−S₁))."""
    kappa, slopes, rest = blocks.pair
    first, second = fields
    apart = first - second
    losses, pulls = rest, []
    for field, sign, slope in ((first, scale, slopes[0]), (second, -scale, slopes[1])):
        score = field * apart
        score = score[..., 0] if fields.shape[-1] == 1 else score.sum(dim=-1)
        diagonal = torch.sigmoid(sign * score)
        half = diagonal * kappa
        losses = torch.addcmul(losses, diagonal, torch.add(-slope, half, alpha=0.5))
        pulls.append(((half - slope) * diagonal * (scale - scale * diagonal))[..., None])
    # d/dS₁ of both diagonals: 2S₁ − S₂ and −S₂; likewise for S₂
    one, two = pulls
    both = one + two
    upper = torch.addcmul(2 * one * first, both, second, value=-1)
    lower = torch.addcmul(2 * two * second, both, first, value=-1)
    return losses, torch.stack([upper, lower])


def _rank_scale(fields: Fields, settings: TeacherSettings) -> float:
    return 1 / math.sqrt(fields.shape[-1]) if settings.divide_by_rank else 1.0


@dataclass(frozen=True)
class Loss:
    """E of many students on one data set; `keep[n,k]` = 0 leaves sample n out for student k."""

    data: Dataset
    blocks: GramBlocks
    ridge: Float[Tensor, " #student"]  # one per student, or one for all
    keep: Float[Tensor, "sample student"] | None = None

    @staticmethod
    def of(data: Dataset, ridge: Tensor | float, keep: Tensor | None = None) -> "Loss":
        """Compute the Gram blocks; one ridge per student, or one for all."""
        values = torch.as_tensor(ridge, dtype=torch.float64, device=data.tokens.device)
        return Loss(data, GramBlocks.of(data), values.reshape(-1), keep)

    def take(self, students: Tensor) -> "Loss":
        """The loss of some of the students only."""
        one = self.ridge.numel() == 1
        keep = None if self.keep is None else self.keep[:, students]
        return Loss(self.data, self.blocks, self.ridge if one else self.ridge[students], keep)

    def fields(self, weights: Weights) -> Fields:
        """S = (x + p) Wᵀ · field scale, by one product with x."""
        s, x = self.data.settings, self.data.tokens
        students, rank, dim = weights.shape
        flat = weights.reshape(students * rank, dim)
        product = (x.reshape(-1, dim) @ flat.to(x.dtype).T).double()
        mean = flat.sum(dim=1) * s.position_size
        product = product.reshape(s.tokens, self.data.samples, -1)
        product = product + s.signs.to(x.device)[:, None, None] * mean
        return (product * s.field_scale).reshape(s.tokens, self.data.samples, students, rank)

    def pull_back(self, slope: Fields) -> Weights:
        """Σ_n,l slope · X_l · field scale: the gradient by the weights, one product with xᵀ."""
        s, x = self.data.settings, self.data.tokens
        tokens, samples, students, rank = slope.shape
        flat = slope.reshape(tokens * samples, students * rank)
        product = (flat.to(x.dtype).T @ x.reshape(-1, s.dim)).double()
        by_token = slope.reshape(tokens, samples, -1).sum(dim=1)
        positions = (s.signs.to(x.device) @ by_token) * s.position_size
        return ((product + positions[:, None]) * s.field_scale).reshape(students, rank, s.dim)

    def data_term(self, fields: Fields) -> tuple[Float[Tensor, " student"], Fields]:
        """The sum of the sample losses, and its derivative by the fields."""
        losses, slope = sample_losses(fields, self.blocks, self.data.settings)
        if self.keep is None:
            return losses.sum(dim=0), slope
        return (losses * self.keep).sum(dim=0), slope * self.keep[None, :, :, None]

    def value_and_gradient(self, weights: Weights) -> tuple[Float[Tensor, " student"], Weights]:
        """E(W) and ∇E(W), including the ridge penalty."""
        value, slope = self.data_term(self.fields(weights))
        norm = weights.square().sum(dim=(1, 2))
        gradient = self.pull_back(slope) + self.ridge[:, None, None] * weights
        return value + 0.5 * self.ridge * norm, gradient
