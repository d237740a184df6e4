"""Anything that maps ids to logits, as a Subject: our GPT, a transformers model, a function.

A padding mask is passed under the name the forward gives it; positions are counted from the first
real token where the forward accepts them.
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
from attnlab.audit.probing.rebuild import can_rebuild, rebuild
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
        inner = model.function
        return (subject_of if isinstance(inner, nn.Module) else _callable)(
            inner, name or model.name
        )
    if isinstance(model, GPT):
        return _gpt(model, name or model.name)
    pretrained = hasattr(model, "config") and hasattr(model, "save_pretrained")
    if isinstance(model, nn.Module) and pretrained:
        return transformers_subject(model, name or type(model).__name__)
    if isinstance(model, nn.Module):
        return _module(model, name or type(model).__name__)
    if callable(model):
        return _callable(model, name or getattr(model, "__name__", "function"))
    raise UsageError(f"{type(model).__name__} is no model: give a module or a function of ids")


def _special(model: HubModel) -> tuple[int, ...]:
    ids = () if model.tokenizer is None else model.tokenizer.library.all_special_ids
    return tuple(i for i in ids if i is not None and 0 <= i < model.vocabulary)


@dataclass(frozen=True)
class _Facts:
    """What was found out about a forward by asking it."""

    manner: CallConvention
    vocabulary: int
    context: int
    per_position: bool
    step: int

    def subject(self, function: Callable[..., Any], name: str, **more: Any) -> Subject:
        """Anyone's function or module as a subject."""
        asked = Caller(function, self.manner, name)
        return Subject(
            name,
            asked,
            self.vocabulary,
            self.context,
            step=self.step,
            takes_mask=self.manner.mask is not None,
            per_position=self.per_position,
            labelled=None if self.manner.labels is None else asked.labelled,
            **more,
        )


@torch.no_grad()
def _facts(function: Callable[..., Any], name: str) -> _Facts:
    with on_cpu(function if isinstance(function, nn.Module) else captured_modules(function)):
        asked, step = find_call_convention(function, name)
        width, per_position, context = _shape(asked, step)
        known = _ids_known(asked, width, step)
    return _Facts(asked.manner, known, context, per_position, step)


def _callable(function: Callable[..., Any], name: str) -> Subject:
    """A function: what it answers is all there is, and the modules it is seen to use."""
    return _facts(function, name).subject(function, name, inner=captured_modules(function))


def _module(module: nn.Module, name: str, facts: _Facts | None = None) -> Subject:
    """Anyone's module; of a copy the facts are known."""
    if facts is None:
        with restore_state(module):
            module.eval()
            facts = _facts(module, name)
    return facts.subject(
        module,
        name,
        module=module,
        rewrap=partial(_module, name=name, facts=facts),
        cache=module_cache(module, name),
        save_load=_own_save_load(module, name, facts),
    )


def _own_save_load(module: nn.Module, name: str, facts: _Facts) -> Any:
    """A method `save_load()` that gives the module after a round trip; else one made anew."""
    again = getattr(module, "save_load", None)
    if callable(again):
        return lambda: subject_of(again(), name)
    if not can_rebuild(module):
        return None
    return lambda: _module(rebuild(module), name, facts)


def _shape(asked: Caller, step: int) -> tuple[int, bool, int]:
    """Width of the answers, whether every position gets one, and the longest input that runs."""
    length = 3 if step == 1 else step
    found = asked(torch.zeros(1, length, dtype=torch.long), None)
    if found.shape[1] != length == found.shape[2] and found.shape[1] > 1:
        raise UsageError(
            f"{asked.name}: must give logits (batch, length, vocabulary), gave "
            f"{tuple(found.shape)}: length comes last"
        )
    return found.shape[-1], found.shape[1] == length, longest_input(asked, step)


def _ids_known(asked: Caller, width: int, step: int) -> int:
    """Ids up to the width of the answers that it can read: an embedding may be smaller."""

    def reads(last: int) -> bool:
        ids = torch.full((1, 3 if step == 1 else step), last)
        try:
            with torch.no_grad():
                asked(ids, None)
        except Exception:  # anyone's code
            return False
        return True

    low, high = 0, width
    while high - low > 1:
        middle = high - 1 if high == width and low == 0 else (low + high) // 2
        low, high = (middle, high) if reads(middle) else (low, middle)
    return low + 1


def _gpt(model: GPT, name: str) -> Subject:
    """Ours: hidden is padding, and the cached step is made from the same attention."""

    def forward(ids: Tensor, visible: AttentionMask) -> Tensor:
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
