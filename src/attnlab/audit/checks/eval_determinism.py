"""eval-determinism: does the model give the same logits twice?

Runs: the same ids in evaluation mode, several times, and after texts of other lengths. Number: a
difference of the logits. Fails when it is not 0, bit for bit: dropout is still on, random numbers
are drawn, or the model keeps state between calls. With fixed random numbers only the last remains,
which tells the cause.
"""

from torch import Tensor

from attnlab.audit.finding import Finding
from attnlab.audit.probing.isolation import fixed_random_state, random_state, restore_state
from attnlab.audit.probing.localize import localize_repeat
from attnlab.audit.probing.noise import largest_movement
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.subject import Subject
from attnlab.audit.registry import audit

NAME = "eval-determinism"
TIMES, MORE = 3, 300  # MORE if random numbers are drawn: a layer may be skipped rarely


@audit(NAME, question="Asked twice, does it answer the same?")
def eval_determinism(subject: Subject, probe: Probe) -> Finding:
    """Judge any model."""
    rows = probe.rows(subject, probe.short_length(subject))
    with restore_state(subject.visible_module):
        size = _difference_of_repeats(subject, rows)
    remembers, earlier = _difference_by_memory(subject, rows, probe)
    size = max(size, remembers)
    if size == 0:
        why = "asked the same twice, it answers the same, bit for bit"
        return Finding(NAME, "pass", 0.0, 0.0, why)
    with restore_state(subject.visible_module):
        place = localize_repeat(subject, rows, earlier if remembers else None)
    cause = (
        "it keeps state from earlier calls"
        if remembers
        else "it draws random numbers: dropout left on, or noise"
    )
    why = (
        f"asked the same twice in evaluation mode, logits differ by {size:.2g} ({cause}): "
        f"{place.description}"
    )
    return Finding(NAME, "fail", size, 0.0, why, {"module": place.module, "remembers": remembers})


def _difference_of_repeats(subject: Subject, rows: Tensor) -> float:
    """The first difference between repeated calls; 0 if there is none."""
    before = random_state()
    first = subject.logits(rows, fresh=False)
    times = MORE if random_state() != before and not subject.large else TIMES
    answers = (subject.logits(rows, fresh=False) for _ in range(times))
    sizes = (largest_movement(first, answer) for answer in answers)
    return next((size for size in sizes if size > 0), 0.0)


def _difference_by_memory(subject: Subject, rows: Tensor, probe: Probe) -> tuple[float, Tensor]:
    """The largest difference an earlier call makes with fixed random numbers, and its ids."""

    def ask(ids: Tensor) -> Tensor:
        with fixed_random_state(subject.visible_module):
            return subject.logits(ids, fresh=False)

    with restore_state(subject.visible_module):
        first = ask(rows)
        differences = [(largest_movement(first, ask(rows)), rows)]
    for earlier in _earlier_texts(subject, rows, probe):
        with restore_state(subject.visible_module):
            ask(earlier)
            differences.append((largest_movement(first, ask(rows)), earlier))
    return max(differences, key=lambda pair: pair[0])


def _earlier_texts(subject: Subject, rows: Tensor, probe: Probe) -> list[Tensor]:
    """Texts for an earlier call: other ids, a shorter and a longer text, fewer rows."""
    other, n = probe.different_ids(rows, subject), rows.shape[1]
    shorter, longer = subject.fitting(max(1, n // 3)), subject.fitting(2 * n)
    lengths = [m for m in (shorter, longer) if m != n and not subject.large]
    return [other, *(probe.rows(subject, m, rows=2, draw=4) for m in lengths)]
