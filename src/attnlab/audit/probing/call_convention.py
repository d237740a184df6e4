"""How a forward is called, found by reading its signature and by trying; and what it answers.

The name of its mask argument, its type, and whether True is a real token or padding; whether it
takes positions, labels, a start position; whether ids must be int32, or texts of one length. The
logits are found in whatever it returns.
"""

import inspect
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnlab.audit.finding import describe_error
from attnlab.audit.probing.closure import captured_modules, device_of
from attnlab.audit.probing.subject import AttentionMask, Forward
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
MASK_TYPES = (torch.long, torch.bool)
POSITION_NAMES = ("position_ids", "positions")
LABEL_NAMES = ("labels", "targets", "target")
START_NAMES = ("start_pos", "input_pos")  # the position a cached text continues from: 0
LOGIT_FIELDS = ("logits", "prediction_logits", "last_hidden_state")
TRIED_LENGTHS = (3, 4, 8, 16, 32, 64, 128, 256, 512, 1024)  # tried until one runs
TRIED_CONTEXTS = (2048, 1024, 512, 256, 128, 64, 32, 16, 8)  # where the context is not known


@dataclass(frozen=True)
class Caller:
    """A function with its call convention: ids and an attention mask in, logits out.

    Names of arguments and the form they must have; None: there is no such argument.
    """

    function: Callable[..., Any]
    name: str
    mask: str | None = None
    mask_type: torch.dtype = torch.long
    pads_are_true: bool = False
    positions: str | None = None
    labels: str | None = None
    always_labels: bool = False  # it answers at every position only if labels are given
    needed: frozenset[str] = frozenset()
    ids_type: torch.dtype = torch.long
    ids_name: str | None = None  # a keyword-only argument
    more: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, ids: Tensor, attention_mask: AttentionMask) -> Tensor:
        """The logits of ids; True in the mask is a real token."""
        given = ids.roll(-1, dims=1) if self.always_labels else None
        return self._answer(ids, attention_mask, given)

    def labelled(self, ids: Tensor, labels: Tensor) -> Tensor:
        """The logits it gives when it is also given labels."""
        return self._answer(ids, None, labels)

    def _answer(self, ids: Tensor, attention_mask: AttentionMask, labels: Tensor | None) -> Tensor:
        more, caller_device = dict(self.more), ids.device
        ids = ids.to(self.device)
        if attention_mask is None and self.needed & {self.mask, self.positions}:
            attention_mask = torch.ones_like(ids, dtype=torch.bool)
        if attention_mask is not None:
            real = attention_mask.to(ids.device)
            if self.mask is not None:
                more[self.mask] = (~real if self.pads_are_true else real).to(self.mask_type)
            if self.positions is not None:
                more[self.positions] = (real.long().cumsum(dim=1) - 1).clamp_min(0)
        if self.labels is not None and labels is not None:
            more[self.labels] = labels.to(ids.device)
        given = ids.to(self.ids_type)
        if self.ids_name is not None:
            output = self.function(**{self.ids_name: given}, **more)
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
    first = Caller(
        function,
        name,
        mask=mask,
        pads_are_true=marks_padding,
        mask_type=torch.bool if marks_padding else torch.long,
        positions=first_known(POSITION_NAMES, known),
        labels=first_known(LABEL_NAMES, known),
        needed=frozenset(w for w, p in list(known.items())[1:] if _is_required(p)),
        ids_name=next((w for w, p in list(known.items())[:1] if p.kind is p.KEYWORD_ONLY), None),
        more={word: 0 for word in START_NAMES if word in known and _is_required(known[word])},
    )
    caller, length = _first_that_runs(first)
    caller = _with_mask(_with_labels(caller, length), length)
    return caller, 1 if length == TRIED_LENGTHS[0] else length


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


def _first_that_runs(caller: Caller) -> tuple[Caller, int]:
    """Try int64 and int32 ids, masks of both types and longer texts until a call succeeds."""
    forms = [replace(caller, always_labels=caller.labels in caller.needed)]
    if caller.mask in caller.needed:
        forms += [
            replace(forms[0], mask_type=kind) for kind in MASK_TYPES if kind != caller.mask_type
        ]
    forms += [replace(form, ids_type=torch.int32) for form in forms]
    first: Exception | None = None
    for form in forms:
        for length in TRIED_LENGTHS:
            try:
                with torch.no_grad():
                    form(torch.zeros(1, length, dtype=torch.long), None)
                return form, length
            except Exception as error:  # anyone's code
                first = first or error
    if isinstance(first, UsageError):
        raise first
    assert first is not None
    raise UsageError(f"{caller.name}: {describe_error(first, most=200)}") from first


def _with_labels(caller: Caller, length: int) -> Caller:
    """Drop labels that do not work; always give them where every position needs them."""
    if caller.labels is None or caller.always_labels:
        return caller
    ids = torch.zeros(1, length, dtype=torch.long)
    plain = attempt(lambda: caller(ids, None))
    given = attempt(lambda: caller.labelled(ids, ids))
    if given is None or given.shape[1] != length:
        return replace(caller, labels=None)
    return replace(caller, always_labels=plain is not None and plain.shape[1] != length)


def _with_mask(caller: Caller, length: int) -> Caller:
    """Use the first mask type that runs, without positions if those fail; else no mask."""
    if caller.mask is None:
        return replace(caller, positions=None)
    ids = torch.arange(2 * length).reshape(2, length) % 2
    everything = torch.ones_like(ids, dtype=torch.bool)
    for positions in dict.fromkeys((caller.positions, None)):
        for kind in dict.fromkeys((caller.mask_type, *MASK_TYPES)):
            masked = replace(caller, mask_type=kind, positions=positions)
            logits = attempt(lambda masked=masked: masked(ids, everything))
            if logits is not None:
                ambiguous = caller.mask in AMBIGUOUS_MASK_NAMES
                return _resolve_polarity(masked, ids, logits) if ambiguous else masked
    return replace(caller, mask=None, positions=None)


def _resolve_polarity(masked: Caller, ids: Tensor, logits: Tensor) -> Caller:
    """Find out which way round an ambiguous mask is: one without padding must change nothing."""
    plain = attempt(lambda: replace(masked, mask=None)(ids, None))
    other = replace(masked, pads_are_true=True)
    none = attempt(lambda: other(ids, torch.ones_like(ids, dtype=torch.bool)))
    if plain is None or none is None or _close(plain, logits) or not _close(plain, none):
        return masked
    return other


def _close(one: Tensor, two: Tensor) -> bool:
    return one.shape == two.shape and bool(torch.allclose(one, two, rtol=1e-3, atol=1e-5))


def attempt(ask: Callable[[], Tensor]) -> Tensor | None:
    """The answer without gradient; None where anything is raised."""
    try:
        with torch.no_grad():
            return ask()
    except Exception:  # anyone's code
        return None


def extract_logits(output: Any, ids: Tensor, name: str) -> Tensor:
    """The logits (batch, positions, vocabulary); one answer per row becomes one position."""
    output = _tensor(output)
    count, length = ids.shape
    flat = isinstance(output, Tensor) and output.ndim == 2
    if flat and output.shape[0] == count * length != count:
        output = output.unflatten(0, (count, length))  # flattened for a loss
    if not isinstance(output, Tensor) or not (
        output.is_floating_point() and output.ndim in (2, 3) and output.shape[0] == count
    ):
        shape = tuple(getattr(output, "shape", ())) or type(output).__name__
        raise UsageError(f"{name}: must give logits (batch, length, vocabulary), gave {shape}")
    return output[:, None] if output.ndim == 2 else output


def _tensor(output: Any) -> Any:
    """The field `logits` or the like, else the first item of a tuple that is not just a loss."""
    for field_name in LOGIT_FIELDS:
        inner = get_field(output, field_name)
        if isinstance(inner, Tensor | np.ndarray):
            return _tensor(inner)
    if isinstance(output, tuple | list) and output:
        wide = [item for item in output if getattr(item, "ndim", 0) > 1]
        return _tensor(wide[0]) if wide else output[0]
    return torch.from_numpy(output) if isinstance(output, np.ndarray) else output


def get_field(output: Any, name: str) -> Any:
    """A field of what a forward returned, a mapping or an object; None: it has none."""
    return output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)


def longest_input(forward: Forward, step: int = 1) -> int:
    """Found by bisection: a text too long for the position table, or anything else, raises."""
    least = 3 if step == 1 else step
    low, high = least // step, TRIED_CONTEXTS[0] // step + 1
    for length in TRIED_CONTEXTS:
        if length // step > low and runs(forward, length // step * step):
            low = length // step
            break
        high = min(high, max(length // step, low + 1))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if runs(forward, middle * step) else (low, middle)
    return low * step


def runs(forward: Forward, length: int) -> bool:
    """Whether a text of this length runs and is not truncated."""
    output = attempt(lambda: forward(torch.zeros(1, length, dtype=torch.long), None))
    return output is not None and output.shape[1] in (1, length)
