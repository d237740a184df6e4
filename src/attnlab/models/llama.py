"""A Llama one token at a time: keys and values in place, no copies of them, few small steps.

    steps = LlamaSteps(library, batch=8, length=256)
    logits = steps.start(prompts, hidden);   logits = steps.step(ids)      # both (batch, vocab)

Equal to the library's own cached forward, which reads the prompt here. What a step saves: the cache
is written in place instead of being joined anew; queries of one group are rows of one product, so
keys are not repeated for them; turning, norms and masks are not computed again in every layer; a
longer text is worth copies of the weights in the layout of its products (`packed.py`).
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import rms_norm, scaled_dot_product_attention

from attnlab.core.errors import UsageError
from attnlab.models.cached import distinct
from attnlab.models.packed import Map, packed, plain

WORTH = 16  # steps from which copies of the weights pay: making them takes as long as a few
MAPS = 4  # a layer: queries, keys and values; out; gate and up; down


def is_llama(library: Any) -> bool:
    """A plain Llama of transformers: no biases, default rotary positions or scaled ones alike."""
    if type(library).__name__ != "LlamaForCausalLM":
        return False
    config = library.config
    return not config.attention_bias and not config.mlp_bias and config.hidden_act == "silu"


class LlamaSteps:
    """A library model, and room for `length` tokens of `batch` rows."""

    def __init__(self, library: Any, batch: int, length: int) -> None:
        if not is_llama(library):
            raise UsageError(f"{type(library).__name__} is no plain Llama")
        self.library, self.batch, self.length = library, batch, length
        config = library.config
        self.eps, self.heads = config.rms_norm_eps, config.num_attention_heads
        self.groups = config.num_key_value_heads
        self.width = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.layers = list(library.model.layers)
        self.norm, self.table = library.model.norm.weight, library.model.embed_tokens.weight
        self.head = library.lm_head.weight
        shape = (len(self.layers), batch, self.groups, length, self.width)
        self.keys = torch.zeros(shape, dtype=self.table.dtype, device=self.table.device)
        self.values = torch.zeros_like(self.keys)
        self.visible = torch.zeros((batch, length), dtype=torch.bool, device=self.table.device)
        self.padded = False
        self.filled = 0
        self.at = torch.zeros((batch, 1), dtype=torch.int64, device=self.table.device)
        self.maps: list[Map] = []

    @torch.no_grad()
    def start(self, ids: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Read the prompts, padded on the left where `hidden`; equal ones are read once."""
        rows, new = ids.shape
        if rows != self.batch or new > self.length:
            raise UsageError(f"room for {self.batch} × {self.length} ids, got {rows} × {new}")
        read, unseen, which = distinct(ids, hidden)
        real = (~unseen).long()
        at = (real.cumsum(dim=1) - 1).clamp_min(0)
        found = self.library(
            input_ids=read, attention_mask=real, position_ids=at, use_cache=True, logits_to_keep=1
        )
        for layer, kept in enumerate(found.past_key_values.layers):
            self.keys[layer, :, :, :new] = kept.keys[which]
            self.values[layer, :, :, :new] = kept.values[which]
        self.visible[:, :new] = real.bool()[which]
        self.visible[:, new:] = True
        self.padded = bool(unseen.any())
        self.filled, self.at = new, at[which, -1:] + 1
        groups = self._groups()
        worth = self.length - new >= WORTH
        self.maps = packed(self.library, groups, rows) if worth else plain(groups)
        return found.logits[which, -1]

    @torch.no_grad()
    def step(self, ids: Tensor) -> Tensor:
        """Logits after one more id a row."""
        if self.filled >= self.length:
            raise UsageError(f"the cache has room for {self.length} tokens")
        x = functional.embedding(ids.reshape(self.batch), self.table)
        cos, sin = self.library.model.rotary_emb(x[:, None], self.at)
        self.filled += 1
        seen = self.visible[:, None, None, : self.filled] if self.padded else None
        for index, layer in enumerate(self.layers):
            qkv, out, gate_up, down = self.maps[MAPS * index : MAPS * (index + 1)]
            y = rms_norm(x, x.shape[-1:], layer.input_layernorm.weight, self.eps)
            x = x + out(self._attend(index, qkv(y), (cos, sin), seen))
            y = rms_norm(x, x.shape[-1:], layer.post_attention_layernorm.weight, self.eps)
            gate, up = gate_up(y).chunk(2, dim=-1)
            x = x + down(functional.silu(gate).mul_(up))
        self.at = self.at + 1
        return self.maps[-1](rms_norm(x, x.shape[-1:], self.norm, self.eps))

    def take(self, rows: Tensor) -> None:
        """Row i becomes row rows[i] (beams that survive); as many rows as before."""
        if len(rows) != self.batch:
            raise UsageError(f"fixed shapes: {self.batch} rows, got {len(rows)}")
        self.keys = self.keys.index_select(1, rows)
        self.values = self.values.index_select(1, rows)
        self.visible, self.at = self.visible[rows], self.at[rows]

    def _groups(self) -> list[tuple[Tensor, ...]]:
        """The weights of every product of a step, in its order."""
        found: list[tuple[Tensor, ...]] = []
        for layer in self.layers:
            a, m = layer.self_attn, layer.mlp
            found += [
                (a.q_proj.weight, a.k_proj.weight, a.v_proj.weight),
                (a.o_proj.weight,),
                (m.gate_proj.weight, m.up_proj.weight),
                (m.down_proj.weight,),
            ]
        return [*found, (self.head,)]

    def _attend(
        self, index: int, qkv: Tensor, turn: tuple[Tensor, Tensor], seen: Tensor | None
    ) -> Tensor:
        rows, g, d, here = self.batch, self.groups, self.width, self.filled - 1
        heads = qkv.view(rows, -1, d)
        turned = _turned(heads[:, : self.heads + g], *turn)
        self.keys[index, :, :, here] = turned[:, self.heads :]
        self.values[index, :, :, here] = heads[:, self.heads + g :]
        # queries that share a key head stand side by side, as if they were positions
        found = scaled_dot_product_attention(
            turned[:, : self.heads].reshape(rows, g, -1, d),
            self.keys[index, :, :, : self.filled],
            self.values[index, :, :, : self.filled],
            attn_mask=None if seen is None else seen.expand(-1, g, self.heads // g, -1),
            scale=d**-0.5,
        )
        return found.reshape(rows, -1)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary: x cos + (−x₂, x₁) sin, halves as the library splits them."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin
