"""What an audit may ask of a model: ids in, logits out; its cache, its modules, a finer copy.

    subject = subject_of(model);    subject.logits(ids);    subject.double()

Nothing here leaves a trace: modes, buffers, gradients and the random state are as they were.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

Visible = Tensor | None  # bool, batch × pos: True is a real token, False is padding
Forward = Callable[[Tensor, Visible], Tensor]
Cache = Callable[[Sequence[Tensor]], list[Tensor]]  # chunks of one text -> their logits

LARGE = 20_000_000  # parameters
DRAWS = 20_261_115  # what draws draws the same before and after a change


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
    kept: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def logits(
        self, ids: Tensor, visible: Visible = None, *, training: bool = False, fresh: bool = True
    ) -> Tensor:
        """Scores of the next id after every position, without gradient.

        `fresh`: what draws draws the same each time, and what the model remembers is forgotten.
        """
        with torch.no_grad(), self.mode(training=training, fresh=fresh):
            return self.forward(ids, visible)

    @contextmanager
    def mode(self, *, training: bool = False, fresh: bool = True) -> Iterator[None]:
        """Evaluation or training; everything is put back."""
        if self.module is None:
            yield
            return
        modes = [(m, m.training) for m in self.module.modules()]
        buffers = {k: b.clone() for k, b in self.module.named_buffers()} if fresh else {}
        self.module.train(training)
        try:
            with torch.random.fork_rng(devices=[], enabled=fresh):
                if fresh:  # anyone's dropout draws from the global generator
                    torch.manual_seed(DRAWS)  # noqa: TID251
                yield
        finally:
            for module, was in modes:
                module.training = was
            here = dict(self.module.named_buffers())
            for name, before in buffers.items():
                if name in here and here[name].shape == before.shape:
                    here[name].copy_(before)

    @cached_property
    def dtype(self) -> torch.dtype:
        """Of the weights; of the answers where no weights are seen."""
        for parameter in [] if self.module is None else self.module.parameters():
            if parameter.is_floating_point():
                return parameter.dtype
        return self.logits(torch.zeros(1, 2, dtype=torch.long)).dtype

    @cached_property
    def large(self) -> bool:
        """So many weights that it is asked less often: minutes on two cores otherwise."""
        own = [] if self.module is None else self.module.parameters()
        return sum(p.numel() for p in own) > LARGE

    @cached_property
    def device(self) -> torch.device:
        """Where the weights are."""
        found = None if self.module is None else next(self.module.parameters(), None)
        return torch.device("cpu") if found is None else found.device

    def double(self) -> "Subject | None":
        """The same model in finer numbers, where it has weights that can be copied and it runs."""
        if "double" not in self.kept:
            self.kept["double"] = self._double()
        return self.kept["double"]

    def _double(self) -> "Subject | None":
        """A large model is asked in float32: a float64 copy would take minutes and tell no more."""
        if self.module is None or self.rewrap is None or self.device.type != "cpu":
            return None
        wanted = torch.float32 if self.large else torch.float64
        if torch.finfo(self.dtype).eps <= torch.finfo(wanted).eps:
            return None if self.large else self
        try:
            made = self.rewrap(copy.deepcopy(self.module).to(wanted))
            if self._breaks(made):
                return None
        except Exception:  # anyone's code: a dtype written into it, a part that cannot be copied
            return None
        return replace(made, name=self.name)

    def _breaks(self, made: "Subject") -> bool:
        """A mask written for float32 may give NaN in float64 where the model itself gives none."""
        ids = torch.arange(7)[None] % self.vocabulary
        real = torch.tensor([[False, False, True, True, True, True, True]])
        masks = [None, real, real.flip(1)] if self.takes_mask else [None]
        for visible in masks:
            keep = torch.ones_like(ids, dtype=torch.bool) if visible is None else visible
            if not self.per_position:
                keep = torch.ones(1, 1, dtype=torch.bool)
            there, here = made.logits(ids, visible)[keep], self.logits(ids, visible)[keep]
            if bool((there.isnan() & ~here.isnan()).any()):
                return True
        return False

    def finest(self) -> "Subject":
        """In the finest numbers that can be had."""
        return self.double() or self
