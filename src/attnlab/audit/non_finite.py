"""non-finite: does any number inside become NaN or infinite?

Runs: texts of several lengths, with padding where the model takes a mask; what every module gives
is watched. Number: how many modules give a number that is not finite. Fails when a prediction is
NaN or infinite upwards; names the first module. (Scores of −∞ are how masks are written: let be.)
"""

import torch
from torch import Tensor

from attnlab.audit.finding import Finding
from attnlab.audit.probe import Probe
from attnlab.audit.situations import Situation, padded
from attnlab.audit.subject import Subject
from attnlab.audit.where import watched

NAME = "non-finite"


def non_finite(subject: Subject, probe: Probe) -> Finding:
    """Judge any model."""
    for situation in _texts(subject, probe):
        logits = situation.logits(subject)
        bad = logits.isnan() | (logits == torch.inf)
        if situation.visible is not None and subject.per_position:
            bad = bad & situation.visible[..., None]
        if not bool(bad.any()):
            continue
        row, position = (int(i) for i in bad.any(dim=-1).nonzero()[0])
        names = _first(subject, situation)
        place = f", first in `{names[0]}`" if names else ""
        why = (
            f"the prediction at position {position} of row {row} is not a number "
            f"{situation.words}{place}"
        )
        return Finding(NAME, "fail", float(max(1, len(names))), 0.0, why,
                       {"modules": names[:5], "position": position, "row": row})  # fmt: skip
    return Finding(NAME, "pass", 0.0, 0.0, "every prediction is a finite number")


def _texts(subject: Subject, probe: Probe) -> list[Situation]:
    rows = probe.rows(subject, probe.short(subject))
    found = [Situation("in a short text", rows)]
    if subject.takes_mask:
        found += [
            Situation("with padding on the left", rows, padded(rows, left=True)),
            Situation("with padding on the right", rows, padded(rows, left=False)),
        ]
    longest = probe.lengths(subject)[-1]
    found.append(Situation(f"at length {longest}", probe.rows(subject, longest, rows=1)))
    return found


def _first(subject: Subject, situation: Situation) -> list[str]:
    if subject.module is None:
        return []
    with watched(subject.module) as seen:
        situation.logits(subject)
    return [s.name or "the model itself" for s in seen if any(_bad(t) for t in s.made)]


def _bad(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and bool(tensor.isnan().any() | (tensor == torch.inf).any())
