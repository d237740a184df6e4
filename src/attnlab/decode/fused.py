"""StaticGPT for GPT-2's shape in half precision on a GPU: a step is the kernels of kernels.py.

    steps = FusedGPT(model, batch=64, length=256)
    logits = steps.start(prompts, key_padding_mask)
    ids, logprobs = steps.ahead(logits.argmax(-1), 32)     # 32 steps of greedy, without the host

Equal to `StaticGPT` up to the rounding of half precision; sums are float32 where torch rounds.
"""

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnlab.models.static import StaticGPT
from attnlab.parts.mask import Causal
from attnlab.parts.merge import Concat
from attnlab.parts.mlp import Gelu
from attnlab.parts.norm import Layer, Norm
from attnlab.parts.normalise import Softmax
from attnlab.parts.position import Learned
from attnlab.parts.project import Linear

if TYPE_CHECKING:
    from attnlab.models.block import Block
    from attnlab.models.gpt import GPT

HALF = (torch.bfloat16, torch.float16)
HOPPER = (9, 0)
CHUNK = 128  # inputs at a time on the matrix units; widths are multiples of it
ROW_TILE = 8192  # weights of a program where there are few rows: they fit its registers
MANY = 20_000  # outputs of a vocabulary
FEW = 4  # rows up to which products and sums are faster than matrix units
VOCABULARY = 4096  # logits of a chunk


def why_not_fused(model: "GPT") -> str | None:
    """The reason why the kernels cannot be used for this model, or None."""
    usual = (Linear, Learned, Causal, Softmax, Concat, Layer, Gelu)
    dims = model.config.dims
    if dims.kv_heads != dims.heads or dims.heads * dims.d_head != dims.d_model:
        return "its heads are not those of GPT-2"
    for block in model.layers():
        a = block.attention
        parts = (a.project, a.position, a.mask, a.normalise, a.merge)
        parts += (block.attention_norm, block.feed_forward)
        if any(type(part) is not kind for part, kind in zip(parts, usual, strict=True)):
            return "its parts are not those of GPT-2"
    if model.embedding.dtype not in HALF or not model.embedding.is_cuda:
        return "it is not in half precision on a GPU"
    if dims.d_model % CHUNK or dims.d_mlp % CHUNK:
        return f"its width is no multiple of {CHUNK}"
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    return None


class FusedGPT(StaticGPT):
    """Reads the prompt like StaticGPT and every later token with the kernels."""

    def __init__(self, model: "GPT", batch: int, length: int) -> None:
        super().__init__(model, batch, length)
        config, like = model.config, model.embedding.detach()
        wide = config.dims.d_mlp
        self.x = like.new_zeros(batch, config.d_model)
        self.qkv = like.new_zeros(batch, 3 * config.d_model)
        self.heads = like.new_zeros(batch, config.d_model)
        self.wide = like.new_zeros(batch, wide)
        self.normed = like.new_zeros(batch, config.d_model)
        self.scores = like.new_zeros(batch, model.vocabulary)
        rows, tiles = -(-batch // 16), -(-wide // 16)
        self.parts = like.new_zeros(8, batch, config.d_model, dtype=torch.float32)
        self.counts = torch.zeros(rows * tiles, dtype=torch.int32, device=like.device)
        chunks = -(-model.vocabulary // VOCABULARY)
        self.best = torch.zeros(batch, chunks, 3, device=like.device)
        early = like.is_cuda and torch.cuda.get_device_capability(like.device) >= HOPPER
        self.early = {"EARLY": True, "launch_pdl": True} if early else {"EARLY": False}

    def start(self, ids: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """Read prompts that are left-padded where the mask is True; logits after the last token."""
        logits = super().start(ids, key_padding_mask)
        self.padding[:, ids.shape[1] :] = False  # the kernel knows how many slots are filled
        return logits

    def _run_step(self) -> None:
        _, token_kernels = _kernels()
        model, width = self.model, self.model.config.d_model
        table: Any = model.position
        token_kernels.embed[(self.batch,)](
            self.ids,
            self.at,
            model.embedding,
            table.table,
            self.x,
            WIDTH=width,
            BLOCK=_power(width),
            **self.early,
        )
        for index, block in enumerate(model.layers()):
            self._layer(index, block)
        self.logits = self.scores
        self._linear(Map(model.output_matrix, None, model.norm), self.x, self.logits)
        chunks = self.best.shape[1]
        token_kernels.best_of_chunk[(self.batch, chunks)](
            self.logits, self.best, VOCABULARY=model.vocabulary, CHUNK=VOCABULARY, **self.early
        )
        token_kernels.choose[(self.batch,)](
            self.best,
            self.ids,
            self.at,
            self.slot,
            self.tokens,
            self.logprobs,
            self.written,
            chunks,
            VOCABULARY=model.vocabulary,
            BLOCK=_power(chunks),
            **self.early,
        )

    def _layer(self, index: int, block: "Block") -> None:
        kernels, _ = _kernels()
        attention, feed, project = block.attention, block.feed_forward, block.attention.project
        assert isinstance(project, Linear)
        qkv, merge = project.qkv, attention.merge.out
        heads = self.model.config.heads
        width = self.model.config.d_model // heads
        warps = 8 if self.batch <= FEW else 4  # a row alone waits; many rows fill the machine
        self._linear(Map(qkv.weight, qkv.bias, block.attention_norm), self.x, self.qkv)
        kernels.attend[(self.batch, heads)](
            self.qkv,
            self.keys[index],
            self.values[index],
            self.padding,
            self.slot,
            self.heads,
            attention.scale,
            self.length,
            HEADS=heads,
            WIDTH=width,
            BLOCK=_power(width),
            TIMES=32 * warps,
            num_warps=warps,
            **self.early,
        )
        self._linear(Map(merge.weight, merge.bias), self.heads, self.x, add=True)
        wide = Map(feed.wide.weight, feed.wide.bias, block.feed_forward_norm)
        self._linear(wide, self.x, self.wide, gelu=True)
        self._linear(Map(feed.out.weight, feed.out.bias), self.wide, self.x, add=True)

    def _linear(
        self, of: "Map", x: Tensor, out: Tensor, gelu: bool = False, add: bool = False
    ) -> None:
        """out = W x + b, of norm(x) where there is one; gelu of it; or added to `out`."""
        kernels, _ = _kernels()
        outputs, inputs = of.weight.shape
        flags = {"INPUTS": inputs, "OUTPUTS": outputs, "BIAS": of.bias is not None}
        flags |= {"GELU": gelu, "ADD": add, **self.early}
        normed = {"EPS": self.model.config.norm_eps, "SHIFT": of.has_bias, "BLOCK": _power(inputs)}
        bias = of.weight if of.bias is None else of.bias  # a place that is not read
        if self.batch <= FEW:
            tile = min(8, max(1, ROW_TILE // normed["BLOCK"]))
            kernels.few_rows[(-(-outputs // tile), self.batch)](
                x,
                *of.of_norm,
                of.weight,
                bias,
                out,
                NORM=of.norm is not None,
                TILE=tile,
                num_warps=2 if normed["BLOCK"] <= ROW_TILE // 8 else 8,
                **normed,
                **flags,
            )
            return
        if of.norm is not None:
            kernels.norm[(self.batch,)](
                x, *of.of_norm, self.normed, INPUTS=inputs, **normed, **self.early
            )
            x = self.normed
        rows, shape = max(16, min(64, _power(self.batch))), _tiles(inputs, outputs)
        grid = (-(-outputs // shape["TILE"]), -(-self.batch // rows), shape["SPLIT"])
        kernels.many_rows[grid](
            x,
            of.weight,
            bias,
            out,
            self.parts,
            self.counts,
            self.batch,
            ROWS=rows,
            **shape,
            **flags,
        )


def _tiles(inputs: int, outputs: int) -> dict[str, int]:
    """Tile sizes that were fastest on an H200 for 64 rows, for GPT-2's five matrix products."""
    if outputs > MANY:
        return {"TILE": 128, "CHUNK": 64, "SPLIT": 1, "num_stages": 3}
    split = 4 if inputs > outputs and inputs % (4 * CHUNK) == 0 else 1
    tile = 16 if inputs == outputs else 32
    return {"TILE": tile, "CHUNK": CHUNK, "SPLIT": split, "num_stages": 5}


@dataclass(frozen=True)
class Map:
    """A linear map and the layer norm before it, if there is one."""

    weight: Tensor
    bias: Tensor | None
    norm: Norm | None = None

    @property
    def has_bias(self) -> bool:
        """Whether the norm has a bias."""
        return self.norm is not None and self.norm.bias is not None

    @property
    def of_norm(self) -> tuple[Tensor, Tensor]:
        """Gain and bias of the norm; the weight stands in for a missing one and is not read."""
        gain = self.weight if self.norm is None else self.norm.weight
        shift = None if self.norm is None else self.norm.bias
        return gain, self.weight if shift is None else shift


def _kernels() -> tuple[Any, Any]:
    """Those of layers and those of tokens; torch installs triton only on machines with a GPU."""
    from attnlab.decode import kernels, token_kernels

    return kernels, token_kernels


def _power(number: int) -> int:
    """The smallest power of two that is at least `number`."""
    return 1 << (number - 1).bit_length()
