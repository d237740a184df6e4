"""Texts to try a model on: rows of ids that between them hold as many different ids as fit.

A leak may hide behind one token (a separator that looks ahead), so the vocabulary is dealt out
like cards before any id comes twice, and the model's own markers are laid into the rows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.audit.probing.subject import Subject
from attnlab.core.seeds import Seed

ROWS = 3
SHORT, OTHER = 23, 19  # primes: no width of a model is mistaken for the length
LONGER = (67, 131, 257, 521)  # just beyond the sizes that tables and chunks are made for
LONG = 1031


@dataclass(frozen=True)
class Probe:
    """What an audit is given besides its subject."""

    seed: int = 0
    length: int | None = None  # the longest text tried; None: LONG, or what the model reads

    def short(self, subject: Subject) -> int:
        """Length of the texts that are tried many times."""
        usual = OTHER if subject.vocabulary == SHORT else SHORT
        return subject.fitting(max(3, min(usual, subject.context, self.length or usual)))

    def lengths(self, subject: Subject) -> list[int]:
        """The short one, and longer ones up to the longest."""
        long = LONGER[-1] if subject.large else LONG
        most = min(subject.context, self.length or long)
        between = () if subject.large else LONGER
        steps = [*(n for n in between if n < 0.9 * most), most]
        short = self.short(subject)
        return [short, *sorted({m for n in steps if (m := subject.fitting(n)) > short})]

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

    def pairs(self, subject: Subject, length: int, count: int) -> Tensor:
        """Texts of `length`; at places 1 and 2 stand so many ids of the vocabulary, marks first."""
        generator = Seed(self.seed).child("pairs", length).torch_generator()
        ids = torch.randint(0, subject.vocabulary, (count, length), generator=generator)
        first = torch.tensor(subject.special, dtype=torch.long)
        for place in (1, 2):
            dealt = torch.cat([first, torch.randperm(subject.vocabulary, generator=generator)])
            ids[:, place] = dealt[:count]
        return _text(ids, subject).to(subject.device)

    def repeating(self, subject: Subject, length: int, deal: int = 0) -> Tensor:
        """One text of four different ids: what compares tokens has something to find in it."""
        few = self.rows(subject, 4, rows=1, deal=7)[0]
        generator = Seed(self.seed).child("repeating", length, deal).torch_generator()
        return few[torch.randint(0, 4, (1, length), generator=generator).to(few.device)]

    def others(self, ids: Tensor, subject: Subject, deal: int = 1) -> Tensor:
        """The same shape with another id at every place."""
        generator = Seed(self.seed).child("others", deal).torch_generator()
        shift = torch.randint(1, max(2, subject.vocabulary), ids.shape, generator=generator)
        other = _text((ids + shift.to(ids.device)) % subject.vocabulary, subject)
        return torch.where(other == ids, _text((ids + 1) % subject.vocabulary, subject), other)


def _text(ids: Tensor, subject: Subject) -> Tensor:
    """Without the id that stands for padding: it is no text, and may be skipped as such."""
    return (
        ids
        if subject.pad is None
        else ids.where(ids != subject.pad, (subject.pad + 1) % subject.vocabulary)
    )
