"""Models of the transformers library that are to be trained: opened, cut, redrawn, fingerprinted.

    teacher = open_trainable("smollm2", "cpu")
    student = keep_layers(teacher.library, spaced_layers(30, 5))

smollm2, or any .gguf file of a Llama, is unpacked once into <cache>/made/NAME in float32, since a
model read from GGUF can neither be saved nor trained; later runs find it there. Layers are copied
whole, with the embedding, the last norm and the output.
"""

import copy
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnlab import assets
from attnlab.assets import cache
from attnlab.assets.stream import NoProgress
from attnlab.core.errors import UsageError
from attnlab.core.files import sha256_file, write_json
from attnlab.core.seeds import Seed
from attnlab.models.hub import HubModel, load, quiet


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


def dequantize(gguf: Path, folder: Path) -> Path:
    """The model of a .gguf file as a Hugging Face folder in float32, written once.

    `folder/source.json` names the file's hash: another file is dequantized anew.
    """
    from transformers import LlamaForCausalLM

    source = {"sha256": sha256_file(gguf)}
    stamp = folder / "source.json"
    if stamp.is_file() and json.loads(stamp.read_text(encoding="utf-8")) == source:
        return folder
    loaded = load(gguf)
    config = copy.deepcopy(loaded.library.config)
    if config.model_type != "llama":
        raise UsageError(f"{gguf}: a {config.model_type!r} model, only a Llama can be dequantized")
    config.quantization_config = None
    with quiet():
        model = LlamaForCausalLM(config)
        model.load_state_dict(loaded.library.state_dict())
        model.float().save_pretrained(folder)
        if loaded.tokenizer is not None:
            loaded.tokenizer.library.save_pretrained(folder)
    write_json(stamp, source)  # last: a folder without it is not whole
    return folder


def dequantize_cached(gguf: Path) -> Path:
    """`dequantize` into the cache; the file itself where there is no room (a full disk)."""
    try:  # one process writes, the others wait
        with cache.write_lock(f"made-{gguf.stem}", NoProgress()):
            return dequantize(gguf, cache_dir(gguf.stem))
    except OSError:
        return gguf


def cache_dir(name: str) -> Path:
    """The folder for what is computed once and used by every run: <cache>/made/NAME."""
    return cache.root().parent / "made" / name


def spaced_layers(layers: int, kept: int) -> list[int]:
    """`kept` of `layers` layers, the first and the last among them, evenly spaced."""
    if not 1 <= kept <= layers:
        raise UsageError(f"a student keeps 1 to {layers} of its teacher's layers, not {kept}")
    if kept == 1:
        return [0]
    return [round(i * (layers - 1) / (kept - 1)) for i in range(kept)]


def keep_layers(teacher: Any, layers: Sequence[int]) -> Any:
    """A model with only these of the teacher's layers; its weights are its own."""
    stack = teacher.model.layers
    wrong = [i for i in layers if not 0 <= i < len(stack)]
    if wrong or not layers:
        raise UsageError(f"the teacher has layers 0 to {len(stack) - 1}: {wrong or 'none'} named")
    config = copy.deepcopy(teacher.config)
    config.num_hidden_layers = len(layers)
    if getattr(config, "layer_types", None):
        config.layer_types = [config.layer_types[i] for i in layers]
    student = type(teacher)(config).to(teacher.dtype)
    renamed = ((_new_name(name, layers), t) for name, t in teacher.state_dict().items())
    student.load_state_dict({name: tensor for name, tensor in renamed if name})
    return student


def _new_name(name: str, layers: Sequence[int]) -> str | None:
    """model.layers.7.… -> model.layers.1.… where 7 is the second kept; None: left behind."""
    parts = name.split(".")
    if "layers" not in parts:
        return name
    at = parts.index("layers") + 1
    if int(parts[at]) not in layers:
        return None
    parts[at] = str(list(layers).index(int(parts[at])))
    return ".".join(parts)


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
