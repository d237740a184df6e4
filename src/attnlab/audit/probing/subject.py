"""A model as audits see it: ids in, logits out; its cache, its modules, a float64 copy.

    subject = subject_of(model);    subject.logits(ids);    subject.finest()

Every call leaves modes, buffers, attributes, gradients and random states as they were, and does not
change the ids it is given.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from attnlab.audit.probing.isolation import NoDropout, fixed_random_state, restore_state, set_mode

T = TypeVar("T")
AttentionMask = Tensor | None  # bool, batch × pos: True is a real token, False is padding
Forward = Callable[[Tensor, AttentionMask], Tensor]
LabelledForward = Callable[[Tensor, Tensor], Tensor]  # ids and labels -> logits
Cache = Callable[[Sequence[Tensor]], list[Tensor]]  # chunks of one text -> their logits

LARGE = 20_000_000  # parameters
LEAST = 50_000  # parameters: a smaller model is no faster
SPEED = 5e9  # parameters × tokens that a core computes in a second
STACK, PAIRS, ANSWERS = 1024, 130_000, 20_000_000  # most tokens, pairs of tokens, logits in a call


@dataclass(frozen=True)
class Subject:
    """A model, its vocabulary and context, and the calls that it offers."""

    name: str
    forward: Forward
    vocabulary: int
    context: int
    module: nn.Module | None = None  # None: a function, of which only the logits are seen
    takes_mask: bool = False
    causal: bool = True  # it claims to predict the next token from the ones before
    per_position: bool = True  # False: one answer per row, as a classifier gives
    cache: Cache | None = None
    rewrap: "Callable[[nn.Module], Subject] | None" = None
    save_load: "Callable[[], Subject] | None" = None  # saved to disk and loaded
    unsaved: str = ""  # why it cannot be
    special: tuple[int, ...] = ()  # special tokens: start, end, separator
    pad: int | None = None  # the padding id, which some models skip wherever it stands
    labelled: LabelledForward | None = None  # its logits when labels are given too
    step: int = 1  # it reads texts whose length is a multiple of this
    inner: nn.Module | None = None  # modules that a function uses
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def logits(
        self,
        ids: Tensor,
        attention_mask: AttentionMask = None,
        *,
        training: bool = False,
        fresh: bool = True,
    ) -> Tensor:
        """Logits of the next id at every position, without gradient.

        `fresh`: with fixed random numbers, and the model's state is restored afterwards.
        """
        with torch.no_grad(), self.mode(training=training, fresh=fresh):
            return self.forward(ids.clone(), attention_mask)

    def logits_with(self, ids: Tensor, labels: Tensor) -> Tensor:
        """The same when labels are given too."""
        assert self.labelled is not None
        with torch.no_grad(), self.mode():
            return self.labelled(ids.clone(), labels.clone())

    @contextmanager
    def mode(self, *, training: bool = False, fresh: bool = True) -> Iterator[None]:
        """Isolate calls of the model in this mode; a function stays in the mode it has."""
        with ExitStack() as stack:
            if fresh:
                stack.enter_context(restore_state(self.visible_module))
                stack.enter_context(fixed_random_state())
            stack.enter_context(set_mode(self.module, training=training))
            if training:
                stack.enter_context(NoDropout())
            yield

    @property
    def visible_module(self) -> nn.Module | None:
        """The module whose parts can be recorded while it runs; None: a function without any."""
        return self.inner if self.module is None else self.module

    @cached_property
    def dtype(self) -> torch.dtype:
        """Type of the weights; of the logits where no weights are seen."""
        for parameter in [] if self.module is None else self.module.parameters():
            if parameter.is_floating_point():
                return parameter.dtype
        return self.logits(torch.zeros(1, self.fitting(2), dtype=torch.long)).dtype

    @cached_property
    def size(self) -> int:
        """Number of parameters; where none is seen, estimated from the time a call takes."""
        if self.visible_module is None:
            ids = torch.zeros(1, self.fitting(16), dtype=torch.long)
            self.logits(ids)
            start = perf_counter()
            self.logits(ids)
            return int((perf_counter() - start) / ids.numel() * SPEED)
        captured = self.visible_module.buffers() if self.module is None else ()  # of a function
        return sum(p.numel() for p in (*self.visible_module.parameters(), *captured))

    def rows_per_call(self, length: int) -> int:
        """Most rows in a call, so that scores and logits fit the processor's cache, or memory."""
        most = min(STACK // length, PAIRS // length**2, ANSWERS // (length * self.vocabulary))
        return max(1, most)

    @cached_property
    def work(self) -> int:
        """Parameters that a token is multiplied with, all but embedding tables; at least LEAST."""
        parts = [] if self.visible_module is None else list(self.visible_module.modules())
        tables = {id(m.weight): m.weight.numel() for m in parts if isinstance(m, nn.Embedding)}
        others = [m for m in parts if not isinstance(m, nn.Embedding)]
        tied = {id(p) for m in others for p in m.parameters(recurse=False)}
        looked_up = sum(count for key, count in tables.items() if key not in tied)
        return max(LEAST, self.size - looked_up)

    @property
    def large(self) -> bool:
        """Whether it has so many weights that audits try fewer texts, to take minutes at most."""
        return self.size > LARGE

    @cached_property
    def device(self) -> torch.device:
        """The device of the weights."""
        weight = None if self.module is None else next(self.module.parameters(), None)
        return torch.device("cpu") if weight is None else weight.device

    def fitting(self, length: int) -> int:
        """The nearest length that the model reads."""
        return max(1, round(min(length, self.context) / self.step)) * self.step

    def finest(self) -> "Subject":
        """A float64 copy (float32 of a large model) if one can be made and run, else the model."""
        from attnlab.audit.probing.copies import finest_copy

        return self.remember("finest", lambda: finest_copy(self)) or self

    def remember(self, key: str, measure: Callable[[], T]) -> T:
        """What `measure` gives, called once for this subject."""
        if key not in self.memo:
            self.memo[key] = measure()
        return self.memo[key]
