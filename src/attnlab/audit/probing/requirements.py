"""What an audit may need of a model. Each gives the reason why a model lacks it, or None.

Above all it must give the same output for the same input. Whether random numbers or state that it
keeps make a difference is measured once for each model; eval-determinism reports it.
"""

from dataclasses import dataclass

from torch import Tensor

from attnlab.audit.finding import CannotJudge
from attnlab.audit.probing.isolation import fixed_random_state, random_state, restore_state
from attnlab.audit.probing.noise import largest_movement, noise_of
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.subject import Subject

TIMES, MORE = 3, 300  # MORE if random numbers are drawn: a layer may be skipped rarely


def causal(subject: Subject, probe: Probe) -> str | None:
    """It claims to predict the next token at every position."""
    if not subject.per_position:
        return "it gives one answer a row, not one a position"
    return None if subject.causal else "it is not a causal language model"


def two_tokens(subject: Subject, probe: Probe) -> str | None:
    """Its vocabulary has a token that another can be replaced by."""
    return None if subject.vocabulary > 1 else "its vocabulary is a single token"


def padding_mask(subject: Subject, probe: Probe) -> str | None:
    """It takes a padding mask, and texts of more than one length."""
    if not subject.takes_mask:
        return "it takes no padding mask"
    if subject.context < 2 * subject.step:
        return "it reads texts of one length only, which leaves no room for padding"
    return None


def cache(subject: Subject, probe: Probe) -> str | None:
    """It is a causal language model that decodes with a cache."""
    if causal(subject, probe) or subject.finest().cache is None:
        return "it has no cache"
    return None


def module(subject: Subject, probe: Probe) -> str | None:
    """It is a module, whose weights can be seen and saved."""
    return "a function has no weights to save" if subject.module is None else None


def repeatable(subject: Subject, probe: Probe) -> None:
    """The same input gives the same output; else a comparison would blame something else."""
    if reason := not_repeatable(subject, probe):
        raise CannotJudge(reason)


def not_repeatable(subject: Subject, probe: Probe) -> str | None:
    """Why answers cannot be compared: random numbers, or state that cannot be restored."""
    finest = subject.finest()

    def reason() -> str | None:
        threshold, rows = noise_of(finest, probe).threshold, probe.rows(finest)
        first = finest.logits(rows)
        finest.logits(probe.different_ids(rows, finest))
        size = largest_movement(first, finest.logits(rows))
        size = max(size, measure_repeats(subject, probe).random)
        if not size > threshold:
            return None
        return (
            f"the model gives different outputs for the same input, by {size:.2g}, so nothing can "
            "be compared (see eval-determinism)"
        )

    return finest.remember("not repeatable", reason)


@dataclass(frozen=True)
class Repeats:
    """Differences between answers to the same ids in evaluation mode."""

    drawn: float  # between calls that follow each other
    remembered: float  # between calls with the same random numbers, after other texts
    earlier: Tensor  # the text before the answer that differs most
    rows: Tensor

    @property
    def random(self) -> float:
        """The difference that random numbers make; 0 if the model keeps state instead."""
        return 0.0 if self.remembered else self.drawn


def measure_repeats(subject: Subject, probe: Probe) -> Repeats:
    """Query with the same input several times, and after texts of other lengths; cached."""

    def measure() -> Repeats:
        rows = probe.rows(subject)
        with restore_state(subject.visible_module):
            drawn = _difference_of_repeats(subject, rows)
        return Repeats(drawn, *_difference_by_memory(subject, rows, probe), rows)

    return subject.remember(f"repeats {probe.seed} {probe.short_length(subject)}", measure)


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
