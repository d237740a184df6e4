"""A transformers model as a Subject: its own mask, positions, cache and files."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.probing.call_convention import (
    TRIED_CONTEXTS,
    extract_logits,
    longest_input,
    runs,
)
from attnlab.audit.probing.subject import AttentionMask, Subject
from attnlab.core.errors import UsageError
from attnlab.models.hub import quiet

CACHES = ("past_key_values", "cache_params", "state")  # what the library calls a cache


def transformers_subject(library: Any, name: str, special: tuple[int, ...] = ()) -> Subject:
    """Wrap a transformers model; `special` are the ids that its tokenizer marks texts with."""
    settings = library.config.get_text_config()
    known = inspect.signature(library.forward).parameters
    forward = partial(_call_library, library, frozenset(known), name)
    vocabulary = getattr(settings, "vocab_size", 0) or library.get_input_embeddings().num_embeddings
    context = int(getattr(settings, "max_position_embeddings", 0) or TRIED_CONTEXTS[0])
    pad = getattr(settings, "pad_token_id", None)
    packed = getattr(library, "quantization_method", None)
    with torch.no_grad():
        probe = forward(torch.ones(1, 3, dtype=torch.long, device=library.device), None)
        if context <= TRIED_CONTEXTS[0] and not runs(forward, context):
            context = longest_input(forward)  # some positions are reserved for padding
    return Subject(
        name,
        forward,
        int(vocabulary),
        context,
        library,
        takes_mask="attention_mask" in known,
        causal=_claims_causal(library),
        per_position=probe.shape[1] == 3,
        cache=_cache_of(library, frozenset(known)),
        rewrap=lambda made: transformers_subject(_use_eager_experts(made), name, special),
        save_load=partial(_save_load, library, name, special) if packed is None else None,
        unsaved="its weights were unpacked from another format, such as GGUF",
        special=special,
        pad=pad if isinstance(pad, int) and 0 <= pad < vocabulary else None,
    )


def _use_eager_experts(library: Any) -> Any:
    """Switch to eager experts: fused ones do not run in float64."""
    choose = getattr(library, "set_experts_implementation", None)
    if callable(choose):
        with suppress(Exception):  # a model without experts may refuse
            choose("eager")
    return library


def _call_library(
    library: Any, known: Any, name: str, ids: Tensor, attention_mask: AttentionMask
) -> Tensor:
    more: dict[str, Any] = {"use_cache": False} if "use_cache" in known else {}
    if attention_mask is not None:
        more["attention_mask"] = attention_mask.long()
        if "position_ids" in known:  # transformers counts left padding as text
            more["position_ids"] = (attention_mask.long().cumsum(dim=1) - 1).clamp_min(0)
    with _restore_submodules(library):
        return extract_logits(library(input_ids=ids, **more), ids, name)


@contextmanager
def _restore_submodules(library: nn.Module) -> Iterator[None]:
    """Undo a forward's changes of submodules: BigBird drops its sparse attention on short texts."""
    before = {m: (dict(vars(m)), dict(vars(m)["_modules"])) for m in library.modules()}
    try:
        yield
    finally:
        if any(vars(m)["_modules"] != parts for m, (_, parts) in before.items()):
            for m, (attributes, parts) in before.items():
                vars(m).update(attributes)
                vars(m)["_modules"].update(parts)


def _cache_of(library: Any, known: frozenset[str]) -> Any:
    """Decode chunks through the model's cache, under the argument name this class has for it."""
    word = next((word for word in CACHES if word in known), None)

    def cache(chunks: Sequence[Tensor]) -> list[Tensor]:
        past, logits, done = None, [], 0
        for chunk in chunks:
            done += chunk.shape[1]
            more: dict[str, Any] = {str(word): past}
            if word == CACHES[0] and "attention_mask" in known:  # a state knows no earlier tokens
                more["attention_mask"] = torch.ones_like(chunk[:, :1]).expand(-1, done)
            out = library(input_ids=chunk, use_cache=True, **more)
            if (past := getattr(out, str(word), None)) is None:
                raise UsageError("its forward returns no cache")
            logits.append(out.logits)
        return logits

    return None if word is None else _restore_submodules(library)(cache)


def _save_load(library: Any, name: str, special: tuple[int, ...]) -> Subject:
    with TemporaryDirectory() as folder, quiet():
        library.save_pretrained(folder)
        again = type(library).from_pretrained(folder, dtype=library.dtype)
    return transformers_subject(_copy_weights(again.eval()), name, special)


@torch.no_grad()
def _copy_weights(library: nn.Module) -> nn.Module:
    """Copy weights out of the mapped file: products of unaligned memory round differently."""
    copies: dict[tuple[int, torch.Size, tuple[int, ...]], Tensor] = {}
    for item in (*library.parameters(), *library.buffers()):
        key = (item.data_ptr(), item.shape, item.stride())
        item.data = copies.setdefault(key, item.data.clone()) if item.numel() else item.data
    return library


def _claims_causal(library: Any) -> bool:
    """Whether transformers lists the class as a causal language model, or its name says so."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    name = type(library).__name__
    masked = "MaskedLM" in name
    listed = name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values() or "CausalLM" in name
    mapped = "AutoModelForCausalLM" in (getattr(library.config, "auto_map", None) or {})
    return not masked and (listed or mapped or name == "AttnlabGPT")
