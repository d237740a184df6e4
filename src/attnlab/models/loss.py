"""Σ −log softmax(W x)[target] and its gradients, a piece of rows at a time.

With z = W x and p = softmax(z):  d(−log p_t)/dz = p − e_t,  dx = Wᵀ(p − e_t),  dW = Σ (p − e_t) xᵀ
The forward pass computes the gradients too, while a piece of z is still in cache: the logits of a
whole batch never exist, and nothing comes back to them. In bfloat16, p_t − 1 would be 0 or −0.004
for a target that is nearly certain; so it is expm1(log p_t), with log p_t in float32.
"""

from collections.abc import Callable
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from attnlab.core.tokens import IGNORE

# Logits at once: few enough to stay in a CPU's cache; enough for one product to fill a GPU
PIECE = {"cpu": 1_280_000, "cuda": 1 << 29}
# W gets rows of zeros up to a multiple of this: tensor cores are slow at widths like 50,257
WIDTH = {"cpu": 1, "cuda": 64}
UNDERFLOW = -80.0  # log p above this can be read off p itself, in float32 too

Rows = Float[Tensor, "row d_model"]
Matrix = Float[Tensor, "vocab d_model"]
Targets = Int[Tensor, " row"]


def linear_nll(
    x: Float[Tensor, "*rows d_model"], weight: Matrix, targets: Int[Tensor, "*rows"]
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """Σ −log softmax(x Wᵀ)[target] over targets that are not IGNORE, and how many those are."""
    rows, wanted = x.flatten(0, -2), targets.flatten()
    grad = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    if x.device.type == "cpu":
        return _on_cpu(rows, weight, wanted, grad)
    total: Any = LinearNll.apply(rows, weight, wanted, grad)
    return total, (wanted != IGNORE).sum()


def _scored_rows(x: Rows, weight: Matrix, targets: Targets, grad: bool) -> tuple[Tensor, Tensor]:
    """Rows that nobody scores are left out first; on a GPU their number would be waited for."""
    scored = targets != IGNORE
    count = scored.sum()
    if int(count) < len(targets):
        x, targets = x[scored], targets[scored]
    total: Any = LinearNll.apply(x, weight, targets, grad)
    return total, count


# compiled, every piece would be a new tensor instead of one that stays in the cache
_on_cpu = cast("Callable[..., tuple[Tensor, Tensor]]", torch.compiler.disable(_scored_rows))


class LinearNll(torch.autograd.Function):
    """The sum over rows; a row whose target is IGNORE adds nothing and receives nothing."""

    @staticmethod
    def forward(ctx: Any, x: Rows, weight: Matrix, targets: Targets, grad: bool) -> Tensor:
        """The sum; with `grad`, its gradients are computed now and kept."""
        dtype = _product_dtype(x)
        keep = (targets != IGNORE)[:, None]
        with torch.autocast(x.device.type, enabled=False):
            rows = torch.where(keep, x, 0).to(dtype)
            wide = pad_rows(weight.to(dtype))
            total, slopes = _in_pieces(rows, wide, targets, len(weight), grad)
        if slopes is not None:
            dx, dweight = slopes
            dx = torch.where(keep, dx, 0).to(x.dtype)
            ctx.save_for_backward(dx, dweight[: len(weight)].to(weight.dtype))
        return total

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *slopes: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None]:
        """What was kept, times the slope of the sum."""
        dx, dweight = ctx.saved_tensors
        (slope,) = slopes
        for_x, for_weight = ctx.needs_input_grad[:2]
        scaled = dx * slope.to(dx.dtype) if for_x else None
        return scaled, dweight * slope.to(dweight.dtype) if for_weight else None, None, None


def _in_pieces(
    x: Tensor, weight: Tensor, targets: Tensor, vocab: int, grad: bool
) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
    """The sum, and (dx, dW) where wanted; what is summed is kept in float32 at least."""
    exact = torch.promote_types(x.dtype, torch.float32)
    total = torch.zeros((), dtype=exact, device=x.device)
    dx, dweight = torch.empty_like(x), torch.zeros_like(weight, dtype=exact)
    size = _rows_at_once(len(x), len(weight), x.device)
    stays = x.device.type == "cpu" and not torch.compiler.is_compiling()
    room = x.new_empty(size, len(weight)) if stays else None  # one piece of memory, always hot
    for start in range(0, len(x), size):
        part, target = x[start : start + size], targets[start : start + size, None]
        ignored, safe = target == IGNORE, target.clamp_min(0)
        z = torch.mm(part, weight.T, out=None if room is None else room[: len(part)])
        z[:, vocab:] = -torch.inf  # columns that only fill up the width
        if stays and exact == x.dtype:
            # z becomes p; the log is exact unless p is as small as 1e-38
            log_p = torch.softmax(z, dim=1, out=z).gather(1, safe).log()
            if not (log_p > UNDERFLOW).all():
                log_p = torch.log_softmax(part @ weight[:vocab].T, dim=1).gather(1, safe)
        else:
            log_all = torch.log_softmax(z, dim=1, dtype=exact)
            log_p = log_all.gather(1, safe)
            torch.exp(log_all, out=z)
        # not in place: compiled by torch 2.11, an output changed in place loses its gradient
        total = total - torch.where(ignored, 0, log_p).sum()
        if grad:
            slope = z.scatter_(1, safe, torch.expm1(log_p).to(z.dtype))
            dx[start : start + size] = slope @ weight
            if exact == x.dtype:
                dweight.addmm_(slope.T, part)
            else:
                dweight += slope.T @ part
    return total, (dx, dweight) if grad else None


def _product_dtype(x: Tensor) -> torch.dtype:
    """What torch's own linear map would compute in."""
    kind = x.device.type
    if torch.is_autocast_enabled(kind) and x.dtype != torch.float64:
        return torch.get_autocast_dtype(kind)
    return x.dtype


def pad_rows(weight: Tensor) -> Tensor:
    """The matrix with rows of zeros at its end, so that on a GPU kernels for whole tiles apply."""
    short = -len(weight) % _for_device(WIDTH, weight.device)
    return functional.pad(weight, (0, 0, 0, short)) if short else weight


def _rows_at_once(rows: int, width: int, device: torch.device) -> int:
    """As many as may be, in pieces of nearly equal size."""
    pieces = -(-rows * width // _for_device(PIECE, device)) or 1
    return max(1, -(-rows // pieces))


def _for_device(table: dict[str, int], device: torch.device) -> int:
    return table.get(device.type, table["cuda"])
