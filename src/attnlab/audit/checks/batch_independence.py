"""batch-independence: does a row's answer depend on the rows it is computed with?

Runs: a row alone, with other neighbours, in another order, among copies of itself, in a large
batch, every row of a padded batch; in float64 where the model allows. Number: the largest movement
of its logits. Fails above ten times what threads and copies of the row move (copies with its
padding, for a padded row) and what the coarsest rounding inside allows.
"""

import torch
from torch import Tensor

from attnlab.audit.finding import Finding, audit
from attnlab.audit.probing.localize import Location, localize_rows
from attnlab.audit.probing.noise import FACTOR, Noise, largest_movement, movement, noise_of
from attnlab.audit.probing.probe import MANY, Probe, ragged_mask
from attnlab.audit.probing.requirements import repeatable
from attnlab.audit.probing.subject import Subject

NAME = "batch-independence"


@audit(NAME, question="Do rows of a batch read each other?", needs=(repeatable,))
def batch_independence(subject: Subject, probe: Probe) -> Finding:
    """Judge any model that takes several rows at once."""
    fine = subject.finest()
    noise = noise_of(fine, probe)
    rows = probe.rows(fine)
    movements = _movements(fine, probe, rows)
    # other rows beside it are what is tested here
    own = [s for change, s in noise.by_change.items() if change not in ("neighbours", "order")]
    threshold = FACTOR * max(noise.floor, *own, _padded_copies(fine, rows, noise))
    worst = max(movements, key=lambda name: movements[name])
    evidence: dict[str, object] = {**noise.evidence(), "movements": movements}
    if movements[worst] <= threshold:
        why = "a row's logits are the same alone, with other rows and in any order"
        return Finding(NAME, "pass", movements[worst], threshold, why, evidence)
    first = next(name for name, size in movements.items() if size > threshold)
    only = "only " if first.startswith(("in a batch", "padded")) else ""
    place = _place(fine, probe, rows, noise)
    words = place.description if not only or place.module else "no module shows it without that"
    why = (
        f"the logits of a row move by {movements[first]:.2g} {only}when it is computed {first}: "
        f"rows of a batch influence each other; {words}"
    )
    evidence["module"] = place.module
    return Finding(NAME, "fail", movements[worst], threshold, why, evidence)


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


def _movements(subject: Subject, probe: Probe, rows: Tensor) -> dict[str, float]:
    """How far row 0 moves in every batch; padded rows too, where the model takes a mask."""
    one, others = rows[:1], probe.rows(subject, rows.shape[1], draw=1)
    alone = subject.logits(one)
    batches = {
        "with other rows": (rows, 0),
        "with other neighbours": (torch.cat([one, others]), 0),
        "as the last row": (torch.cat([others, one]), len(others)),
        "beside two copies of itself": (one.repeat(3, 1), 1),
    }
    if not subject.large:
        many = probe.rows(subject, rows.shape[1], rows=MANY - 1, draw=2)
        batches[f"in a batch of {MANY}"] = (torch.cat([one, many]), 0)
    movements = {
        name: largest_movement(alone, subject.logits(batch)[at : at + 1])
        for name, (batch, at) in batches.items()
    }
    if subject.takes_mask:
        for side in ("right", "left"):
            movements[f"padded on the {side}, with other rows"] = _padded_rows(subject, rows, side)
    return movements


def _padded_rows(subject: Subject, rows: Tensor, side: str) -> float:
    """How far the rows of a batch with padding of several lengths move from the row alone."""
    mask = ragged_mask(rows, left=side == "left")
    together = subject.logits(rows, mask)
    parts = zip(rows.split(1), mask.split(1), together.split(1), strict=True)
    return max(
        _real_movement(subject.logits(row, real), logits, real) for row, real, logits in parts
    )


def _padded_copies(subject: Subject, rows: Tensor, noise: Noise) -> float:
    """How far rounding moves a padded row among copies of itself: masks use other kernels."""
    sizes = [0.0]
    for left in (False, True) if subject.takes_mask else ():
        mask = ragged_mask(rows, left=left)
        among = subject.logits(rows[-1:].expand_as(rows), mask[-1:].expand_as(mask))[-1:]
        alone = subject.logits(rows[-1:], mask[-1:])
        sizes.append(_real_movement(alone, among, mask[-1:]))
    return max(size for size in sizes if size <= noise.rounding)


def _real_movement(before: Tensor, after: Tensor, mask: Tensor) -> float:
    """The largest movement at real tokens; one answer per row has no positions to leave out."""
    gap = movement(before, after)
    return float((torch.where(mask, gap, 0.0) if gap.shape == mask.shape else gap).max())
