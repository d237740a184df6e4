"""attnlab.load: a model that somebody trained, in our own parts.

model = load("smollm2");   model.steps(ids)[0].weights;   model.tokenizer.encode("The king")
"""

from pathlib import Path
from typing import TYPE_CHECKING

from attnlab.api.targets import Target, load_target
from attnlab.core.errors import UsageError

if TYPE_CHECKING:
    import torch

    from attnlab.models.gpt import GPT


def load(
    target: str | Path,
    *,
    out: Path = Path("runs"),
    device: str = "cpu",
    dtype: "torch.dtype | None" = None,
) -> "GPT":
    """The model as our own GPT, whose parts can be watched and changed; its tokenizer with it.

    `target` is a run, or anything that holds a GPT-2 or a Llama: `load("smollm2")`, a Hugging Face
    folder, a .gguf file, a name on a hub. Weights keep their type unless `dtype` is given.
    """
    model = to_gpt(load_target(str(target), out, device))
    return model if dtype is None else model.to(dtype)


def to_gpt(found: Target) -> "GPT":
    """The target's model in our own parts, in evaluation mode, with its tokenizer."""
    from attnlab.models.convert import gpt_from_library
    from attnlab.models.gpt import GPT

    library = getattr(found.model, "library", None)
    model = found.model if library is None else getattr(library, "gpt", None)
    if library is not None and not isinstance(model, GPT):
        model = gpt_from_library(library)
    if not isinstance(model, GPT):
        raise UsageError(f"{found.name}: only a GPT is made of our parts, not this model")
    model.tokenizer = getattr(found.reader, "tokenizer", None)
    return model.eval()
