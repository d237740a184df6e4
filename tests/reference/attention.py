"""Attention by definition: loops over rows, heads, queries and keys in fp64. Slow.

What a variant does to one of them is in variants.py beside this file.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.parts.attention import Attention
from tests.reference.variants import (
    looks,
    merged,
    normalised,
    projected,
    scored,
    turned,
    turned_pair,
)


@dataclass(frozen=True)
class Loop:
    """What the loops computed, with the names of `Steps`."""

    scores: Tensor
    weights: Tensor
    heads: Tensor
    out: Tensor


def attend(
    attention: Attention,
    x_query: Tensor,
    x_key: Tensor,
    position_ids: tuple[Tensor, Tensor],
    padding: Tensor,
) -> Loop:
    """softmax(q·k/√d) v with the variants; positions are (batch query) and (batch key)."""
    rows = [
        _row(
            attention,
            x_query[b],
            x_key[b],
            (position_ids[0][b].tolist(), position_ids[1][b].tolist()),
            off,
        )
        for b, off in enumerate(padding.tolist())
    ]
    scores, weights, heads = (torch.stack(column) for column in zip(*rows, strict=True))
    return Loop(scores, weights, heads, merged(attention.merge, heads))


def _row(
    attention: Attention,
    x_query: Tensor,
    x_key: Tensor,
    position_ids: tuple[list[int], list[int]],
    padding: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, weights and heads of one row of the batch."""
    position, (at_query, at_key) = attention.position, position_ids
    queries = [projected(attention.project, x)[0] for x in x_query]
    keys, values = zip(*(projected(attention.project, x)[1:] for x in x_key), strict=True)
    turned_keys = [turned(position, k, j) for k, j in zip(keys, at_key, strict=True)]
    scores = []
    for query, i in zip(queries, at_query, strict=True):
        turned_query = turned(position, query, i)
        for key, turned_key, j in zip(keys, turned_keys, at_key, strict=True):
            q, k = turned_query, turned_key
            if q is None or k is None:  # no formula: the part is asked, one pair at a time
                q, k = turned_pair(position, query, key, (i, j))
            product = (q * k).sum(dim=1) / math.sqrt(q.shape[1])
            scores.append(scored(position, product, (i, j)))
    scores = torch.stack(scores).unflatten(0, (len(queries), len(keys))).movedim(2, 0)
    allowed = [
        [not off and looks(attention.mask, i, j) for j, off in zip(at_key, padding, strict=True)]
        for i in at_query
    ]
    weights = torch.stack(
        [
            torch.stack(
                [
                    torch.stack(normalised(attention.normalise, list(row), allowed[i]))
                    for i, row in enumerate(one_head)
                ]
            )
            for one_head in scores
        ]
    )
    heads = torch.stack(
        [
            torch.stack(
                [
                    torch.stack([w * value[h] for w, value in zip(row, values, strict=True)]).sum(0)
                    for row in one_head
                ]
            )
            for h, one_head in enumerate(weights)
        ]
    )
    return scores, weights, heads
