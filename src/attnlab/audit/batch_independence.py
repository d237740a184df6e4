"""batch-independence: does a row's answer depend on the rows it is computed with?

Runs: a row alone, with other neighbours, in another order, among copies of itself; in float64 where
the model allows. Number: the largest movement of its logits. Fails above ten times what threads
and copies of the row move and what the coarsest rounding inside allows.
"""

import torch
from torch import Tensor

from attnlab.audit.finding import Finding
from attnlab.audit.noise import FACTOR, moved, noise_of
from attnlab.audit.probe import Probe
from attnlab.audit.situations import padded
from attnlab.audit.subject import Subject
from attnlab.audit.where import where_rows

NAME = "batch-independence"


def batch_independence(subject: Subject, probe: Probe) -> Finding:
    """Judge any model that takes several rows at once."""
    fine = subject.finest()
    noise = noise_of(fine, probe)
    rows = probe.rows(fine, probe.short(fine))
    # copies of a row beside it tell the rounding of another batch shape, other rows do not
    quiet = [size for change, size in noise.by.items() if change not in ("neighbours", "order")]
    threshold = FACTOR * max(*quiet, noise.floor)
    found = _movements(fine, probe, rows)
    worst = max(found, key=lambda name: found[name])
    evidence = {**noise.evidence(), "movements": found}
    if found[worst] <= threshold:
        why = "a row's answer is the same alone, with others and in any order"
        return Finding(NAME, "pass", found[worst], threshold, why, evidence)
    place = where_rows(fine, rows, noise)
    why = (
        f"the logits of a row move by {found[worst]:.2g} when it is computed {worst}: "
        f"rows read each other; {place.words}"
    )
    return Finding(NAME, "fail", found[worst], threshold, why,
                   {**evidence, "module": place.module})  # fmt: skip


def _movements(subject: Subject, probe: Probe, rows: Tensor) -> dict[str, float]:
    """Row 0 in every company; with its padding too, where the model takes a mask."""
    one, others = rows[:1], probe.rows(subject, rows.shape[1], deal=1)
    alone = subject.logits(one)
    company = {
        "with other rows": subject.logits(rows)[:1],
        "with other neighbours": subject.logits(torch.cat([one, others]))[:1],
        "as the last row": subject.logits(torch.cat([others, one]))[-1:],
        "beside two copies of itself": subject.logits(one.repeat(3, 1))[1:2],
    }
    found = {name: float(moved(alone, now).max()) for name, now in company.items()}
    if subject.takes_mask:
        visible = padded(rows, left=False)
        last, real = rows[-1:], visible[-1:]
        gap = moved(subject.logits(last, real), subject.logits(rows, visible)[-1:])
        # one answer a row has no positions to leave out
        gap = torch.where(real, gap, 0.0) if gap.shape == real.shape else gap
        found["padded, with other rows"] = float(gap.max())
    return found
