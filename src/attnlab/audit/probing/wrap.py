"""Anything that maps ids to logits, as a Subject: our GPT, a transformers model, a function.

A padding mask is passed under the name the forward gives it; positions count from the first real
token where the forward accepts them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from torch import Tensor, nn

from attnlab.audit.probing.call_convention import (
    Caller,
    attempt,
    find_call_convention,
    longest_input,
)
from attnlab.audit.probing.closure import captured_modules, on_cpu
from attnlab.audit.probing.isolation import restore_state
from attnlab.audit.probing.subject import AttentionMask, Subject
from attnlab.audit.probing.wrap_module import module_cache, rebuild, why_not_rebuilt
from attnlab.audit.probing.wrap_transformers import transformers_subject
from attnlab.core.errors import UsageError
from attnlab.models.function import FunctionModel
from attnlab.models.gpt import GPT
from attnlab.models.hub import HubModel


def subject_of(model: Any, name: str | None = None) -> Subject:
    """Wrap a model; one that is wrapped already stays as it is."""
    if isinstance(model, Subject):
        return model
    if isinstance(model, HubModel):
        return transformers_subject(model.library, name or model.name, _special(model))
    if isinstance(model, FunctionModel):
        wrap = subject_of if isinstance(model.function, nn.Module) else _callable
        return wrap(model.function, name or model.name)
    if isinstance(model, GPT):
        return _gpt(model, name or model.name)
    if isinstance(model, nn.Module):
        pretrained = hasattr(model, "config") and hasattr(model, "save_pretrained")
        return (transformers_subject if pretrained else _module)(
            model, name or type(model).__name__
        )
    if callable(model):
        return _callable(model, name or getattr(model, "__name__", "function"))
    raise UsageError(f"{type(model).__name__} is not a model: give a module or a function of ids")


def _special(model: HubModel) -> tuple[int, ...]:
    ids = () if model.tokenizer is None else model.tokenizer.library.all_special_ids
    return tuple(i for i in ids if i is not None and 0 <= i < model.vocabulary)


def _callable(function: Callable[..., Any], name: str) -> Subject:
    """A function: its answers are seen, and the modules that it uses."""
    return replace(_explore(function, name), inner=captured_modules(function))


@torch.no_grad()
def _explore(function: Callable[..., Any], name: str) -> Subject:
    """A function, or the forward of a module, with what calling it tells."""
    with on_cpu(captured_modules(function)):
        caller, step = find_call_convention(function, name)
        length = 3 if step == 1 else step
        logits = caller(torch.zeros(1, length, dtype=torch.long), None)
        if logits.shape[1] != length == logits.shape[2] and logits.shape[1] > 1:
            raise UsageError(
                f"{name}: must give logits (batch, length, vocabulary), gave "
                f"{tuple(logits.shape)}: length comes last"
            )
        context = longest_input(caller, step)
        vocabulary = _vocabulary_of(caller, logits.shape[-1], length)
    return Subject(
        name,
        caller,
        vocabulary,
        context,
        takes_mask=caller.mask is not None,
        per_position=logits.shape[1] == length,
        labelled=None if caller.labels is None else caller.labelled,
        step=step,
    )


def _module(module: nn.Module, name: str, like: Subject | None = None) -> Subject:
    """Anyone's module; `like` is given for a copy: the subject of which it is one."""
    if like is None:
        with restore_state(module):
            module.eval()
            like = _explore(module, name)
    caller = replace(cast(Caller, like.forward), function=module)
    return replace(
        like,
        forward=caller,
        labelled=None if caller.labels is None else caller.labelled,
        module=module,
        rewrap=partial(_module, name=name, like=like),
        cache=module_cache(module, name),
        memo={},
        **_save_load_of(module, name, like),
    )


def _save_load_of(module: nn.Module, name: str, like: Subject) -> dict[str, Any]:
    """Its own method `save_load()`, else a second model built and given the same weights."""
    again = getattr(module, "save_load", None)
    if callable(again):
        return {"save_load": lambda: subject_of(again(), name)}
    if reason := why_not_rebuilt(module):
        return {"unsaved": reason}
    return {"save_load": lambda: _module(rebuild(module), name, like)}


def _vocabulary_of(caller: Caller, width: int, length: int) -> int:
    """How many ids it can read: its embedding may be smaller than its logits are wide."""
    low, high = 0, width
    while high - low > 1:
        middle = high - 1 if high == width and low == 0 else (low + high) // 2
        ids = torch.full((1, length), middle)
        reads = attempt(lambda ids=ids: caller(ids, None)) is not None
        low, high = (middle, high) if reads else (low, middle)
    return low + 1


def _gpt(model: GPT, name: str) -> Subject:
    """Our own GPT, whose mask marks padding and whose cache uses the same attention."""

    def forward(ids: Tensor, attention_mask: AttentionMask) -> Tensor:
        return model(ids, None if attention_mask is None else ~attention_mask)

    def cache(chunks: Sequence[Tensor]) -> list[Tensor]:
        cached = model.cached(chunks[0].shape[0], sum(c.shape[1] for c in chunks))
        return [cached.step(chunk) for chunk in chunks]

    def save_load() -> Subject:
        from attnlab.models.hugging_face import export, load

        with TemporaryDirectory() as folder:
            export(model, None, Path(folder))
            return subject_of(load(Path(folder)), name)

    return Subject(
        name,
        forward,
        model.vocabulary,
        model.context,
        model,
        takes_mask=True,
        cache=cache,
        rewrap=lambda made: _gpt(cast(GPT, made), name),
        save_load=save_load,
    )
