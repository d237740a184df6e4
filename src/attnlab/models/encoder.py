"""An encoder with a linear head: logits(text) = W · pooled(encoder(text)) + b.

    open_encoder("minilm-l6")      an asset, a Hugging Face folder, or a name on a hub
    Classifier(encoder, classes, generator)

W has classes · d + classes numbers (2d + 2), whatever head the checkpoint brings. Pooled is the
mean over the text's own tokens, padding and trained vectors left out; or its first token. What an
adapter adds (`extra`) is put before the text, as vectors at the input or as keys and values.
"""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from attnlab import assets
from attnlab.assets.hub import is_encoder_name
from attnlab.core.errors import IntegrityError, UsageError
from attnlab.core.files import sha256_file, sha256_files
from attnlab.models.hub import load_whole, quiet, safe_options, translate_errors
from attnlab.models.weights import weight_files

Pooling = Literal["mean", "first", "virtual"]
NO_LIMIT = 1 << 30  # what tokenizers say when they know no longest text is more than this


class Texts(NamedTuple):
    """A batch: ids, which are padding, which text of a pair each belongs to, and the classes."""

    ids: Tensor
    key_padding_mask: Tensor
    kinds: Tensor | None
    labels: Tensor


@dataclass(frozen=True)
class Encoder:
    """A pretrained encoder without its head, its tokenizer, and which bytes its weights are."""

    name: str
    library: Any
    tokenizer: Any
    sha256: str

    @property
    def width(self) -> int:
        """d: numbers of a token's vector."""
        return int(self.library.config.hidden_size)

    @property
    def layers(self) -> int:
        """How many layers it has."""
        return int(self.library.config.num_hidden_layers)

    @property
    def context(self) -> int:
        """The longest text in tokens, markers included."""
        config = self.library.config
        most = int(getattr(config, "max_position_embeddings", None) or 512)
        if config.model_type in ("roberta", "xlm-roberta", "camembert"):
            most -= int(config.pad_token_id) + 1  # its positions count from there
        stated = int(min(self.tokenizer.model_max_length, NO_LIMIT))
        return min(most, stated)


class Classifier(nn.Module):
    """The encoder, perhaps with what an adapter adds, pooled, and a linear head.

    Parameters that do not learn are not part of its state: they are the base model's own.
    """

    encoder: Any
    extra: Any  # the `Prefix` of training/tune.py, or None
    pooling: Pooling

    def __init__(
        self, encoder: Encoder, classes: int, generator: torch.Generator, pooling: Pooling = "mean"
    ) -> None:
        super().__init__()
        if classes < 2:
            raise UsageError(f"a classifier needs two classes, not {classes}")
        self.base, self.pooling, self.classes = encoder, pooling, classes
        self.encoder, self.extra = encoder.library, None
        linear: Any = nn.utils.skip_init(nn.Linear, encoder.width, classes)  # drawn below
        self.head: nn.Linear = linear
        with torch.no_grad():
            self.head.weight.normal_(0.0, 0.02, generator=generator)  # BERT's own
            self.head.bias.zero_()
        self._takes_kinds = "token_type_ids" in inspect.signature(self.encoder.forward).parameters
        self.register_state_dict_post_hook(_without_frozen)

    def forward(self, ids: Tensor, key_padding_mask: Tensor, kinds: Tensor | None = None) -> Tensor:
        """Logits (rows, classes)."""
        return self.head(self.pooled(ids, key_padding_mask, kinds))

    def pooled(self, ids: Tensor, key_padding_mask: Tensor, kinds: Tensor | None = None) -> Tensor:
        """One vector a text."""
        visible, lead = (~key_padding_mask).long(), 0
        options: dict[str, Any] = {"input_ids": ids}
        if self.extra is not None:
            before = self.extra.length
            visible = nn.functional.pad(visible, (before, 0), value=1)
            added = self.extra.vectors(len(ids))
            if added is None:
                options["past_key_values"] = self.extra.past(len(ids))
            else:  # they come back in front of the text
                words = self.encoder.get_input_embeddings()(ids)
                options = {"inputs_embeds": torch.cat([added, words], dim=1)}
                lead = before
                kinds = None if kinds is None else nn.functional.pad(kinds, (lead, 0))
        if kinds is not None and self._takes_kinds:
            options["token_type_ids"] = kinds
        states = self.encoder(attention_mask=visible, **options).last_hidden_state
        if self.pooling == "virtual" and lead:
            return states[:, 0]
        return pool(states[:, lead:], key_padding_mask, self.pooling)


def pool(states: Tensor, key_padding_mask: Tensor, pooling: Pooling) -> Tensor:
    """Σ visible / number of visible, or the first visible."""
    if pooling != "mean":
        first = (~key_padding_mask).long().argmax(dim=1)
        return states[torch.arange(len(states), device=states.device), first]
    weights = (~key_padding_mask).to(states.dtype)[:, :, None]
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp_min(1)


def open_encoder(target: str | Path = "minilm-l6") -> Encoder:
    """The encoder of an asset, a Hugging Face folder, or a hub's name; safetensors only."""
    name, path = str(target), Path(target)
    if path.is_dir():
        name = path.resolve().name
    elif name in assets.names():
        path = assets.get(name).path
    elif is_encoder_name(name):
        path = assets.get(name, source="hub").path
    else:
        raise UsageError(f"{target}: no such folder, asset, or owner/name of a hub")
    if not (path / "config.json").is_file():
        raise UsageError(f"{target}: no model is there (no config.json)")
    options = safe_options(path)
    with translate_errors(name), quiet():
        library, tokenizer = _load_library(path, options)
    return Encoder(name, library.eval(), tokenizer, weights_sha256(path))


def weights_sha256(folder: Path) -> str:
    """SHA-256 of the one file of weights, or of the shards' own one after the other."""
    files = weight_files(folder)
    return sha256_file(files[0]) if len(files) == 1 else sha256_files(files)


def _load_library(path: Path, options: dict[str, Any]) -> tuple[Any, Any]:
    from transformers import AutoModel, AutoTokenizer

    library = load_whole(AutoModel, path, without="pooler", dtype=torch.float32, **options)
    if getattr(library.config, "is_decoder", False) or library.config.is_encoder_decoder:
        raise UsageError(f"{path}: a {library.config.model_type!r} is no encoder")
    if getattr(library, "pooler", None) is not None:
        library.pooler = None  # nothing reads it, so nothing in it would learn
    tokenizer: Any = AutoTokenizer.from_pretrained(path)
    if not tokenizer.is_fast:
        raise UsageError(f"{path}: its tokenizer cannot say where a token stands in a text")
    if len(tokenizer) > library.config.vocab_size:
        raise IntegrityError(f"{path}: {len(tokenizer)} tokens, {library.config.vocab_size} rows")
    return library, tokenizer


def _without_frozen(module: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    for name, parameter in module.named_parameters(
        prefix.removesuffix("."), remove_duplicate=False
    ):
        if not parameter.requires_grad:
            state.pop(name, None)
