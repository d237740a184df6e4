"""The Perceiver by definition: who reads whom is a rule on whole numbers; loops in fp64. Slow.

For linear maps, learned positions, the softmax and heads side by side.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.models.block import Block
from attnlab.models.perceiver import Perceiver
from attnlab.parts.position import Learned
from attnlab.parts.project import Linear

Allowed = Callable[[int, int], bool]


@torch.no_grad()
def logits(model: Perceiver, ids: list[int]) -> Tensor:
    """The scores after every id of one row."""
    config = model.config
    size = -(-config.base.block // config.latents)  # inputs of a block
    assert isinstance(model.position, Learned)
    x = [model.embedding[i] + model.position.table[t] for t, i in enumerate(ids)]
    if config.reads == "block+local":
        assert model.local is not None
        x = layer(model.local, x, None, lambda t, j: j <= t and j // size == t // size)
    if config.reads == "course":
        reads: Allowed = lambda latent, j: j <= latent  # noqa: E731
        answers: Allowed = lambda t, latent: latent <= t  # noqa: E731
    else:
        reads = lambda latent, j: j < (latent + 1) * size  # noqa: E731
        answers = lambda t, latent: (latent + 1) * size <= t + 1  # noqa: E731
    z = list(model.latents)
    z = layer(model.down, z, [normed(model.input_norm, v) for v in x], reads)
    for block in model.blocks:
        assert isinstance(block, Block)
        z = layer(block, z, None, lambda one, other: other <= one)
    x = layer(model.up, x, [normed(model.latent_norm, v) for v in z], answers)
    return torch.stack([model.output_matrix @ normed(model.norm, v) for v in x])


def layer(
    block: Block, rows: list[Tensor], keys: list[Tensor] | None, may: Allowed
) -> list[Tensor]:
    """x + attention(norm(x); keys), then x + W₂ gelu(W₁ norm(x)); keys None: the same rows."""
    asked = [normed(block.attention_norm, v) for v in rows]
    told = asked if keys is None else keys
    found = []
    for i, (row, question) in enumerate(zip(rows, asked, strict=True)):
        x = row + attended(block, question, [k for j, k in enumerate(told) if may(i, j)])
        h = normed(block.feed_forward_norm, x)
        wide = block.feed_forward.wide.weight @ h + block.feed_forward.wide.bias
        bent = wide / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
        found.append(x + block.feed_forward.out.weight @ bent + block.feed_forward.out.bias)
    return found


def attended(block: Block, question: Tensor, keys: list[Tensor]) -> Tensor:
    """Σ softmax(q·k/√d) v over the keys, head by head; nothing where there is no key."""
    project, merge = block.attention.project, block.attention.merge
    assert isinstance(project, Linear)
    qkv: nn.Linear = project.qkv
    inner, d = project.inner, project.inner // project.heads
    maps = [
        lambda v, a=a: (qkv.weight @ v + qkv.bias)[a : a + inner] for a in (0, inner, 2 * inner)
    ]
    heads = []
    for h in range(project.heads):
        own = slice(h * d, (h + 1) * d)
        q = maps[0](question)[own]
        scores = [float(q @ maps[1](k)[own]) / math.sqrt(d) for k in keys]
        weights = [math.exp(s - max(scores)) for s in scores]
        total = sum(weights)
        values = [w / total * maps[2](k)[own] for w, k in zip(weights, keys, strict=True)]
        heads.append(sum(values, torch.zeros(d, dtype=question.dtype)))
    return merge.out.weight @ torch.cat(heads) + merge.out.bias


def normed(norm: Any, v: Tensor) -> Tensor:
    """(v − mean) / √(variance + ε), scaled and shifted."""
    centred = v - v.mean()
    return centred / torch.sqrt(centred.square().mean() + norm.eps) * norm.weight + norm.bias
