"""eval-determinism: does the model say the same thing twice?

Runs: two forwards of the same ids in evaluation mode, one after the other. Number: the largest
difference of their logits. Fails when it is not 0, bit for bit: dropout is still on, or something
draws, or the model remembers what it was asked before.
"""

from attnlab.audit.finding import Finding
from attnlab.audit.noise import moved
from attnlab.audit.probe import Probe
from attnlab.audit.subject import Subject
from attnlab.audit.where import first_difference

NAME = "eval-determinism"


def eval_determinism(subject: Subject, probe: Probe) -> Finding:
    """Judge any model."""
    rows = probe.rows(subject, probe.short(subject))
    first = subject.logits(rows, fresh=False)
    size = max(float(moved(first, subject.logits(rows, fresh=False)).max()) for _ in range(2))
    if size == 0:
        why = "asked the same twice, it answers the same, bit for bit"
        return Finding(NAME, "pass", 0.0, 0.0, why)
    place = first_difference(subject, rows)
    why = (
        f"asked the same twice in evaluation mode, logits differ by {size:.2g} "
        f"(dropout left on, or noise): {place.words}"
    )
    return Finding(NAME, "fail", size, 0.0, why, {"module": place.module})
