"""Texts to try a model on, and the situations: a leak may show in only one of them.

Texts are rows of random ids, with as many different ids as fit: a leak may need one certain token
(a separator that looks ahead), so no id comes twice before the whole vocabulary was used, and the
model's special tokens are put into the rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.audit.probing.subject import AttentionMask, Subject
from attnlab.core.seeds import Seed

ROWS = 3
SHORT, OTHER = 23, 19  # primes, so that no width of a model equals the length
LONGER = (67, 131, 257, 521)  # just above the usual sizes of tables and chunks
LONG = 1031
PLAIN = "in evaluation mode"
MANY = 9  # rows: some models take another path for a large batch


@dataclass(frozen=True)
class Probe:
    """The seed and the lengths of the texts that an audit tries a subject on."""

    seed: int = 0
    length: int | None = None  # of the longest text; None: LONG, or the model's context

    def short_length(self, subject: Subject) -> int:
        """Length of the texts that most audits use."""
        usual = OTHER if subject.vocabulary == SHORT else SHORT
        return subject.fitting(max(3, min(usual, subject.context, self.length or usual)))

    def lengths(self, subject: Subject) -> list[int]:
        """The short length, and longer ones up to the longest."""
        long = LONGER[-1] if subject.large else LONG
        most = min(subject.context, self.length or long)
        between = () if subject.large else LONGER
        steps = [*(n for n in between if n < 0.9 * most), most]
        short = self.short_length(subject)
        return [short, *sorted({m for n in steps if (m := subject.fitting(n)) > short})]

    def rows(
        self, subject: Subject, length: int | None = None, rows: int = ROWS, draw: int = 0
    ) -> Tensor:
        """`rows` texts, of the short length if none is given; another `draw` gives other texts."""
        length = self.short_length(subject) if length is None else length
        generator = Seed(self.seed).child("probe", length, draw).torch_generator()
        size = rows * length
        permutations = [
            torch.randperm(subject.vocabulary, generator=generator)
            for _ in range(-(-size // subject.vocabulary))
        ]
        ids = _without_padding_id(torch.cat(permutations)[:size].reshape(rows, length), subject)
        if subject.special and length > 4 and draw == 0:
            for position, marker in zip(range(1, length - 1, 3), subject.special, strict=False):
                ids[-1, position] = marker
        return ids.to(subject.device)

    def pairs(self, subject: Subject, length: int, count: int) -> Tensor:
        """`count` texts that hold as many ids at positions 1 and 2, special tokens first."""
        generator = Seed(self.seed).child("pairs", length).torch_generator()
        ids = torch.randint(0, subject.vocabulary, (count, length), generator=generator)
        first = torch.tensor(subject.special, dtype=torch.long)
        for position in (1, 2):
            every = torch.randperm(subject.vocabulary, generator=generator)
            ids[:, position] = torch.cat([first, every])[:count]
        return _without_padding_id(ids, subject).to(subject.device)

    def repeating(self, subject: Subject, length: int, draw: int = 0) -> Tensor:
        """One text of four different ids, for models that react to repeated tokens."""
        few = self.rows(subject, 4, rows=1, draw=7)[0]
        generator = Seed(self.seed).child("repeating", length, draw).torch_generator()
        return few[torch.randint(0, 4, (1, length), generator=generator).to(few.device)]

    def different_ids(self, ids: Tensor, subject: Subject, draw: int = 1) -> Tensor:
        """The same shape with another id at every position."""
        generator = Seed(self.seed).child("others", draw).torch_generator()
        shift = torch.randint(1, max(2, subject.vocabulary), ids.shape, generator=generator)
        other = _without_padding_id((ids + shift.to(ids.device)) % subject.vocabulary, subject)
        return torch.where(
            other == ids, _without_padding_id((ids + 1) % subject.vocabulary, subject), other
        )


def _without_padding_id(ids: Tensor, subject: Subject) -> Tensor:
    """Replace the padding id, which some models skip wherever it stands."""
    if subject.pad is None:
        return ids
    return ids.where(ids != subject.pad, (subject.pad + 1) % subject.vocabulary)


@dataclass(frozen=True)
class Situation:
    """Ids, attention mask and mode; `description` completes the sentence "it leaks only …"."""

    description: str
    ids: Tensor
    attention_mask: AttentionMask = None
    training: bool = False
    labels: int | None = None  # labels are the ids (0), or the next ids (1)

    @property
    def length(self) -> int:
        """Tokens in a row."""
        return self.ids.shape[1]

    def logits(self, subject: Subject, ids: Tensor | None = None) -> Tensor:
        """The logits of these ids, or of others of the same shape."""
        given = self.ids if ids is None else ids
        if self.labels is not None:
            return subject.logits_with(given, given.roll(-self.labels, dims=1))
        return subject.logits(given, self.attention_mask, training=self.training)


def situations(subject: Subject, probe: Probe) -> Iterator[Situation]:
    """The plain one first, then each with one difference from it."""
    rows = probe.rows(subject, rows=2 if subject.large else ROWS)
    yield Situation(PLAIN, rows)
    yield Situation("for a row alone", rows[:1])
    if subject.takes_mask:
        everything = torch.ones_like(rows, dtype=torch.bool)
        yield Situation("when a mask is given", rows, everything)
        yield Situation("with padding on the right", rows, ragged_mask(rows, left=False))
        yield Situation("with padding on the left", rows, ragged_mask(rows, left=True))
    if subject.labelled is not None:
        yield Situation("when labels are given", rows, labels=0)
        yield Situation("when each label is the next token", rows, labels=1)
    if subject.module is not None:
        yield Situation("in training mode", rows, training=True)
    if not subject.large:
        yield Situation(f"in a batch of {MANY}", probe.rows(subject, rows=MANY, draw=3))


def ragged_mask(ids: Tensor, *, left: bool) -> Tensor:
    """True where a token is real: row r has r · n // (2 · ROWS) of padding, the first has none."""
    count, n = ids.shape
    at = torch.arange(n, device=ids.device)[None]
    pads = torch.arange(count, device=ids.device)[:, None] * n // (2 * ROWS)
    return at >= pads if left else at < n - pads
