"""The call convention of a forward, found by reading its signature and by trying.

The name of its mask argument, its type, and whether True is a real token or padding; whether it
takes positions, labels, a start position; whether ids must be int32, or texts of one length.
"""

import inspect
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.probing.closure import captured_modules, device_of
from attnlab.audit.probing.output import extract_logits
from attnlab.audit.probing.subject import AttentionMask
from attnlab.audit.registry import describe_error
from attnlab.core.errors import UsageError

MASK_NAMES = ("attention_mask", "mask", "visible")  # names of masks in which 1 is a real token
PADDING_MASK_NAMES = (
    "hidden",
    "key_padding_mask",
    "padding_mask",
    "pad_mask",
    "src_key_padding_mask",
)
AMBIGUOUS_MASK_NAMES = ("mask",)  # True may be a real token or padding
POSITION_NAMES = ("position_ids", "positions")
LABEL_NAMES = ("labels", "targets", "target")
START_NAMES = ("start_pos", "input_pos")  # the position a cached text continues from: 0
TRIED_LENGTHS = (3, 4, 8, 16, 32, 64, 128, 256, 512, 1024)  # tried until one runs


@dataclass(frozen=True)
class CallConvention:
    """Names of arguments and the form they must have; None: there is no such argument."""

    mask: str | None = None
    mask_type: torch.dtype = torch.long
    pads_are_true: bool = False
    positions: str | None = None
    labels: str | None = None
    always_labels: bool = False  # it answers at every position only if labels are given
    needed: frozenset[str] = frozenset()
    ids: torch.dtype = torch.long
    ids_name: str | None = None  # a keyword-only argument
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Caller:
    """A function with its call convention: ids and an attention mask in, logits out."""

    function: Callable[..., Any]
    convention: CallConvention
    name: str

    def __call__(self, ids: Tensor, attention_mask: AttentionMask) -> Tensor:
        """The logits of ids; True in the mask is a real token."""
        given = ids.roll(-1, dims=1) if self.convention.always_labels else None
        return self._answer(ids, attention_mask, given)

    def labelled(self, ids: Tensor, labels: Tensor) -> Tensor:
        """The logits it gives when it is also given labels."""
        return self._answer(ids, None, labels)

    def _answer(self, ids: Tensor, attention_mask: AttentionMask, labels: Tensor | None) -> Tensor:
        convention, more, caller_device = self.convention, dict(self.convention.more), ids.device
        ids = ids.to(self.device)
        attention_mask, labels = (
            t if t is None else t.to(ids.device) for t in (attention_mask, labels)
        )
        if attention_mask is None and convention.needed & {convention.mask, convention.positions}:
            attention_mask = torch.ones_like(ids, dtype=torch.bool)
        if convention.mask is not None and attention_mask is not None:
            given = ~attention_mask if convention.pads_are_true else attention_mask
            more[convention.mask] = given.to(convention.mask_type)
        if convention.positions is not None and attention_mask is not None:
            more[convention.positions] = (attention_mask.long().cumsum(dim=1) - 1).clamp_min(0)
        if convention.labels is not None and labels is not None:
            more[convention.labels] = labels
        given = ids.to(convention.ids)
        if convention.ids_name is not None:
            output = self.function(**{convention.ids_name: given}, **more)
        else:
            output = self.function(given, **more)
        return extract_logits(output, ids, self.name).to(caller_device)

    @cached_property
    def device(self) -> torch.device | None:
        """The device of its weights, to which inputs are moved; None: it has no weights."""
        return device_of(captured_modules(self.function))


def find_call_convention(function: Callable[..., Any], name: str) -> tuple[Caller, int]:
    """The function with its convention, and the number of tokens it reads texts in multiples of."""
    known = _parameters(function)
    mask = first_known((*MASK_NAMES, *PADDING_MASK_NAMES), known)
    marks_padding = mask in PADDING_MASK_NAMES
    first = CallConvention(
        mask=mask,
        pads_are_true=marks_padding,
        mask_type=torch.bool if marks_padding else torch.long,
        positions=first_known(POSITION_NAMES, known),
        labels=first_known(LABEL_NAMES, known),
        needed=frozenset(w for w, p in list(known.items())[1:] if _is_required(p)),
        ids_name=next((w for w, p in list(known.items())[:1] if p.kind is p.KEYWORD_ONLY), None),
        more={word: 0 for word in START_NAMES if word in known and _is_required(known[word])},
    )
    caller, length = _first_that_runs(function, first, name)
    caller = _with_labels(caller, length)
    return _with_mask(caller, length), 1 if length == TRIED_LENGTHS[0] else length


def first_known(names: Sequence[str], parameters: Container[str]) -> str | None:
    """The first of these names that is a parameter."""
    return next((name for name in names if name in parameters), None)


def _is_required(parameter: inspect.Parameter) -> bool:
    packed = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return parameter.default is parameter.empty and parameter.kind not in packed


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    try:
        inner = function.forward if isinstance(function, nn.Module) else function
        return dict(inspect.signature(inner).parameters)
    except (TypeError, ValueError):
        return {}


def _first_that_runs(
    function: Callable[..., Any], convention: CallConvention, name: str
) -> tuple[Caller, int]:
    """Try int64 and int32 ids, masks of both types and longer texts until a call succeeds."""
    needs_labels = convention.labels in convention.needed
    forms = [replace(convention, always_labels=needs_labels)]
    if convention.mask in convention.needed:
        other = torch.bool if convention.mask_type == torch.long else torch.long
        forms.append(replace(forms[0], mask_type=other))
    forms += [replace(form, ids=torch.int32) for form in forms]
    first: Exception | None = None
    for form in forms:
        caller = Caller(function, form, name)
        for length in TRIED_LENGTHS:
            try:
                with torch.no_grad():
                    caller(torch.zeros(1, length, dtype=torch.long), None)
                return caller, length
            except Exception as error:  # anyone's code
                first = first or error
    if isinstance(first, UsageError):
        raise first
    assert first is not None
    raise UsageError(f"{name}: {describe_error(first, most=200)}") from first


def _with_labels(caller: Caller, length: int) -> Caller:
    """Drop labels that do not work; always give them where every position needs them."""
    if caller.convention.labels is None or caller.convention.always_labels:
        return caller
    ids = torch.zeros(1, length, dtype=torch.long)
    plain = _try(lambda: caller(ids, None))
    given = _try(lambda: caller.labelled(ids, ids))
    if given is None or given.shape[1] != length:
        return replace(caller, convention=replace(caller.convention, labels=None))
    always = plain is not None and plain.shape[1] != length
    return replace(caller, convention=replace(caller.convention, always_labels=always))


def _with_mask(caller: Caller, length: int) -> Caller:
    """Use the first mask type that runs, without positions if those fail; else no mask."""
    convention = caller.convention
    if convention.mask is None:
        return replace(caller, convention=replace(convention, positions=None))
    ids = torch.arange(2 * length).reshape(2, length) % 2
    everything = torch.ones_like(ids, dtype=torch.bool)
    types = (convention.mask_type, torch.bool if convention.mask_type == torch.long else torch.long)
    for positions in dict.fromkeys((convention.positions, None)):
        for kind in types:
            form = replace(convention, mask_type=kind, positions=positions)
            masked = replace(caller, convention=form)
            logits = _try(lambda masked=masked: masked(ids, everything))
            if logits is not None:
                ambiguous = convention.mask in AMBIGUOUS_MASK_NAMES
                return _resolve_polarity(masked, ids, logits) if ambiguous else masked
    return replace(caller, convention=replace(convention, mask=None, positions=None))


def _resolve_polarity(masked: Caller, ids: Tensor, logits: Tensor) -> Caller:
    """Find out which way round an ambiguous mask is: one without padding must change nothing."""
    plain = _try(
        lambda: replace(masked, convention=replace(masked.convention, mask=None))(ids, None)
    )
    other = replace(masked, convention=replace(masked.convention, pads_are_true=True))
    none = _try(lambda: other(ids, torch.ones_like(ids, dtype=torch.bool)))
    if plain is None or none is None or _close(plain, logits) or not _close(plain, none):
        return masked
    return other


def _close(one: Tensor, two: Tensor) -> bool:
    return one.shape == two.shape and bool(torch.allclose(one, two, rtol=1e-3, atol=1e-5))


def _try(ask: Callable[[], Tensor]) -> Tensor | None:
    try:
        with torch.no_grad():
            return ask()
    except Exception:  # anyone's code
        return None
