"""eval-determinism: does the model say the same thing twice?

Runs: the same ids in evaluation mode, several times, and after texts of other lengths. Number: a
difference of the logits. Fails when it is not 0, bit for bit: dropout is still on, or
something draws, or the model remembers what it was asked before. Which of them is told by asking
with the generators put back: what draws then says the same, what remembers does not.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from attnlab.audit.finding import Finding
from attnlab.audit.probing.isolation import fixed_random_state, random_state, restore_state
from attnlab.audit.probing.localize import localize_repeat
from attnlab.audit.probing.noise import movement
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.subject import Subject
from attnlab.audit.registry import audit

NAME = "eval-determinism"
TIMES, MORE = 3, 300  # MORE where something was drawn: a layer may be left out now and then


@audit(NAME, question="Asked twice, does it answer the same?")
def eval_determinism(subject: Subject, probe: Probe) -> Finding:
    """Judge any model."""
    rows = probe.rows(subject, probe.short(subject))
    with _forgetting(subject):
        size = _asked_again(subject, rows)
    remembers, earlier = _remembered(subject, rows, probe)
    size = max(size, remembers)
    if size == 0:
        why = "asked the same twice, it answers the same, bit for bit"
        return Finding(NAME, "pass", 0.0, 0.0, why)
    with _forgetting(subject):
        place = localize_repeat(subject, rows, earlier if remembers else None)
    cause = (
        "it remembers what it was asked before"
        if remembers
        else "something draws: dropout left on, or noise"
    )
    why = (
        f"asked the same twice in evaluation mode, logits differ by {size:.2g} ({cause}): "
        f"{place.words}"
    )
    return Finding(NAME, "fail", size, 0.0, why, {"module": place.module, "remembers": remembers})


@contextmanager
def _forgetting(subject: Subject) -> Iterator[None]:
    """What is remembered meanwhile is forgotten afterwards."""
    with restore_state(subject.visible_module):
        yield


def _asked_again(subject: Subject, rows: Tensor) -> float:
    """The first difference from the first answer; 0 if there is none."""
    before = random_state()
    first = subject.logits(rows, fresh=False)
    times = MORE if random_state() != before and not subject.large else TIMES
    answers = (subject.logits(rows, fresh=False) for _ in range(times))
    sizes = (float(movement(first, answer).max()) for answer in answers)
    return next((size for size in sizes if size > 0), 0.0)


def _remembered(subject: Subject, rows: Tensor, probe: Probe) -> tuple[float, Tensor]:
    """The largest difference that an earlier question makes, all draws being equal; and which."""

    def ask(ids: Tensor) -> Tensor:
        with fixed_random_state(subject.visible_module):
            return subject.logits(ids, fresh=False)

    with _forgetting(subject):
        first = ask(rows)
        found = [(float(movement(first, ask(rows)).max()), rows)]
    for earlier in _earlier(subject, rows, probe):
        with _forgetting(subject):
            ask(earlier)
            found.append((float(movement(first, ask(rows)).max()), earlier))
    return max(found, key=lambda pair: pair[0])


def _earlier(subject: Subject, rows: Tensor, probe: Probe) -> list[Tensor]:
    """Other questions: other ids, a shorter and a longer text, fewer rows."""
    other, n = probe.others(rows, subject), rows.shape[1]
    shorter, longer = subject.fitting(max(1, n // 3)), subject.fitting(2 * n)
    lengths = [m for m in (shorter, longer) if m != n and not subject.large]
    return [other, *(probe.rows(subject, m, rows=2, deal=4) for m in lengths)]
