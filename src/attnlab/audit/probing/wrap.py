"""Anything that maps ids to logits, as a Subject: our GPT, a transformers model, a function.

A padding mask is passed under the name the forward gives it; positions count from the first real
token where the forward accepts them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from torch import Tensor, nn

from attnlab.audit.probing.cache import module_cache
from attnlab.audit.probing.call_convention import CallConvention, Caller, find_call_convention
from attnlab.audit.probing.closure import captured_modules, on_cpu
from attnlab.audit.probing.isolation import restore_state
from attnlab.audit.probing.output import longest_input
from attnlab.audit.probing.rebuild import rebuild, why_not_rebuilt
from attnlab.audit.probing.subject import AttentionMask, Subject
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
    pretrained = hasattr(model, "config") and hasattr(model, "save_pretrained")
    if isinstance(model, nn.Module) and pretrained:
        return transformers_subject(model, name or type(model).__name__)
    if isinstance(model, nn.Module):
        return _module(model, name or type(model).__name__)
    if callable(model):
        return _callable(model, name or getattr(model, "__name__", "function"))
    raise UsageError(f"{type(model).__name__} is not a model: give a module or a function of ids")


def _special(model: HubModel) -> tuple[int, ...]:
    ids = () if model.tokenizer is None else model.tokenizer.library.all_special_ids
    return tuple(i for i in ids if i is not None and 0 <= i < model.vocabulary)


@dataclass(frozen=True)
class _Facts:
    """What calling a forward has told about it."""

    convention: CallConvention
    vocabulary: int
    context: int
    per_position: bool
    step: int

    def subject(self, function: Callable[..., Any], name: str, **more: Any) -> Subject:
        """The subject of a function or module with these facts."""
        caller = Caller(function, self.convention, name)
        return Subject(
            name,
            caller,
            self.vocabulary,
            self.context,
            step=self.step,
            takes_mask=self.convention.mask is not None,
            per_position=self.per_position,
            labelled=None if self.convention.labels is None else caller.labelled,
            **more,
        )


@torch.no_grad()
def _find_facts(function: Callable[..., Any], name: str) -> _Facts:
    with on_cpu(captured_modules(function)):
        caller, step = find_call_convention(function, name)
        width, per_position, context = _shape(caller, step)
        known = _vocabulary_of(caller, width, step)
    return _Facts(caller.convention, known, context, per_position, step)


def _callable(function: Callable[..., Any], name: str) -> Subject:
    """A function: its answers are seen, and the modules that it uses."""
    return _find_facts(function, name).subject(function, name, inner=captured_modules(function))


def _module(module: nn.Module, name: str, facts: _Facts | None = None) -> Subject:
    """Anyone's module; `facts` are given for a copy, of which they are known."""
    if facts is None:
        with restore_state(module):
            module.eval()
            facts = _find_facts(module, name)
    return facts.subject(
        module,
        name,
        module=module,
        rewrap=partial(_module, name=name, facts=facts),
        cache=module_cache(module, name),
        **_save_load_of(module, name, facts),
    )


def _save_load_of(module: nn.Module, name: str, facts: _Facts) -> dict[str, Any]:
    """Its own method `save_load()`, else a second model built and given the same weights."""
    again = getattr(module, "save_load", None)
    if callable(again):
        return {"save_load": lambda: subject_of(again(), name)}
    if reason := why_not_rebuilt(module):
        return {"unsaved": reason}
    return {"save_load": lambda: _module(rebuild(module), name, facts)}


def _shape(caller: Caller, step: int) -> tuple[int, bool, int]:
    """Width of the logits, whether every position has some, and the longest input that runs."""
    length = 3 if step == 1 else step
    logits = caller(torch.zeros(1, length, dtype=torch.long), None)
    if logits.shape[1] != length == logits.shape[2] and logits.shape[1] > 1:
        raise UsageError(
            f"{caller.name}: must give logits (batch, length, vocabulary), gave "
            f"{tuple(logits.shape)}: length comes last"
        )
    return logits.shape[-1], logits.shape[1] == length, longest_input(caller, step)


def _vocabulary_of(caller: Caller, width: int, step: int) -> int:
    """How many ids it can read: its embedding may be smaller than its logits are wide."""

    def reads(last: int) -> bool:
        ids = torch.full((1, 3 if step == 1 else step), last)
        try:
            with torch.no_grad():
                caller(ids, None)
        except Exception:  # anyone's code
            return False
        return True

    low, high = 0, width
    while high - low > 1:
        middle = high - 1 if high == width and low == 0 else (low + high) // 2
        low, high = (middle, high) if reads(middle) else (low, middle)
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
