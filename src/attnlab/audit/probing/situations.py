"""The situations in which a model is tried: a leak may show in only one of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.audit.probing.probe import ROWS, Probe
from attnlab.audit.probing.subject import AttentionMask, Subject


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


PLAIN = "in evaluation mode"
MANY = 9  # rows: some models take another path for a large batch


def situations(subject: Subject, probe: Probe) -> Iterator[Situation]:
    """The plain one first, then each with one difference from it."""
    n = probe.short_length(subject)
    rows = probe.rows(subject, n, rows=2 if subject.large else ROWS)
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
        yield Situation(f"in a batch of {MANY}", probe.rows(subject, n, rows=MANY, draw=3))


def ragged_mask(ids: Tensor, *, left: bool) -> Tensor:
    """True where a token is real: row r has r · n // (2 · ROWS) of padding, the first has none."""
    count, n = ids.shape
    at = torch.arange(n, device=ids.device)[None]
    pads = torch.arange(count, device=ids.device)[:, None] * n // (2 * ROWS)
    return at >= pads if left else at < n - pads
