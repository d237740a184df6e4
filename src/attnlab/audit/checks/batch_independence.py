"""batch-independence: does a row's answer depend on the rows it is computed with?

Runs: a row alone, with other neighbours, in another order, among copies of itself, in a large
batch, every row of a padded batch; in float64 where the model allows. Number: the largest movement
of its logits. Fails above ten times what threads and copies of the row move (copies with its
padding, for a padded row) and what the coarsest rounding inside allows.
"""

import torch
from torch import Tensor

from attnlab.audit.finding import Finding
from attnlab.audit.probing.localize import Location, localize_rows
from attnlab.audit.probing.noise import FACTOR, Noise, movement, noise_of
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.requirements import repeatable
from attnlab.audit.probing.situations import MANY, ragged_mask
from attnlab.audit.probing.subject import Subject
from attnlab.audit.registry import audit

NAME = "batch-independence"


@audit(NAME, question="Do rows of a batch read each other?", needs=(repeatable,))
def batch_independence(subject: Subject, probe: Probe) -> Finding:
    """Judge any model that takes several rows at once."""
    fine = subject.finest()
    noise = noise_of(fine, probe)
    rows = probe.rows(fine, probe.short_length(fine))
    movements = _movements(fine, probe, rows)
    threshold = max(_threshold(noise), FACTOR * _padded_copies(fine, rows, noise))
    worst = max(movements, key=lambda name: movements[name])
    evidence = {**noise.evidence(), "movements": movements}
    if movements[worst] <= threshold:
        why = "a row's logits are the same alone, with other rows and in any order"
        return Finding(NAME, "pass", movements[worst], threshold, why, evidence)
    first = next(name for name, size in movements.items() if size > threshold)
    only = "only " if list(movements).index(first) >= len(_BATCHES) else ""
    place = _place(fine, probe, rows, noise)
    words = place.description if not only or place.module else "no module shows it without that"
    why = (
        f"the logits of a row move by {movements[first]:.2g} {only}when it is computed {first}: "
        f"rows of a batch influence each other; {words}"
    )
    return Finding(
        NAME, "fail", movements[worst], threshold, why, {**evidence, "module": place.module}
    )


def _place(subject: Subject, probe: Probe, rows: Tensor, noise: Noise) -> Location:
    """Where the first row first differs, in a small batch or a large one."""
    many = probe.rows(subject, rows.shape[1], rows=MANY, draw=2)
    place = Location("", "")
    for given in (rows, torch.cat([rows[:1], many])):
        others = probe.rows(subject, rows.shape[1], rows=MANY, draw=1)
        place = localize_rows(subject, given, others, noise)
        if "outside of any" not in place.description:
            return place
    return place


def _threshold(noise: Noise) -> float:
    """Noise of copies of a row alone: other rows beside it are what is tested here."""
    sizes = [
        size for change, size in noise.by_change.items() if change not in ("neighbours", "order")
    ]
    return FACTOR * max([noise.floor, *sizes])


_BATCHES = (
    "with other rows",
    "with other neighbours",
    "as the last row",
    "beside two copies of itself",
)


def _movements(subject: Subject, probe: Probe, rows: Tensor) -> dict[str, float]:
    """How far row 0 moves in every batch; padded rows too, where the model takes a mask."""
    one, others = rows[:1], probe.rows(subject, rows.shape[1], draw=1)
    alone = subject.logits(one)
    batches = [
        subject.logits(rows)[:1],
        subject.logits(torch.cat([one, others]))[:1],
        subject.logits(torch.cat([others, one]))[-1:],
        subject.logits(one.repeat(3, 1))[1:2],
    ]
    movements = {
        name: float(movement(alone, now).max()) for name, now in zip(_BATCHES, batches, strict=True)
    }
    if not subject.large:
        many = probe.rows(subject, rows.shape[1], rows=MANY - 1, draw=2)
        now = subject.logits(torch.cat([one, many]))[:1]
        movements[f"in a batch of {MANY}"] = float(movement(alone, now).max())
    if subject.takes_mask:
        for left in (False, True):
            side = "left" if left else "right"
            movements[f"padded on the {side}, with other rows"] = _padded_rows(subject, rows, left)
    return movements


def _padded_copies(subject: Subject, rows: Tensor, noise: Noise) -> float:
    """How far rounding moves a padded row among copies of itself: masks use other kernels."""
    if not subject.takes_mask:
        return 0.0
    largest = 0.0
    for left in (False, True):
        mask, last = ragged_mask(rows, left=left), slice(len(rows) - 1, len(rows))
        alone = subject.logits(rows[last], mask[last])
        among = subject.logits(rows[last].expand_as(rows), mask[last].expand_as(mask))
        gap = movement(alone, among[last])
        gap = torch.where(mask[last], gap, 0.0) if gap.shape == mask[last].shape else gap
        size = float(gap.max())
        largest = max(largest, size if size <= noise.rounding else 0.0)
    return largest


def _padded_rows(subject: Subject, rows: Tensor, left: bool) -> float:
    """How far the rows of a batch with padding of several lengths move from the row alone."""
    mask = ragged_mask(rows, left=left)
    together, largest = subject.logits(rows, mask), 0.0
    for row in range(rows.shape[0]):
        one = slice(row, row + 1)
        gap = movement(subject.logits(rows[one], mask[one]), together[one])
        # a model with one answer per row has no positions to leave out
        gap = torch.where(mask[one], gap, 0.0) if gap.shape == mask[one].shape else gap
        largest = max(largest, float(gap.max()))
    return largest
