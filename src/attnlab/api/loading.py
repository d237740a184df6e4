"""Load a model by name as our own GPT: `attnlab.load("smollm2")`."""

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
    """Load a model as our own GPT, whose parts can be inspected and changed, with its tokenizer.

    `target` is a run, or anything that holds a GPT-2 or a Llama: `load("smollm2")`, a Hugging Face
    folder, a .gguf file, a hub name. Weights keep their type unless `dtype` is given.
    """
    model = to_gpt(load_target(str(target), out, device))
    return model if dtype is None else model.to(dtype)


def to_gpt(target: Target) -> "GPT":
    """Convert the target's model to our own GPT, in evaluation mode, with its tokenizer."""
    from attnlab.models.convert import gpt_from_library
    from attnlab.models.gpt import GPT

    library = getattr(target.model, "library", None)
    model = target.model if library is None else getattr(library, "gpt", None)
    if library is not None and not isinstance(model, GPT):
        model = gpt_from_library(library)
    if not isinstance(model, GPT):
        raise UsageError(
            f"{target.name}: not a GPT; only a GPT-2 or a Llama can be converted to our parts"
        )
    model.tokenizer = getattr(target.reader, "tokenizer", None)
    return model.eval()
