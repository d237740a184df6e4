"""Models of the transformers library that are to be trained: opened, redrawn, fingerprinted.

smollm2, or any .gguf file of a Llama, is unpacked once into <cache>/made/NAME in float32, since a
model read from GGUF can neither be saved nor trained; later runs find it there.
"""

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnlab import assets
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.models.gguf import dequantize_cached
from attnlab.models.hub import HubModel, load


def open_trainable(name: str, device: str) -> HubModel:
    """An asset, a folder, a .gguf file or a hub name, with its tokenizer, in float32."""
    path: str | Path = name
    if name == "smollm2":
        (path,) = assets.get(name).files
    if Path(path).is_file():
        path = dequantize_cached(Path(path))
    model = load(path, device=device)
    if model.tokenizer is None:
        raise UsageError(f"{model.name} has no tokenizer, so it cannot read text")
    return HubModel(name if name == "smollm2" else model.name, model.library, model.tokenizer)


@torch.no_grad()
def redraw_weights(library: Any, seed: Seed) -> Any:
    """Redraw every weight in place: matrices N(0, initializer_range²), norms 1, biases 0."""
    for name, tensor in library.named_parameters():
        if tensor.ndim >= 2:
            spread = getattr(library.config, "initializer_range", 0.02)
            generator = seed.child("weights", name).torch_generator()
            tensor.copy_(spread * torch.randn(tensor.shape, generator=generator))
        else:
            tensor.fill_(0.0 if name.endswith("bias") else 1.0)
    return library


def end_ids(model: HubModel) -> set[int]:
    """The ids that end a text: the tokenizer's, and those the model's generation settings name."""
    named: Any = getattr(getattr(model.library, "generation_config", None), "eos_token_id", None)
    stop = model.tokenizer.stop if model.tokenizer else None
    ids = {named} if isinstance(named, int) else set(named or ())
    return ids | ({stop} if stop is not None else set())


def weights_sha256(library: nn.Module) -> str:
    """SHA-256 over the names and bits of all weights, to see whether a model has changed."""
    digest = hashlib.sha256()
    for name, tensor in sorted(library.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
