"""When softmax(q·k) v can be one fused product, and the arguments of that product.

The fused kernels of torch compute softmax(scale · q·k + bias) v. That is `Attention.steps` exactly
when the weights are the softmax and the position part adds to scores a function of positions only.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnlab.parts.mask import Mask
from attnlab.parts.merge import Merge
from attnlab.parts.normalise import Normalise
from attnlab.parts.part import Key, Padding, PositionIds, Query
from attnlab.parts.position import Position
from attnlab.parts.project import repeat_heads


def is_fast(position: Position, normalise: Normalise) -> bool:
    """Whether one fused product gives the same heads as the steps."""
    return normalise.fused and (position.additive or not position.touches_scores)


def needed_padding_mask(key_padding_mask: Padding, mask: Mask, merge: Merge) -> Padding:
    """None when masking changes no real position: only padding at the end, never looked back at.

    A causal mask keeps padding at the end of a row out of every position before it, provided that
    the merge does not mix positions. What the padded positions themselves hold then differs, and
    nobody reads it.
    """
    if key_padding_mask is None or not (mask.causal and merge.per_position):
        return key_padding_mask
    resumes = (key_padding_mask[:, :-1] & ~key_padding_mask[:, 1:]).any()  # a token after padding
    return key_padding_mask if resumes else None


def fused_bias(
    q: Query, mask: Mask, position: Position, position_ids: PositionIds, key_padding_mask: Padding
) -> Tensor | None:
    """What is added to the scores, or where to look as a bool.

    None: the plain triangle, or for the newest token everything.
    """
    simple = key_padding_mask is None and mask.triangular and not position.touches_scores
    if simple and (position_ids.plain or position_ids.newest):
        return None
    allowed = mask.allowed(position_ids, key_padding_mask)
    if not position.touches_scores:
        return allowed
    shape = (allowed.shape[0], q.shape[1], *allowed.shape[2:])
    added = position.on_scores(torch.zeros(shape, dtype=q.dtype, device=q.device), position_ids)
    return added.masked_fill(~allowed, -torch.inf)


def fused_heads(
    q: Query, k: Key, v: Key, bias: Tensor | None, is_causal: bool, scale: float
) -> Query:
    """softmax(scale · q·k + bias) v; keys shared by several heads are not repeated for one query.

    The heads of one group then stand side by side, as if they were the positions of one query.
    """
    heads, groups = q.shape[1], k.shape[1]
    if groups == heads or q.shape[2] > 1 or (bias is not None and bias.shape[1] > 1):
        k, v = repeat_heads(k, heads), repeat_heads(v, heads)
        return scaled_dot_product_attention(
            q, k, v, attn_mask=bias, is_causal=is_causal and bias is None, scale=scale
        )
    grouped = q.reshape(q.shape[0], groups, heads // groups, -1)
    out = scaled_dot_product_attention(grouped, k, v, attn_mask=bias, scale=scale)
    return out.reshape(q.shape)
