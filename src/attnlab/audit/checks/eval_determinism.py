"""eval-determinism: does the model give the same logits twice?

Runs: the same ids in evaluation mode, several times, and after texts of other lengths. Number: a
difference of the logits. Fails when it is not 0, bit for bit: dropout is still on, random numbers
are drawn, or the model keeps state between calls. With fixed random numbers only the last remains,
which tells the cause.
"""

from attnlab.audit.finding import Finding, audit
from attnlab.audit.probing.isolation import restore_state
from attnlab.audit.probing.localize import localize_repeat
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.requirements import measure_repeats
from attnlab.audit.probing.subject import Subject

NAME = "eval-determinism"


@audit(NAME, question="Does the same input give the same output?")
def eval_determinism(subject: Subject, probe: Probe) -> Finding:
    """Judge any model."""
    repeats = measure_repeats(subject, probe)
    size = max(repeats.drawn, repeats.remembered)
    if size == 0:
        why = "two calls with the same input give the same output, bit for bit"
        return Finding(NAME, "pass", 0.0, 0.0, why)
    cause, earlier = "it draws random numbers: dropout left on, or noise", None
    if repeats.remembered:
        cause, earlier = "it keeps state from earlier calls", repeats.earlier
    with restore_state(subject.visible_module):
        place = localize_repeat(subject, repeats.rows, earlier)
    why = (
        f"in evaluation mode, the logits of two calls with the same input differ by {size:.2g} "
        f"({cause}): {place.description}"
    )
    evidence = {"module": place.module, "remembers": repeats.remembered}
    return Finding(NAME, "fail", size, 0.0, why, evidence)
