"""Texts to try a model on: rows of ids that between them hold as many different ids as fit.

A leak may hide behind one token (a separator that looks ahead), so the vocabulary is dealt out
like cards before any id comes twice, and the model's own markers are laid into the rows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.audit.subject import Subject
from attnlab.core.seeds import Seed

ROWS = 3
SHORT = 23  # a prime: no width of a model is mistaken for the length
LONG = 509


@dataclass(frozen=True)
class Probe:
    """What an audit is given besides its subject."""

    seed: int = 0
    length: int | None = None  # the longest text tried; None: LONG, or what the model reads

    def short(self, subject: Subject) -> int:
        """Length of the texts that are tried many times."""
        return max(3, min(SHORT, subject.context, self.length or SHORT))

    def lengths(self, subject: Subject) -> list[int]:
        """The short one, and longer ones up to the longest."""
        most = min(subject.context, self.length or LONG)
        between = () if subject.large else (67, 131, 257)
        steps = [self.short(subject), *(n for n in between if n < most), most]
        return sorted({n for n in steps if n >= self.short(subject)})

    def rows(self, subject: Subject, length: int, rows: int = ROWS, deal: int = 0) -> Tensor:
        """`rows` texts; another `deal` gives other ones."""
        generator = Seed(self.seed).child("probe", length, deal).torch_generator()
        size = rows * length
        dealt = [
            torch.randperm(subject.vocabulary, generator=generator)
            for _ in range(-(-size // subject.vocabulary))
        ]
        ids = _text(torch.cat(dealt)[:size].reshape(rows, length), subject)
        if subject.special and length > 4 and deal == 0:
            for place, marker in zip(range(1, length - 1, 3), subject.special, strict=False):
                ids[-1, place] = marker
        return ids.to(subject.device)

    def others(self, ids: Tensor, subject: Subject, deal: int = 1) -> Tensor:
        """The same shape with another id at every place."""
        generator = Seed(self.seed).child("others", deal).torch_generator()
        shift = torch.randint(1, max(2, subject.vocabulary), ids.shape, generator=generator)
        other = _text((ids + shift.to(ids.device)) % subject.vocabulary, subject)
        return torch.where(other == ids, _text((ids + 1) % subject.vocabulary, subject), other)


def _text(ids: Tensor, subject: Subject) -> Tensor:
    """Without the id that stands for padding: it is no text, and may be skipped as such."""
    return ids if subject.pad is None else ids.where(
        ids != subject.pad, (subject.pad + 1) % subject.vocabulary
    )  # fmt: skip
