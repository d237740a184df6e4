"""What an audit may ask of a model: ids in, logits out; its cache, its modules, a finer copy.

    subject = subject_of(model);    subject.logits(ids);    subject.double()

Nothing here leaves a trace: modes, buffers, attributes, gradients and the random states are as they
were, and the ids stay the asker's own.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.probing.isolation import isolate

AttentionMask = Tensor | None  # bool, batch × pos: True is a real token, False is padding
Forward = Callable[[Tensor, AttentionMask], Tensor]
LabelledForward = Callable[[Tensor, Tensor], Tensor]  # ids and the labels given with them -> logits
Cache = Callable[[Sequence[Tensor]], list[Tensor]]  # chunks of one text -> their logits

LARGE = 20_000_000  # parameters
SPEED = 5e9  # parameters × tokens that a core works through in a second
STACK, PAIRS, ANSWERS = 1024, 130_000, 20_000_000  # tokens, pairs of them, logits at once


@dataclass(frozen=True)
class Subject:
    """A model, its context and vocabulary, and the ways into it that it has."""

    name: str
    forward: Forward
    vocabulary: int
    context: int
    module: nn.Module | None = None  # None: a function, of which only answers are seen
    takes_mask: bool = False
    causal: bool = True  # it claims to predict the next token from the ones before
    per_position: bool = True  # False: one answer a row, as a classifier gives
    cache: Cache | None = None
    rewrap: "Callable[[nn.Module], Subject] | None" = None
    save_load: "Callable[[], Subject] | None" = None  # written to disk and read again
    special: tuple[int, ...] = ()  # ids that a text is marked with
    pad: int | None = None  # the id that is no text: some models skip it wherever it stands
    labelled: LabelledForward | None = None  # its logits when labels are given too
    step: int = 1  # it reads texts of so many tokens, or of a multiple
    inner: nn.Module | None = None  # modules that a function was found to use
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def logits(
        self,
        ids: Tensor,
        visible: AttentionMask = None,
        *,
        training: bool = False,
        fresh: bool = True,
    ) -> Tensor:
        """Scores of the next id after every position, without gradient.

        `fresh`: what draws draws the same each time, and what the model remembers is forgotten.
        """
        with torch.no_grad(), self.mode(training=training, fresh=fresh):
            return self.forward(ids.clone(), visible)

    def logits_with(self, ids: Tensor, labels: Tensor) -> Tensor:
        """The same, with labels given beside the ids."""
        assert self.labelled is not None
        with torch.no_grad(), self.mode():
            return self.labelled(ids.clone(), labels.clone())

    @contextmanager
    def mode(self, *, training: bool = False, fresh: bool = True) -> Iterator[None]:
        """Evaluation or training; everything is put back. A function is left in the mode it has."""
        with isolate(self.module, self.inner, training=training, fresh=fresh):
            yield

    @property
    def visible_module(self) -> nn.Module | None:
        """What can be watched while it runs."""
        return self.inner if self.module is None else self.module

    @cached_property
    def dtype(self) -> torch.dtype:
        """Of the weights; of the answers where no weights are seen."""
        for parameter in [] if self.module is None else self.module.parameters():
            if parameter.is_floating_point():
                return parameter.dtype
        return self.logits(torch.zeros(1, self.fitting(2), dtype=torch.long)).dtype

    @cached_property
    def size(self) -> int:
        """Parameters that are seen, or guessed."""
        if self.visible_module is None:
            return self._guessed_size()
        return sum(p.numel() for p in (*self.visible_module.parameters(), *self._plain()))

    def _plain(self) -> list[Tensor]:
        """Tensors that a function was found to use."""
        return [] if self.module is not None or self.inner is None else list(self.inner.buffers())

    def _guessed_size(self) -> int:
        """Of a function of which nothing is seen: by the time it takes."""
        ids = torch.zeros(1, self.fitting(16), dtype=torch.long)
        self.logits(ids)
        began = perf_counter()
        self.logits(ids)
        return int((perf_counter() - began) / ids.numel() * SPEED)

    def at_once(self, length: int) -> int:
        """Rows of a question: so many that scores and answers fit a cache, or at least memory."""
        most = min(STACK // length, PAIRS // length**2, ANSWERS // (length * self.vocabulary))
        return max(1, most)

    @cached_property
    def work(self) -> int:
        """Parameters that a token is multiplied with: all but tables it is looked up in."""
        parts = [] if self.visible_module is None else list(self.visible_module.modules())
        tables = {id(m.weight): m.weight.numel() for m in parts if isinstance(m, nn.Embedding)}
        others = [m for m in parts if not isinstance(m, nn.Embedding)]
        tied = {id(p) for m in others for p in m.parameters(recurse=False)}
        return self.size - sum(count for key, count in tables.items() if key not in tied)

    @property
    def large(self) -> bool:
        """So many weights that it is asked less often: minutes on two cores otherwise."""
        return self.size > LARGE

    @cached_property
    def device(self) -> torch.device:
        """Where the weights are."""
        found = None if self.module is None else next(self.module.parameters(), None)
        return torch.device("cpu") if found is None else found.device

    def fitting(self, length: int) -> int:
        """The nearest length that the model reads, at least one step of it."""
        return max(1, round(min(length, self.context) / self.step)) * self.step

    def double(self) -> "Subject | None":
        """The same model in finer numbers, where it has weights that can be copied and it runs."""
        from attnlab.audit.probing.float64 import finest_copy

        if "double" not in self.memo:
            self.memo["double"] = finest_copy(self)
        return self.memo["double"]

    def finest(self) -> "Subject":
        """In the finest numbers that can be had."""
        return self.double() or self
