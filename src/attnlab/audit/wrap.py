"""Anything that maps ids to logits, as a Subject: our GPT, a transformers model, a function.

A padding mask is passed under the name the forward gives it; positions are counted from the first
real token where the forward accepts them.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from torch import Tensor, nn

from attnlab.audit.subject import Subject, Visible
from attnlab.core.errors import UsageError
from attnlab.models.function import FunctionModel
from attnlab.models.gpt import GPT
from attnlab.models.hub import HubModel, quiet

REAL = ("attention_mask", "mask", "visible")  # names of masks in which 1 is a real token
PADDED = ("hidden", "key_padding_mask", "padding_mask", "pad_mask")  # … in which True is padding
FIELDS = ("logits", "prediction_logits", "last_hidden_state")
CACHES = ("past_key_values", "cache_params", "state")  # what the library calls a cache
LENGTHS = (2048, 1024, 512, 256, 128, 64, 32, 16, 8)  # tried where no context is stated


def subject_of(model: Any, name: str | None = None) -> Subject:
    """Wrap a model; one that is wrapped already stays as it is."""
    if isinstance(model, Subject):
        return model
    if isinstance(model, HubModel):
        return _transformers(model.library, name or model.name, _special(model))
    if isinstance(model, FunctionModel):
        inner = model.function
        return (subject_of if isinstance(inner, nn.Module) else _callable)(
            inner, name or model.name
        )
    if isinstance(model, GPT):
        return _gpt(model, name or model.name)
    pretrained = hasattr(model, "config") and hasattr(model, "save_pretrained")
    if isinstance(model, nn.Module) and pretrained:
        return _transformers(model, name or type(model).__name__)
    if isinstance(model, nn.Module):
        return _module(model, name or type(model).__name__)
    if callable(model):
        return _callable(model, name or getattr(model, "__name__", "function"))
    raise UsageError(f"{type(model).__name__} is no model: give a module or a function of ids")


def _special(model: HubModel) -> tuple[int, ...]:
    ids = () if model.tokenizer is None else model.tokenizer.library.all_special_ids
    return tuple(i for i in ids if i is not None and 0 <= i < model.vocabulary)


def unwrapped(found: Any, ids: Tensor, name: str) -> Tensor:
    """A tensor out of a tensor, a tuple or an object; one answer a row becomes one position."""
    for field in FIELDS:
        inner = getattr(found, field, None)
        if isinstance(inner, Tensor):
            found = inner
            break
    if isinstance(found, tuple | list) and found:
        found = found[0]
    if not isinstance(found, Tensor) or not (
        found.is_floating_point() and found.ndim in (2, 3) and found.shape[0] == ids.shape[0]
    ):
        shape = tuple(getattr(found, "shape", ())) or type(found).__name__
        raise UsageError(f"{name}: must give logits (batch, length, vocabulary), gave {shape}")
    return found[:, None] if found.ndim == 2 else found


def _callable(function: Callable[..., Any], name: str) -> Subject:
    """A function: what it answers is all there is."""
    forward = _forward(function, name)
    width, per_position, context = _shape(forward, name)
    takes = _mask_name(function) is not None
    return Subject(name, forward, width, context, None, takes, True, per_position)


def _module(module: nn.Module, name: str) -> Subject:
    """Anyone's module; the ids it knows are bounded by its embedding too."""
    forward = _forward(module, name)
    with torch.no_grad():
        was = module.training
        module.eval()
        try:
            width, per_position, context = _shape(forward, name)
        finally:
            module.train(was)
    tables = [m.num_embeddings for m in module.modules() if isinstance(m, nn.Embedding)]
    known = width if width in tables or not tables else min(width, max(tables))
    takes = _mask_name(module.forward) is not None
    return Subject(
        name, forward, known, context, module, takes, True, per_position,
        rewrap=partial(_module, name=name), cache=_own_cache(module),
        save_load=_own_save_load(module, name),
    )  # fmt: skip


def _own_cache(module: nn.Module) -> Any:
    """`forward(ids, cache=…)` → (logits, cache) is no standard: only a method `cached` is used."""
    step = getattr(module, "cached", None)
    return step if callable(step) else None


def _own_save_load(module: nn.Module, name: str) -> Any:
    """A method `save_load()` that gives the module after a round trip through its own files."""
    again = getattr(module, "save_load", None)
    return (lambda: subject_of(again(), name)) if callable(again) else None


def _mask_name(function: Any) -> str | None:
    try:
        known = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    return next((word for word in (*REAL, *PADDED) if word in known), None)


def _forward(function: Callable[..., Any], name: str) -> Callable[[Tensor, Visible], Tensor]:
    mask = _mask_name(function.forward if isinstance(function, nn.Module) else function)

    def forward(ids: Tensor, visible: Visible) -> Tensor:
        more = {}
        if mask is not None and visible is not None:
            more = {mask: visible.long() if mask in REAL else ~visible}
        return unwrapped(function(ids, **more), ids, name)

    return forward


def _shape(forward: Callable[[Tensor, Visible], Tensor], name: str) -> tuple[int, bool, int]:
    """Width of the answers, whether every position gets one, and the longest input that runs."""
    try:
        with torch.no_grad():
            found = forward(torch.zeros(1, 3, dtype=torch.long), None)
    except UsageError:
        raise
    except Exception as error:  # anyone's code
        raise UsageError(f"{name}: {type(error).__name__}: {str(error)[:200]}") from error
    return found.shape[-1], found.shape[1] == 3, _longest(forward)


def _longest(forward: Callable[[Tensor, Visible], Tensor]) -> int:
    """By halving: too long for a table of positions, or for anything else, is an error."""
    low, high = 3, LENGTHS[0] + 1
    for length in LENGTHS:
        if _runs(forward, length):
            low = length
            break
        high = length
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _runs(forward, middle) else (low, middle)
    return low


def _runs(forward: Callable[[Tensor, Visible], Tensor], length: int) -> bool:
    try:
        with torch.no_grad():
            forward(torch.zeros(1, length, dtype=torch.long), None)
    except Exception:  # anyone's code
        return False
    return True


def _gpt(model: GPT, name: str) -> Subject:
    """Ours: hidden is padding, and the cached step is made from the same attention."""

    def forward(ids: Tensor, visible: Visible) -> Tensor:
        return model(ids, None if visible is None else ~visible)

    def cache(chunks: Sequence[Tensor]) -> list[Tensor]:
        cached = model.cached(chunks[0].shape[0], sum(c.shape[1] for c in chunks))
        return [cached.step(chunk) for chunk in chunks]

    def save_load() -> Subject:
        from attnlab.models.hugging_face import export, load

        with TemporaryDirectory() as folder:
            export(model, None, Path(folder))
            return subject_of(load(Path(folder)), name)

    return Subject(
        name, forward, model.vocabulary, model.context, model, takes_mask=True, cache=cache,
        rewrap=lambda made: _gpt(cast(GPT, made), name), save_load=save_load,
    )  # fmt: skip


def _transformers(library: Any, name: str, special: tuple[int, ...] = ()) -> Subject:
    """A transformers model: its own mask, positions and cache."""
    settings = library.config.get_text_config()
    known = inspect.signature(library.forward).parameters
    forward = partial(_ask_library, library, frozenset(known), name)
    vocabulary = getattr(settings, "vocab_size", 0) or library.get_input_embeddings().num_embeddings
    context = int(getattr(settings, "max_position_embeddings", 0) or LENGTHS[0])
    pad = getattr(settings, "pad_token_id", None)
    with torch.no_grad():
        probe = forward(torch.ones(1, 3, dtype=torch.long, device=library.device), None)
        if context <= LENGTHS[0] and not _runs(forward, context):  # some places are kept for pads
            context = _longest(forward)
    return Subject(
        name, forward, int(vocabulary), context, library,
        takes_mask="attention_mask" in known, causal=_claims_causal(library),
        per_position=probe.shape[1] == 3, cache=_cache_of(library, frozenset(known)),
        rewrap=lambda made: _transformers(_plain_experts(made), name, special),
        save_load=_round_trip(library, name, special), special=special,
        pad=pad if isinstance(pad, int) and 0 <= pad < vocabulary else None,
    )  # fmt: skip


def _plain_experts(library: Any) -> Any:
    """Fused experts know no float64."""
    choose = getattr(library, "set_experts_implementation", None)
    if callable(choose):
        with suppress(Exception):  # a model without experts may refuse
            choose("eager")
    return library


def _ask_library(library: Any, known: Any, name: str, ids: Tensor, visible: Visible) -> Tensor:
    more: dict[str, Any] = {"use_cache": False} if "use_cache" in known else {}
    if visible is not None:
        more["attention_mask"] = visible.long()
        if "position_ids" in known:  # the library counts padding on the left as text
            more["position_ids"] = (visible.long().cumsum(dim=1) - 1).clamp_min(0)
    with _wired_as_before(library):
        return unwrapped(library(input_ids=ids, **more), ids, name)


@contextmanager
def _wired_as_before(library: nn.Module) -> Iterator[None]:
    """Put back parts a forward exchanges: BigBird drops its sparse attention at a short text."""
    before = {m: (dict(vars(m)), dict(vars(m)["_modules"])) for m in library.modules()}
    try:
        yield
    finally:
        if any(vars(m)["_modules"] != parts for m, (_, parts) in before.items()):
            for m, (own, parts) in before.items():
                vars(m).update(own)
                vars(m)["_modules"].update(parts)


def _cache_of(library: Any, known: frozenset[str]) -> Any:
    """Chunks through the library's own cache, under the name this class gives it."""
    word = next((word for word in CACHES if word in known), None)

    def cache(chunks: Sequence[Tensor]) -> list[Tensor]:
        kept, found, done = None, [], 0
        for chunk in chunks:
            done += chunk.shape[1]
            more: dict[str, Any] = {str(word): kept}
            if word == CACHES[0] and "attention_mask" in known:  # a state knows no earlier tokens
                more["attention_mask"] = torch.ones_like(chunk[:, :1]).expand(-1, done)
            out = library(input_ids=chunk, use_cache=True, **more)
            if (kept := getattr(out, str(word), None)) is None:
                raise UsageError("it gives no cache back")
            found.append(out.logits)
        return found

    return None if word is None else _wired_as_before(library)(cache)


def _round_trip(library: Any, name: str, special: tuple[int, ...]) -> Any:
    """None for weights that were unpacked from a file of another kind, GGUF say."""
    if getattr(library, "quantization_method", None) is not None:
        return None
    return partial(_saved_library, library, name, special)


def _saved_library(library: Any, name: str, special: tuple[int, ...]) -> Subject:
    with TemporaryDirectory() as folder, quiet():
        library.save_pretrained(folder)
        again = type(library).from_pretrained(folder, dtype=library.dtype)
    return _transformers(_aligned(again.eval()), name, special)


@torch.no_grad()
def _aligned(library: nn.Module) -> nn.Module:
    """In memory of their own: in a mapped file weights lie askew, and products round otherwise."""
    moved: dict[tuple[int, torch.Size, tuple[int, ...]], Tensor] = {}
    for item in (*library.parameters(), *library.buffers()):
        key = (item.data_ptr(), item.shape, item.stride())
        item.data = moved.setdefault(key, item.data.clone()) if item.numel() else item.data
    return library


def _claims_causal(library: Any) -> bool:
    """A class that transformers lists for causal language modelling, or that calls itself so."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    name = type(library).__name__
    masked = "MaskedLM" in name
    listed = name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values() or "CausalLM" in name
    return not masked and (listed or name == "AttnlabGPT")
