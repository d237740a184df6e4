"""A GPT one token at a time in fixed shapes, so that a GPU can record a step and replay it.

    steps = StaticGPT(model, batch=8, length=256)
    logits = steps.start(prompts, key_padding_mask);   logits = steps.step(ids)   # (batch, vocab)

Equal to `CachedGPT`: slots that hold nothing yet are masked like padding. A step then has the same
shapes every time, so on a GPU its kernels are recorded once and replayed without the host, whose
work for them takes ten times as long as the kernels do.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from attnlab.core.errors import UsageError
from attnlab.models.block import States
from attnlab.models.loss import pad_rows
from attnlab.parts.attention import Attention
from attnlab.parts.cached import why_not_cached
from attnlab.parts.fast import fused_bias, fused_heads, is_fast
from attnlab.parts.part import PositionIds

if TYPE_CHECKING:
    from attnlab.models.gpt import GPT

WARM_UP = 3  # steps before a recording: libraries choose their kernels in them


def why_not_static(model: "GPT") -> str | None:
    """Why the fused product does not apply in every layer; None when it does."""
    for block in model.layers():
        attention = block.attention
        if reason := why_not_cached(attention):
            return reason
        if not is_fast(attention.position, attention.normalise):
            return "its attention is no fused product"
    return None


class StaticGPT:
    """A model, and room for `length` tokens of `batch` rows."""

    def __init__(self, model: "GPT", batch: int, length: int) -> None:
        if reason := why_not_static(model):
            raise UsageError(f"this model cannot be decoded in fixed shapes: {reason}")
        model.check_length(length)
        self.model, self.batch, self.length = model, batch, length
        weights = model.embedding
        dims = model.config.dims
        shape = (model.config.layers, batch, dims.kv_heads, length, dims.d_head)
        self.keys = torch.zeros(shape, dtype=weights.dtype, device=weights.device)
        self.values = torch.zeros_like(self.keys)
        self.position_ids = torch.zeros((batch, length), dtype=torch.int64, device=weights.device)
        self.padding = torch.ones((batch, length), dtype=torch.bool, device=weights.device)
        self.at = torch.zeros((batch, 1), dtype=torch.int64, device=weights.device)
        self.slot = torch.zeros(1, dtype=torch.int64, device=weights.device)
        self.filled = 0
        self.ids = torch.zeros((batch, 1), dtype=torch.int64, device=weights.device)
        # what was likeliest after every step, for whoever goes on with it
        self.tokens = torch.zeros((length, batch), dtype=torch.int64, device=weights.device)
        self.logprobs = torch.zeros((length, batch), device=weights.device)
        self.written = torch.zeros(batch, dtype=torch.int64, device=weights.device)
        self.steps = 0
        # on a GPU, 50,257 rows cost five times as much as 50,304
        self.head = pad_rows(model.output_matrix.detach())
        self.recorded: torch.cuda.CUDAGraph | None = None
        self.logits = torch.empty(0)

    @torch.no_grad()
    def start(self, ids: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """Read prompts padded on the left where the mask is True; logits after the last one."""
        rows, new = ids.shape
        if rows != self.batch or new > self.length:
            raise UsageError(f"room for {self.batch} × {self.length} ids, got {rows} × {new}")
        self.padding.fill_(True)
        visible = torch.ones_like(ids) if key_padding_mask is None else (~key_padding_mask).long()
        slots = torch.arange(new, device=ids.device)
        at = visible.cumsum(dim=1) - 1
        logits = self._read(ids, at, slots, visible == 0)
        self.at.copy_(at[:, -1:] + 1)
        self.slot.fill_(new)
        self.written.zero_()
        self.filled, self.steps = new, 0
        return logits

    def step(self, ids: Tensor) -> Tensor:
        """Logits after one more id a row, (batch, 1) or (batch,); overwritten by the next step."""
        self.ids.copy_(ids.reshape(self.batch, 1))
        self._run_steps(1)
        return self.logits

    def ahead(self, ids: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Go on `count` times, each time with the likeliest id: (count, batch) of it and log p.

        `ids` come first. The host does not wait; the answers are valid until the next `start`.
        """
        self.ids.copy_(ids.reshape(self.batch, 1))
        first = self.steps
        self._run_steps(count)
        return self.tokens[first : self.steps], self.logprobs[first : self.steps]

    @torch.no_grad()
    def _run_steps(self, count: int) -> None:
        if self.filled + count > self.length:
            raise UsageError(f"the cache has room for {self.length} tokens")
        self.filled += count
        self.steps += count
        if self.ids.device.type != "cuda":
            for _ in range(count):
                self._run_step()
            return
        if self.recorded is None:
            self._record()
        assert self.recorded is not None
        for _ in range(count):
            self.recorded.replay()

    def take(self, rows: Tensor) -> None:
        """Row i becomes row rows[i] (beams that survive); as many rows as before."""
        if len(rows) != self.batch:
            raise UsageError(f"fixed shapes: {self.batch} rows, got {len(rows)}")
        for kept in (self.keys, self.values):
            kept.copy_(kept.index_select(1, rows))
        for kept in (self.position_ids, self.padding, self.at):
            kept.copy_(kept.index_select(0, rows))

    def _run_step(self) -> None:
        """One step: read `ids`; the likeliest are the next ones, unless others are given."""
        unseen = torch.zeros_like(self.ids, dtype=torch.bool)
        self.logits = self._read(self.ids, self.at, self.slot, unseen)
        wide = self.logits.float()
        best = wide.argmax(dim=-1)
        logprobs = wide.gather(1, best[:, None])[:, 0] - wide.logsumexp(dim=-1)
        self.tokens.index_copy_(0, self.written[:1], best[None])
        self.logprobs.index_copy_(0, self.written[:1], logprobs[None])
        self.ids.copy_(best[:, None])
        for counted in (self.at, self.slot, self.written):
            counted += 1

    def _read(self, ids: Tensor, at: Tensor, slots: Tensor, unseen: Tensor) -> Tensor:
        """Put the new ids into their slots and attend from them to everything that is visible."""
        self.position_ids.index_copy_(1, slots, at)
        self.padding.index_copy_(1, slots, unseen)
        new, among_all = PositionIds(at, at), PositionIds(at, self.position_ids)
        layer, bias = 0, None

        def attend(attention: Attention, x: States) -> States:
            nonlocal layer, bias
            q, k, v, _ = attention.qkv(x, x, new)
            keys, values = self.keys[layer], self.values[layer]
            keys.index_copy_(2, slots, k)
            values.index_copy_(2, slots, v)
            layer += 1
            if bias is None:  # the same in every layer: it depends on positions and padding only
                bias = fused_bias(q, attention.mask, attention.position, among_all, self.padding)
            heads = fused_heads(q, keys, values, bias, is_causal=False, scale=attention.scale)
            return attention.merge(heads)

        x = self.model.through(ids, new, attend)
        return functional.linear(x[:, -1], self.head)[:, : self.model.vocabulary]

    def _record(self) -> None:
        """Run a few steps aside, put everything back, and record one."""
        changed = (self.at, self.slot, self.padding, self.position_ids, self.written, self.ids)
        kept = [t.clone() for t in changed]

        def restore() -> None:
            for now, before in zip(changed, kept, strict=True):
                now.copy_(before)

        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP):
                self._run_step()
                restore()
        torch.cuda.current_stream().wait_stream(aside)
        self.recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.recorded):
            self._run_step()
        restore()
