"""When softmax(q·k) v can be one fused product, and what that product must be told.

The fused kernels of torch compute softmax(scale · q·k + bias) v. That is `Attention.steps` exactly
when the weights are the softmax and positions add to scores a function of places only.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.parts.mask import Mask
from attnlab.parts.merge import Merge
from attnlab.parts.normalise import Normalise
from attnlab.parts.part import Places
from attnlab.parts.position import Position


def is_fast(position: Position, normalise: Normalise) -> bool:
    """Whether one fused product gives the same heads as the steps."""
    return normalise.fused and (position.additive or not position.touches_scores)


def needed(
    hidden: Bool[Tensor, "batch key"] | None, mask: Mask, merge: Merge
) -> Bool[Tensor, "batch key"] | None:
    """None when hiding changes no visible position: only padding at the end, never looked back at.

    A causal mask keeps padding at the end of a row out of every position before it, provided that
    the merge does not mix positions. What the padded positions themselves hold then differs, and
    nobody reads it.
    """
    if hidden is None or not (mask.causal and merge.per_position):
        return hidden
    resumes = (hidden[:, :-1] & ~hidden[:, 1:]).any()  # a visible token after a hidden one
    return hidden if resumes else None


def fused_bias(
    q: Float[Tensor, "batch head query d_head"],
    mask: Mask,
    position: Position,
    places: Places,
    hidden: Bool[Tensor, "batch key"] | None,
) -> Tensor | None:
    """What is added to the scores, or where to look as a bool; None means the plain triangle."""
    if places.plain and hidden is None and mask.triangular and not position.touches_scores:
        return None
    allowed = mask.allowed(places, hidden)
    if not position.touches_scores:
        return allowed
    shape = (allowed.shape[0], q.shape[1], *allowed.shape[2:])
    added = position.on_scores(torch.zeros(shape, dtype=q.dtype, device=q.device), places)
    return added.masked_fill(~allowed, -torch.inf)
