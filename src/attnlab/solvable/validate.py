"""Choose the ridge λ from training data alone: k-fold cross-validation, or leave-one-out.

k-fold: starts × ridges × folds are columns of one problem. A fold trains at α(k−1)/k, which can
lie on the other side of the phase transition. Leave-one-out needs a single fit: without sample n,
its field changes from the trained z to the cavity field

    h = z + V·∂ℓ/∂z,    V = σ² / (λ + σ²·(1/D) Σ_n tr[B_n (1 + V B_n)⁻¹]),   B_n = ∂²ℓ/∂z²,

so the error on unseen data is the mean of ℓ(h).

A grid of λ is a guess: where the best λ is an end of it, `widen_ridges` goes on beyond.
"""

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.measure.grid_search import GrowingGrid
from attnlab.solvable.solve import SolverSettings, minimise
from attnlab.solvable.student import GramBlocks, Loss, Weights, sample_losses
from attnlab.solvable.teacher import Dataset


@dataclass(frozen=True)
class Validation:
    """The held-out error for every start (rows) and ridge (columns)."""

    ridges: tuple[float, ...]
    errors: Float[Tensor, "start ridge"]

    def best(self, start: int) -> float:
        """The ridge with the lowest held-out error for this start."""
        return self.ridges[int(self.errors[start].argmin())]


def cross_validate(
    data: Dataset,
    starts: Weights,
    ridges: Sequence[float],
    folds: int,
    seed: Seed,
    solver: SolverSettings | None = None,
) -> Validation:
    """The k-fold error of every start and ridge, from training data only."""
    if folds < 2 or folds > data.samples:
        raise UsageError(f"folds must be between 2 and the number of samples, got {folds}")
    device, count = data.tokens.device, len(ridges) * folds
    order = torch.randperm(data.samples, generator=seed.torch_generator()).to(device)
    fold_of = torch.empty_like(order)
    fold_of[order] = torch.arange(data.samples, device=device) % folds
    keep = (fold_of[:, None] != torch.arange(folds, device=device)).double()  # n × folds
    columns = keep.repeat(1, starts.shape[0] * len(ridges))
    ridge = torch.tensor(ridges, dtype=torch.float64, device=device).repeat_interleave(folds)
    loss = Loss(data, GramBlocks.of(data), ridge.repeat(starts.shape[0]), columns)
    solution = minimise(loss, starts.repeat_interleave(count, dim=0), solver)
    losses, _ = sample_losses(loss.fields(solution.weights), loss.blocks, data.settings)
    held_out = (losses * (1 - columns)).sum(dim=0).reshape(starts.shape[0], len(ridges), folds)
    return Validation(tuple(ridges), held_out.sum(dim=2) / data.samples)


def widen_ridges(
    score: Callable[[Sequence[float]], Mapping[str, Tensor]],
    ridges: Sequence[float],
    judges: Sequence[str],
    factor: float,
    most: int,
) -> tuple[list[float], dict[str, Tensor]]:
    """Score the ridges, and one more beyond an end while a judge prefers it for some start.

    `score` returns errors by name, one row per start and one column per ridge; `judges` are the
    names of those that choose. Each end moves `most` times at most, by `factor`. Returns all ridges
    in increasing order and their errors.
    """
    tried = sorted(set(ridges))
    errors = dict(score(tried))

    def chosen() -> set[float]:
        return {tried[int(i)] for name in judges for i in errors[name].argmin(dim=1)}

    for end in (min, max):
        grid = GrowingGrid(set(tried), factor, most)
        while (new := grid.beyond(chosen() & {end(tried)})) is not None:
            column = bisect(tried, new)
            tried.insert(column, new)
            for name, found in score([new]).items():
                before, after = errors[name][:, :column], errors[name][:, column:]
                errors[name] = torch.cat((before, found, after), dim=1)
    return tried, errors


def leave_one_out(loss: Loss, weights: Weights) -> Float[Tensor, " student"]:
    """The leave-one-out error of trained students: the mean of ℓ at their cavity fields."""
    if weights.shape[1] != 1:
        raise UsageError("leave-one-out works for rank 1 only: use cross_validate")
    settings = loss.data.settings
    fields = loss.fields(weights)
    _, slope = sample_losses(fields, loss.blocks, settings)
    response = _response(loss, fields)
    cavity = fields + response[None, None, :, None] * slope
    losses, _ = sample_losses(cavity, loss.blocks, settings)
    return losses.mean(dim=0)


def _response(loss: Loss, fields: Tensor) -> Float[Tensor, " student"]:
    """V of every student: the smallest root of V·(λ + σ²·S(V)) = σ², by bisection in log V.

    At a minimum 1 + V·b > 0 for every eigenvalue b. Beyond the smallest root this fails for
    samples with b < 0, and spurious roots appear.
    """
    curvature = _sample_hessians(loss, fields)  # n k L L
    # on the CPU: a GPU's batched solver refuses millions of tiny matrices
    values = torch.linalg.eigvalsh(curvature.cpu()).to(fields.device)
    sigma2, dim = loss.data.settings.sigma**2, loss.data.settings.dim
    count, ridge = fields.shape[2], loss.ridge

    def above(v: Tensor) -> Tensor:
        # keeps samples at the edge of a jump finite
        stiff = (values / (1 + v[None, :, None] * values).clamp_min(0.05)).sum(dim=(0, 2))
        return v * (ridge + sigma2 * stiff / dim) > sigma2

    grid = torch.logspace(-3, 0, 100, dtype=torch.float64, device=fields.device)
    steps = [(grid[i] * sigma2 / ridge).expand(count) for i in range(100)]
    passed = torch.stack([above(v) for v in steps[:-1]] + [torch.ones_like(steps[0]) > 0])
    first = passed.int().argmax(dim=0)
    low = torch.stack(steps)[(first - 1).clamp_min(0), torch.arange(count)]
    high = torch.stack(steps)[first, torch.arange(count)]
    for _ in range(40):
        middle = (low * high).sqrt()
        over = above(middle)
        low, high = torch.where(over, low, middle), torch.where(over, middle, high)
    return (low * high).sqrt()


def _sample_hessians(loss: Loss, fields: Tensor) -> Float[Tensor, "sample student l m"]:
    """B_n = ∂²ℓ/∂z², one row per token: samples are independent, so one pass serves all."""
    z = fields.detach().requires_grad_()
    with torch.enable_grad():
        _, slope = sample_losses(z, loss.blocks, loss.data.settings)
        rows = [
            torch.autograd.grad(slope[token].sum(), z, retain_graph=True)[0][..., 0]
            for token in range(fields.shape[0])
        ]
    return torch.stack(rows).permute(2, 3, 0, 1)
