"""A causal Perceiver: the sequence is read into m latents, which think, and read back from them.

    x = position(embedding[ids]);    x = local(x)                 reads = "block+local" only
    z = down(latents; x)             latent j reads x at positions up to its own
    z = block(z)  for every layer between
    x = up(x; z)                     position t reads latents that stand at t or before; its MLP may
                                     be wider than the others' (`up_ratio`)
    logits = W · norm(x)

Causal because of where the latents stand: what latent j knows is memory at its position p_j, and
only positions t >= p_j read it. With p_j = j (as a course has it, by cutting a triangular mask to m
rows) inputs from position m on are read by no latent at all: causal, and blind. With p_j at the end
of block j, the latents read every finished block; what is unfinished is left to the local layer.
After Jaegle et al. 2021 (arXiv 2103.03206) and Hawthorne et al. 2022 (arXiv 2202.07765).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn import functional

from attnlab.core.config import suggest
from attnlab.core.errors import UsageError
from attnlab.models.base import Transformer
from attnlab.models.block import Block, States
from attnlab.models.config import GPTConfig
from attnlab.models.protocol import Ids, PaddingMask
from attnlab.parts.attention import Attention, Steps
from attnlab.parts.fast import needed_padding_mask
from attnlab.parts.initialise import GPT_STD, normal
from attnlab.parts.mask import Causal, OwnBlock
from attnlab.parts.merge import Concat
from attnlab.parts.part import Dims, KeyRows, Padding, PositionIds, QueryRows

Reads = Literal["course", "block", "block+local"]
# (attention, what asks, what tells, where both stand, what of the latter is padding) -> out
Attend = Callable[[Attention, QueryRows, KeyRows, PositionIds, Padding], QueryRows]


@dataclass(frozen=True)
class PerceiverConfig:
    """`base` gives sizes and parts; its layers are counted with both projections.

    reads="course"       latent j stands at position j: only the first `latents` positions are read
    reads="block"        latent j stands at the end of block j of ⌈base.block / latents⌉ positions
    reads="block+local"  that, and one of the layers is attention inside one's own block

    Everyone reads what stands at its own position or before it. `up_ratio` makes the MLP of the
    layer that reads back as many times as wide as the model; None: as wide as in the other layers.
    """

    base: GPTConfig
    latents: int = 32
    reads: Reads = "block+local"
    up_ratio: int | None = None

    def __post_init__(self) -> None:
        _check_positive("latents", self.latents)
        if self.up_ratio is not None:
            _check_positive("up_ratio", self.up_ratio)
        if self.latents > self.base.block:
            most = f"{self.base.block} positions"
            raise UsageError(f"{self.latents} latents for {most}: at most one each")
        _check_reads(self.reads)
        if self.base.layers < 2 + self.local:
            raise UsageError(f"reads {self.reads!r} needs {2 + self.local} layers at least")
        if self.base.mask != Causal.Config() or self.base.merge != Concat.Config():
            raise UsageError("a Perceiver is causal by its `reads` and merges heads by 'concat'")

    @property
    def local(self) -> bool:
        """Whether a layer attends inside one's own block."""
        return self.reads == "block+local"

    @property
    def span(self) -> int:
        """Positions of a block, the last of which is its latent's; one in the course's way."""
        return 1 if self.reads == "course" else -(-self.base.block // self.latents)

    @property
    def up_dims(self) -> Dims:
        """The sizes of the layer that reads back."""
        dims = self.base.dims
        return dims if self.up_ratio is None else replace(dims, d_mlp=self.up_ratio * dims.d_model)

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads it back. "latents" tells it from a GPT's."""
        wider = {} if self.up_ratio is None else {"up_ratio": self.up_ratio}
        return {**self.base.to_json(), "latents": self.latents, "reads": self.reads, **wider}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "PerceiverConfig":
        """What `to_json` wrote."""
        own = {name: values[name] for name in ("latents", "reads", "up_ratio") if name in values}
        _check_reads(own.get("reads", "block"))
        base = GPTConfig.from_json({k: v for k, v in values.items() if k not in own})
        return PerceiverConfig(base, **own)


class Perceiver(Transformer):
    """Latents between two readings."""

    def __init__(self, config: PerceiverConfig, generator: torch.Generator) -> None:
        super().__init__(config.base, generator)
        self.config, base = config, config.base
        self.latents = normal((config.latents, base.d_model), GPT_STD, generator)
        within = OwnBlock.Config(size=config.span)
        self.local = self._block(within, generator) if config.local else None
        self.input_norm, self.down = self._norm(generator), self._block(Causal.Config(), generator)
        between = base.layers - 2 - config.local
        self.blocks = nn.ModuleList(self._block(Causal.Config(), generator) for _ in range(between))
        self.latent_norm = self._norm(generator)
        self.up = self._block(Causal.Config(), generator, config.up_dims)
        self.norm = self._norm(generator)
        self.head = self._matrix(generator)

    @property
    def name(self) -> str:
        """Layers, heads, width, latents and how they read."""
        base = self.config.base
        sizes = (base.layers, base.heads, base.d_model, self.config.latents, self.config.reads)
        return "perceiver-" + "-".join(map(str, sizes))

    def layers(self) -> Iterator[Block]:
        """All blocks, in the order they are passed."""
        first = () if self.local is None else (self.local,)
        between = cast("Iterator[Block]", iter(self.blocks))
        return iter((*first, self.down, *between, self.up))

    def states(self, ids: Ids, key_padding_mask: PaddingMask = None) -> States:
        """What the output matrix is applied to."""
        if key_padding_mask is not None:
            down = self.down.attention
            key_padding_mask = needed_padding_mask(key_padding_mask, down.mask, down.merge)
        return self.through(ids, key_padding_mask, self._fast)

    def steps(self, ids: Ids, key_padding_mask: PaddingMask = None) -> list[Steps]:
        """Everything that attention computes, one record a layer: local, down, between, up."""
        records: list[Steps] = []

        def note(
            attention: Attention,
            query: QueryRows,
            key: KeyRows,
            position_ids: PositionIds,
            padding: Padding,
        ) -> QueryRows:
            records.append(attention.steps(query, key, position_ids, padding))
            return records[-1].out

        self.through(ids, key_padding_mask, note)
        return records

    def through(self, ids: Ids, key_padding_mask: PaddingMask, attend: Attend) -> States:
        """Every layer and the last norm, with the attention of each run by `attend`."""
        here = self._position_ids(ids, key_padding_mask)
        x = functional.embedding(ids, self.embedding)
        x = self.position.on_embeddings(x, here.query)
        if self.local is not None:
            x = self.local(x, lambda a, h: attend(a, h, h, here, key_padding_mask))
        at = self.latent_positions(ids.shape[1]).to(ids.device)
        inputs = self.input_norm(x)
        z = self.latents[: at.shape[1]].expand(len(ids), -1, -1)
        z = self.down(
            z, lambda a, h: attend(a, h, inputs, PositionIds(at, here.key), key_padding_mask)
        )
        for block in cast("Iterator[Block]", iter(self.blocks)):
            z = block(z, lambda a, h: attend(a, h, h, PositionIds(at, at), None))
        memory = self.latent_norm(z)
        x = self.up(x, lambda a, h: attend(a, h, memory, PositionIds(here.query, at), None))
        return self.norm(x)

    def latent_positions(self, length: int) -> Int[Tensor, "1 latent"]:
        """Where the latents stand that a text of this length can read; at least one is kept."""
        span = self.config.span
        used = min(self.config.latents, max(1, length // span))
        return (torch.arange(1, used + 1) * span - 1)[None]

    def _fast(
        self,
        attention: Attention,
        query: QueryRows,
        key: KeyRows,
        position_ids: PositionIds,
        key_padding_mask: Padding,
    ) -> QueryRows:
        """The shortest exact way: a block that attends to itself alone is a row of its own."""
        alone = self.local is not None and attention is self.local.attention
        if alone and position_ids.plain and key_padding_mask is None:
            return self._row_by_block(attention, query)
        return attention.out(*attention.qkv(query, key, position_ids), key_padding_mask)

    def _row_by_block(self, attention: Attention, x: States) -> States:
        """Blocks as rows: `length · span` scores a head instead of `length²`."""
        rows, length, width = x.shape
        span = self.config.span
        short = -length % span
        filled = functional.pad(x, (0, 0, 0, short)).reshape(-1, span, width)
        out = attention.out(*attention.qkv(filled, filled), None)
        return out.reshape(rows, length + short, width)[:, :length]


def _check_positive(name: str, value: Any) -> None:
    if type(value) is not int or value < 1:
        raise UsageError(f"setting {name!r}: must be a whole number from 1, got {value!r}")


def _check_reads(word: Any) -> None:
    if word not in get_args(Reads):
        raise UsageError(f"reads {word!r}: {suggest(str(word), get_args(Reads))}")
