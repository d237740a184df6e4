"""Anything that maps ids to logits, as a Subject: our GPT, a transformers model, a function.

A padding mask is passed under the name the forward gives it; positions are counted from the first
real token where the forward accepts them.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from torch import Tensor, nn

from attnlab.audit.answer import longest, unwrapped
from attnlab.audit.subject import Subject, Visible
from attnlab.audit.wrap_library import library_subject
from attnlab.core.errors import UsageError
from attnlab.models.function import FunctionModel
from attnlab.models.gpt import GPT
from attnlab.models.hub import HubModel

REAL = ("attention_mask", "mask", "visible")  # names of masks in which 1 is a real token
PADDED = ("hidden", "key_padding_mask", "padding_mask", "pad_mask")  # … in which True is padding


def subject_of(model: Any, name: str | None = None) -> Subject:
    """Wrap a model; one that is wrapped already stays as it is."""
    if isinstance(model, Subject):
        return model
    if isinstance(model, HubModel):
        return library_subject(model.library, name or model.name, _special(model))
    if isinstance(model, FunctionModel):
        inner = model.function
        return (subject_of if isinstance(inner, nn.Module) else _callable)(
            inner, name or model.name
        )
    if isinstance(model, GPT):
        return _gpt(model, name or model.name)
    pretrained = hasattr(model, "config") and hasattr(model, "save_pretrained")
    if isinstance(model, nn.Module) and pretrained:
        return library_subject(model, name or type(model).__name__)
    if isinstance(model, nn.Module):
        return _module(model, name or type(model).__name__)
    if callable(model):
        return _callable(model, name or getattr(model, "__name__", "function"))
    raise UsageError(f"{type(model).__name__} is no model: give a module or a function of ids")


def _special(model: HubModel) -> tuple[int, ...]:
    ids = () if model.tokenizer is None else model.tokenizer.library.all_special_ids
    return tuple(i for i in ids if i is not None and 0 <= i < model.vocabulary)


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
    return found.shape[-1], found.shape[1] == 3, longest(forward)


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
