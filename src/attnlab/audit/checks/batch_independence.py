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
    rows = probe.rows(fine, probe.short(fine))
    found = _movements(fine, probe, rows)
    threshold = max(_threshold(noise), FACTOR * _copies_with_pads(fine, rows, noise))
    worst = max(found, key=lambda name: found[name])
    evidence = {**noise.evidence(), "movements": found}
    if found[worst] <= threshold:
        why = "a row's answer is the same alone, with others and in any order"
        return Finding(NAME, "pass", found[worst], threshold, why, evidence)
    first = next(name for name, size in found.items() if size > threshold)
    only = "only " if list(found).index(first) >= len(_COMPANY) else ""
    place = _place(fine, probe, rows, noise)
    words = place.words if not only or place.module else "it is not seen without that"
    why = (
        f"the logits of a row move by {found[first]:.2g} {only}when it is computed {first}: "
        f"rows read each other; {words}"
    )
    return Finding(NAME, "fail", found[worst], threshold, why, {**evidence, "module": place.module})


def _place(subject: Subject, probe: Probe, rows: Tensor, noise: Noise) -> Location:
    """Where the first row begins to move: among few rows that change, or many."""
    many = probe.rows(subject, rows.shape[1], rows=MANY, deal=2)
    place = Location("", "")
    for given in (rows, torch.cat([rows[:1], many])):
        others = probe.rows(subject, rows.shape[1], rows=MANY, deal=1)
        place = localize_rows(subject, given, others, noise)
        if "outside of any" not in place.words:
            return place
    return place


def _threshold(noise: Noise) -> float:
    """Copies of a row beside it tell the rounding of another batch shape, other rows do not."""
    quiet = [size for change, size in noise.by.items() if change not in ("neighbours", "order")]
    return FACTOR * max([noise.floor, *quiet])


_COMPANY = (
    "with other rows",
    "with other neighbours",
    "as the last row",
    "beside two copies of itself",
)


def _movements(subject: Subject, probe: Probe, rows: Tensor) -> dict[str, float]:
    """Row 0 in every company; with its padding too, where the model takes a mask."""
    one, others = rows[:1], probe.rows(subject, rows.shape[1], deal=1)
    alone = subject.logits(one)
    company = [
        subject.logits(rows)[:1],
        subject.logits(torch.cat([one, others]))[:1],
        subject.logits(torch.cat([others, one]))[-1:],
        subject.logits(one.repeat(3, 1))[1:2],
    ]
    found = {
        name: float(movement(alone, now).max()) for name, now in zip(_COMPANY, company, strict=True)
    }
    if not subject.large:
        many = probe.rows(subject, rows.shape[1], rows=MANY - 1, deal=2)
        now = subject.logits(torch.cat([one, many]))[:1]
        found[f"in a batch of {MANY}"] = float(movement(alone, now).max())
    if subject.takes_mask:
        for left in (False, True):
            side = "left" if left else "right"
            found[f"padded on the {side}, with other rows"] = _beside_pads(subject, rows, left)
    return found


def _copies_with_pads(subject: Subject, rows: Tensor, noise: Noise) -> float:
    """What rounding moves a padded row among copies of itself: kernels with masks are others."""
    if not subject.takes_mask:
        return 0.0
    largest = 0.0
    for left in (False, True):
        visible, last = ragged_mask(rows, left=left), slice(len(rows) - 1, len(rows))
        alone = subject.logits(rows[last], visible[last])
        among = subject.logits(rows[last].expand_as(rows), visible[last].expand_as(visible))
        gap = movement(alone, among[last])
        gap = torch.where(visible[last], gap, 0.0) if gap.shape == visible[last].shape else gap
        size = float(gap.max())
        largest = max(largest, size if size <= noise.rounding else 0.0)
    return largest


def _beside_pads(subject: Subject, rows: Tensor, left: bool) -> float:
    """Every row of a batch in which each has other padding, against the same row alone."""
    visible = ragged_mask(rows, left=left)
    together, largest = subject.logits(rows, visible), 0.0
    for row in range(rows.shape[0]):
        one = slice(row, row + 1)
        gap = movement(subject.logits(rows[one], visible[one]), together[one])
        # one answer a row has no positions to leave out
        gap = torch.where(visible[one], gap, 0.0) if gap.shape == visible[one].shape else gap
        largest = max(largest, float(gap.max()))
    return largest
