"""Asked the same again, does a model answer the same? If not: random numbers, or state it keeps.

Measured once for each model and remembered: eval-determinism reports it, and every audit that
compares answers needs it.
"""

from dataclasses import dataclass

from torch import Tensor

from attnlab.audit.probing.isolation import fixed_random_state, random_state, restore_state
from attnlab.audit.probing.noise import largest_movement
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.subject import Subject

TIMES, MORE = 3, 300  # MORE if random numbers are drawn: a layer may be skipped rarely


@dataclass(frozen=True)
class Repeats:
    """Differences between answers to the same ids in evaluation mode."""

    drawn: float  # between calls that follow each other
    remembered: float  # between calls with the same random numbers, after other texts
    rows: Tensor
    earlier: Tensor  # the text before the answer that differs most

    @property
    def size(self) -> float:
        """The larger of the two."""
        return max(self.drawn, self.remembered)

    @property
    def random(self) -> float:
        """The difference that random numbers make; 0 if the model keeps state instead."""
        return 0.0 if self.remembered else self.drawn


def measure_repeats(subject: Subject, probe: Probe) -> Repeats:
    """Ask the same several times, and after texts of other lengths; remembered."""
    key = f"repeats {probe.seed} {probe.short_length(subject)}"
    if key not in subject.memo:
        rows = probe.rows(subject, probe.short_length(subject))
        with restore_state(subject.visible_module):
            drawn = _difference_of_repeats(subject, rows)
        remembered, earlier = _difference_by_memory(subject, rows, probe)
        subject.memo[key] = Repeats(drawn, remembered, rows, earlier)
    return subject.memo[key]


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
