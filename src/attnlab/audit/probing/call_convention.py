"""How a forward wants to be asked: found by reading its signature and by trying.

The name under which it takes a padding mask, its type, and whether True is a real token or a pad;
whether it takes positions, labels, a start; whether ids must be int32, or texts of one length.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.probing.closure import captured_modules, device_of
from attnlab.audit.probing.output import extract_logits
from attnlab.audit.probing.subject import AttentionMask
from attnlab.core.errors import UsageError

MASK_NAMES = ("attention_mask", "mask", "visible")  # names of masks in which 1 is a real token
PADDING_MASK_NAMES = (
    "hidden",
    "key_padding_mask",
    "padding_mask",
    "pad_mask",
    "src_key_padding_mask",
)
AMBIGUOUS_MASK_NAMES = ("mask",)  # some mean the real tokens by it, some the pads
POSITION_NAMES = ("position_ids", "positions")
LABEL_NAMES = ("labels", "targets", "target")
START_NAMES = ("start_pos", "input_pos")  # where a cached text goes on: at 0
TRIED_LENGTHS = (3, 4, 8, 16, 32, 64, 128, 256, 512, 1024)  # tried until one runs


@dataclass(frozen=True)
class CallConvention:
    """Names of arguments and the form they must have; None: it takes no such thing."""

    mask: str | None = None
    mask_type: torch.dtype = torch.long
    pads_are_true: bool = False
    positions: str | None = None
    labels: str | None = None
    always_labels: bool = False  # only with labels does it answer at every position
    needed: frozenset[str] = frozenset()
    ids: torch.dtype = torch.long
    ids_name: str | None = None  # given by name only
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Caller:
    """A function and the manner it wants to be asked in."""

    function: Callable[..., Any]
    manner: CallConvention
    name: str

    def __call__(self, ids: Tensor, visible: AttentionMask) -> Tensor:
        """Its logits."""
        given = ids.roll(-1, dims=1) if self.manner.always_labels else None
        return self._answer(ids, visible, given)

    def labelled(self, ids: Tensor, labels: Tensor) -> Tensor:
        """Its logits when labels are given."""
        return self._answer(ids, None, labels)

    def _answer(self, ids: Tensor, visible: AttentionMask, labels: Tensor | None) -> Tensor:
        manner, more, asked_on = self.manner, dict(self.manner.more), ids.device
        ids = ids.to(self.home)
        visible, labels = (t if t is None else t.to(ids.device) for t in (visible, labels))
        if visible is None and manner.needed & {manner.mask, manner.positions}:
            visible = torch.ones_like(ids, dtype=torch.bool)
        if manner.mask is not None and visible is not None:
            given = ~visible if manner.pads_are_true else visible
            more[manner.mask] = given.to(manner.mask_type)
        if manner.positions is not None and visible is not None:
            more[manner.positions] = (visible.long().cumsum(dim=1) - 1).clamp_min(0)
        if manner.labels is not None and labels is not None:
            more[manner.labels] = labels
        given = ids.to(manner.ids)
        if manner.ids_name is not None:
            found = self.function(**{manner.ids_name: given}, **more)
        else:
            found = self.function(given, **more)
        return extract_logits(found, ids, self.name).to(asked_on)

    @cached_property
    def home(self) -> torch.device | None:
        """Where its weights are; whoever asks may be elsewhere. None: it has none."""
        inner = (
            self.function
            if isinstance(self.function, nn.Module)
            else captured_modules(self.function)
        )
        return device_of(inner)


def find_call_convention(function: Callable[..., Any], name: str) -> tuple[Caller, int]:
    """The function with its manner, and the least number of tokens that it reads."""
    known = _parameters(function)
    masks = [word for word in (*MASK_NAMES, *PADDING_MASK_NAMES) if word in known]
    first = CallConvention(
        mask=masks[0] if masks else None,
        pads_are_true=bool(masks) and masks[0] in PADDING_MASK_NAMES,
        mask_type=torch.bool if masks and masks[0] in PADDING_MASK_NAMES else torch.long,
        positions=next((word for word in POSITION_NAMES if word in known), None),
        labels=next((word for word in LABEL_NAMES if word in known), None),
        needed=frozenset(list(known)[1:]) & frozenset(w for w, p in known.items() if _needed(p)),
        ids_name=next((w for w, p in list(known.items())[:1] if p.kind is p.KEYWORD_ONLY), None),
        more={word: 0 for word in START_NAMES if word in known and _needed(known[word])},
    )
    asked, length = _first_that_runs(function, first, name)
    asked = _with_labels(asked, length)
    return _with_mask(asked, length), 1 if length == TRIED_LENGTHS[0] else length


def _needed(parameter: inspect.Parameter) -> bool:
    packed = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return parameter.default is parameter.empty and parameter.kind not in packed


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    try:
        inner = function.forward if isinstance(function, nn.Module) else function
        return dict(inspect.signature(inner).parameters)
    except (TypeError, ValueError):
        return {}


def _first_that_runs(
    function: Callable[..., Any], manner: CallConvention, name: str
) -> tuple[Caller, int]:
    """Ids of 64 or 32 bits; a short text, or the shortest that is read."""
    needs_labels = manner.labels in manner.needed
    forms = [replace(manner, always_labels=needs_labels)]
    if manner.mask in manner.needed:
        other = torch.bool if manner.mask_type == torch.long else torch.long
        forms.append(replace(forms[0], mask_type=other))
    forms += [replace(form, ids=torch.int32) for form in forms]
    first: Exception | None = None
    for form in forms:
        asked = Caller(function, form, name)
        for length in TRIED_LENGTHS:
            try:
                with torch.no_grad():
                    asked(torch.zeros(1, length, dtype=torch.long), None)
                return asked, length
            except Exception as error:  # anyone's code
                first = first or error
    if isinstance(first, UsageError):
        raise first
    raise UsageError(f"{name}: {type(first).__name__}: {str(first)[:200]}") from first


def _with_labels(asked: Caller, length: int) -> Caller:
    """Without labels that cannot be given; always with them where only then all are answered."""
    if asked.manner.labels is None or asked.manner.always_labels:
        return asked
    ids = torch.zeros(1, length, dtype=torch.long)
    plain = _tried(lambda: asked(ids, None))
    given = _tried(lambda: asked.labelled(ids, ids))
    if given is None or given.shape[1] != length:
        return replace(asked, manner=replace(asked.manner, labels=None))
    always = plain is not None and plain.shape[1] != length
    return replace(asked, manner=replace(asked.manner, always_labels=always))


def _with_mask(asked: Caller, length: int) -> Caller:
    """A mask of the type that runs, without positions if they do not; no mask if none runs."""
    manner = asked.manner
    if manner.mask is None:
        return replace(asked, manner=replace(manner, positions=None))
    ids = torch.arange(2 * length).reshape(2, length) % 2
    everything = torch.ones_like(ids, dtype=torch.bool)
    types = (manner.mask_type, torch.bool if manner.mask_type == torch.long else torch.long)
    for positions in dict.fromkeys((manner.positions, None)):
        for kind in types:
            form = replace(manner, mask_type=kind, positions=positions)
            masked = replace(asked, manner=form)
            said = _tried(lambda masked=masked: masked(ids, everything))
            if said is not None:
                return (
                    _right_way_up(masked, ids, said)
                    if manner.mask in AMBIGUOUS_MASK_NAMES
                    else masked
                )
    return replace(asked, manner=replace(manner, mask=None, positions=None))


def _right_way_up(masked: Caller, ids: Tensor, said: Tensor) -> Caller:
    """By its name a mask could mean pads: if no pad at all, said so, changes nothing, it does."""
    plain = _tried(lambda: replace(masked, manner=replace(masked.manner, mask=None))(ids, None))
    other = replace(masked, manner=replace(masked.manner, pads_are_true=True))
    none = _tried(lambda: other(ids, torch.ones_like(ids, dtype=torch.bool)))
    if plain is None or none is None or _close(plain, said) or not _close(plain, none):
        return masked
    return other


def _close(one: Tensor, two: Tensor) -> bool:
    return one.shape == two.shape and bool(torch.allclose(one, two, rtol=1e-3, atol=1e-5))


def _tried(ask: Callable[[], Tensor]) -> Tensor | None:
    try:
        with torch.no_grad():
            return ask()
    except Exception:  # anyone's code
        return None
