"""The shortest exact way to decode a GPT token by token on this machine, where there is one.

On a GPU its steps are a recorded graph, of our own kernels where they apply; what was recorded is
stored for the next text of the same shape. On a CPU a large model runs from packed weights. A GPT-2
or Llama of transformers is decoded as a GPT of ours.
"""

from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from attnlab.decode.fused import FusedGPT, why_not_fused
from attnlab.models.cached import CachedGPT, distinct
from attnlab.models.convert import gpt_from_library, why_not_ours
from attnlab.models.gpt import GPT
from attnlab.models.hub import HubModel
from attnlab.models.packed import packed_maps, why_not_packed
from attnlab.models.static import StaticGPT, why_not_static
from attnlab.parts.cached import why_not_cached

ROUND = 64  # lengths of a recording, so that texts of nearly the same length share it
LARGE = 25_000_000  # parameters of a GPT whose products are worth copies of the weights
WORTH = 16  # steps from which copies of the weights pay: making them takes as long as a few
Shape = tuple[int, int, tuple[int, ...]]  # batch, length, where the weights lie
_RECORDINGS: "WeakKeyDictionary[GPT, tuple[Shape, StaticGPT]]" = WeakKeyDictionary()
_CONVERTED: "WeakKeyDictionary[nn.Module, tuple[tuple[int, ...], GPT]]" = WeakKeyDictionary()


def fast_stepper(model: Any, batch: int, length: int) -> "PackedSteps | StaticGPT | None":
    """Something with `start`, `step` and `take`, or None: the model's own cache then has to do."""
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
    """The library model as a GPT; made once for as long as its weights stay what they are.

    A writing into weights that it shares is seen, and into those that it copied too: both count.
    """
    state = tuple(n for p in library.parameters() for n in (p.data_ptr(), _version(p)))
    stored = _CONVERTED.get(library)
    if stored is None or stored[0] != state:
        stored = state, gpt_from_library(library)
        _CONVERTED[library] = stored
    return stored[1]


def _version(weight: Tensor) -> int:
    return 0 if weight.is_inference() else weight._version


class PackedSteps:
    """A GPT with its cache: equal prompts are read once, and weights are packed for long texts."""

    cached: CachedGPT

    def __init__(self, model: GPT, length: int) -> None:
        self.model, self.length = model, length
        self.packed = False

    def start(self, ids: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Read the prompts; scores after the last position."""
        different, padding, which = distinct(ids, key_padding_mask)
        self.cached = self.model.cached(len(different), self.length)
        mask = padding if bool(padding.any()) else None
        logits = self.cached.step(different, mask, last_only=True)[:, -1]
        self.cached.take(which)
        worth = self.length - ids.shape[1] >= WORTH
        self.packed = worth and why_not_packed(self.model) is None
        return logits[which]

    def step(self, ids: Tensor) -> Tensor:
        """Scores after one more id a row."""
        if not self.packed:
            return self.cached.step(ids[:, None])[:, -1]
        with packed_maps(self.model, len(ids)):
            return self.cached.step(ids[:, None])[:, -1]

    def take(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was."""
        self.cached.take(rows)


def recorded_steps(model: GPT, batch: int, length: int) -> StaticGPT:
    """Steps of this shape: those stored from before, or new ones."""
    length = min(model.context, -(-length // ROUND) * ROUND)
    shape, spare = _RECORDINGS.pop(model, (None, None))  # nobody else has it while it is in use
    if spare is not None and shape == _shape(model, batch, length):
        spare.model = model
        return spare
    kind = StaticGPT if why_not_fused(model) else FusedGPT
    return kind(model, batch, length)


def keep_recording(stepper: Any) -> None:
    """A stepper that is done: its recording serves the next text of that shape."""
    if isinstance(stepper, StaticGPT) and stepper.recorded is not None:
        model, stepper.model = stepper.model, None  # pyright: ignore[reportAttributeAccessIssue]
        _RECORDINGS[model] = (_shape(model, stepper.batch, stepper.length), stepper)


def _shape(model: GPT, batch: int, length: int) -> Shape:
    """A recording reads the weights where they lay: values may change, addresses may not."""
    return batch, length, tuple(p.data_ptr() for p in model.parameters())
