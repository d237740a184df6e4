"""Fast exact decoding of a GPT, where this machine offers it.

On a GPU a step is a recorded CUDA graph, of our own kernels where they apply; the recording is kept
for the next text of the same shape. On a CPU a large model uses packed weights. A GPT-2 or Llama of
transformers is converted to our own GPT first.
"""

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from attnlab.decode.fused import FusedGPT, why_not_fused
from attnlab.models.cached import CachedGPT, distinct
from attnlab.models.convert import gpt_from_library, why_not_ours
from attnlab.models.gpt import GPT
from attnlab.models.hub import HubModel
from attnlab.models.packed import Written, packed_maps, why_not_packed, written_state
from attnlab.models.static import StaticGPT, why_not_static
from attnlab.parts.cached import why_not_cached

ROUND = 64  # lengths of a recording, so that texts of nearly the same length share it
LARGE = 25_000_000  # parameters of a GPT whose products are worth copies of the weights
WORTH = 16  # steps from which copies of the weights pay: making them takes as long as a few
Shape = tuple[int, int, tuple[int, ...]]  # batch, length, where the weights lie
_RECORDINGS: "WeakKeyDictionary[GPT, tuple[Shape, StaticGPT]]" = WeakKeyDictionary()
_CONVERTED: "WeakKeyDictionary[nn.Module, tuple[Written, GPT]]" = WeakKeyDictionary()


def fast_stepper(model: Any, batch: int, length: int) -> "PackedSteps | StaticGPT | None":
    """A fast stepper (`start`, `step`, `take`) for the model, or None if there is none."""
    if isinstance(model, HubModel) and why_not_ours(model.library) is None:
        model = convert(model.library)
        return fast_stepper(model, batch, length) or PackedSteps(model, length)
    if not isinstance(model, GPT):
        return None
    if model.embedding.is_cuda and why_not_static(model) is None:
        return recorded_steps(model, batch, length)
    cacheable = all(why_not_cached(block.attention) is None for block in model.layers())
    worth = cacheable and model.parameter_count() >= LARGE and why_not_packed(model) is None
    return PackedSteps(model, length) if worth else None


def convert(library: nn.Module) -> GPT:
    """Convert a transformers model to our GPT; converted again only when its weights change."""
    state = written_state(library.parameters())
    stored = _CONVERTED.get(library)
    if stored is None or stored[0] != state:
        stored = state, gpt_from_library(library)
        _CONVERTED[library] = stored
    return stored[1]


@dataclass
class GPTStepper:
    """Our own GPT with a key/value cache (`models/cached.py`)."""

    model: GPT
    length: int
    cached: CachedGPT = field(init=False)

    def start(self, ids: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Read the prompts; logits after the last position."""
        self.cached = self.model.cached(len(ids), self.length)
        return self.cached.step(ids, key_padding_mask)[:, -1]

    def step(self, ids: Tensor) -> Tensor:
        """Append one id to each row; logits after it."""
        return self.cached.step(ids[:, None])[:, -1]

    def take(self, rows: Tensor) -> None:
        """Replace row i by the former row rows[i], for every i."""
        self.cached.take(rows)


@dataclass
class PackedSteps(GPTStepper):
    """The same; equal prompts are read once, and weights are packed for long texts."""

    packed: bool = field(default=False, init=False)

    def start(self, ids: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Read the prompts; logits after the last position."""
        different, padding, which = distinct(ids, key_padding_mask)
        self.cached = self.model.cached(len(different), self.length)
        mask = padding if bool(padding.any()) else None
        logits = self.cached.step(different, mask, last_only=True)[:, -1]
        self.cached.take(which)
        worth = self.length - ids.shape[1] >= WORTH
        self.packed = worth and why_not_packed(self.model) is None
        return logits[which]

    def step(self, ids: Tensor) -> Tensor:
        """Append one id to each row; logits after it."""
        with packed_maps(self.model, len(ids)) if self.packed else nullcontext():
            return super().step(ids)


def recorded_steps(model: GPT, batch: int, length: int) -> StaticGPT:
    """A stepper of this shape: one with a stored recording, or a new one."""
    length = min(model.context, -(-length // ROUND) * ROUND)
    shape, spare = _RECORDINGS.pop(model, (None, None))  # nobody else has it while it is in use
    if spare is not None and shape == _shape(model, batch, length):
        spare.model = model
        return spare
    kind = StaticGPT if why_not_fused(model) else FusedGPT
    return kind(model, batch, length)


def keep_recording(stepper: Any) -> None:
    """Keep the recording of a finished stepper for the next text of the same shape."""
    if isinstance(stepper, StaticGPT) and stepper.recorded is not None:
        model, stepper.model = stepper.model, None  # pyright: ignore[reportAttributeAccessIssue]
        _RECORDINGS[model] = (_shape(model, stepper.batch, stepper.length), stepper)


def _shape(model: GPT, batch: int, length: int) -> Shape:
    """Batch, length and weight addresses: a recording is valid only while these stay the same."""
    return batch, length, tuple(p.data_ptr() for p in model.parameters())
